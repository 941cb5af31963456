"""Rewritten segments replace others in an open log: readers continue, and a rewrite of outdated segments is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_maker import plain
from overflowed_log import LAST, OVERFLOWED, PIECES, REACH, three_pieces, with_transactions
from storage.log.log_harness import LogHarness, fetch, read
from storage.log.test_overflow_split import contents, records, wanted
from tidelog.kernel import scan_batches
from tidelog.model import (
    ClosedError,
    CorruptRecordError,
    Isolation,
    LogCleaningAbortedError,
    LogOffsetMetadata,
    StorageError,
)
from tidelog.storage.fs import LOCAL, LocalFileSystem
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.index import AbortedTxn, encode_transactions
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.cleaned_segment import CleanedSegment
from tidelog.storage.segment.file_names import MAX_OFFSET
from tidelog.storage.segment.segment import LogSegment

SEGMENT = 4 * len(plain(0, 1))


def filled(harness: LogHarness, segments: int = 4) -> PartitionLog:
    """Fill segments of four records, and leave the last one empty, so that the others are full."""
    log = harness.open(segment_bytes=SEGMENT, index_interval_bytes=0)
    harness.add(log, 4 * segments)
    log.roll()
    return log


def cleaned_segment(log: PartitionLog, base: int, offsets: list[int]) -> CleanedSegment:
    cleaned = CleanedSegment(LOCAL, log.directory, base, index_interval_bytes=0)
    data = b"".join(plain(offset, 1) for offset in offsets)
    cleaned.append(data, scan_batches(data))
    cleaned.finish(mtime_ms=5_000)
    return cleaned


def replace(log: PartitionLog, cleaned: CleanedSegment, old: tuple[LogSegment, ...]) -> None:
    log.replace_segments([cleaned], old, truncation_count=log.truncation_count)


def names(harness: LogHarness) -> set[str]:
    return {path.name[20:] for path in harness.directory.iterdir() if path.name[:20].isdigit()}


def test_several_become_one(harness: LogHarness) -> None:
    log = filled(harness)
    log.update_high_watermark(16)
    replace(log, cleaned_segment(log, 4, [5, 9, 10]), log.segments[1:3])
    assert log.base_offsets == [0, 4, 12, 16]
    assert read(log, 3) == [3]
    assert read(log, 4) == [5, 9, 10]
    assert read(log, 6) == [9, 10]
    assert read(log, 11) == [12, 13, 14, 15]
    assert (log.end_offset, log.log_start_offset) == (16, 0)
    assert log.segments[1].max_timestamp.offset == 10
    assert LOCAL.stat(log.segments[1].path).mtime_ms == 5_000
    assert harness.files(".log.deleted") == [4, 8]
    harness.clock.now += log.config.file_delete_delay_ms
    assert log.remove_deleted() == 2
    assert names(harness) == {".log", ".index", ".timeindex", ".snapshot"}


def test_the_snapshot_of_a_segment_that_is_there_no_more_goes_with_it(harness: LogHarness) -> None:
    log = filled(harness)
    assert harness.files(".snapshot") == [4, 8, 12, 16]
    replace(log, cleaned_segment(log, 4, [5]), log.segments[1:3])
    assert harness.files(".snapshot") == [4, 12, 16]
    assert harness.files(".snapshot.deleted") == [8]


def test_who_reads_an_old_segment_goes_on(harness: LogHarness) -> None:
    log = filled(harness)
    found = fetch(log, 4)
    replace(log, cleaned_segment(log, 4, []), log.segments[1:2])
    assert scan_batches(found.data()).base_offset.tolist() == [4, 5, 6, 7]
    assert read(log, 4) == [8, 9, 10, 11]


def test_a_high_watermark_at_the_end_of_a_segment_that_is_replaced(harness: LogHarness) -> None:
    log = filled(harness)
    log.maybe_increment_high_watermark(LogOffsetMetadata(12, 8, SEGMENT))
    replace(log, cleaned_segment(log, 4, [5]), log.segments[1:3])
    assert log.offsets().high_watermark == LogOffsetMetadata(12, 12, 0)
    assert fetch(log, 6, Isolation.READ_UNCOMMITTED).batches is None


def test_it_is_there_after_loading_again(harness: LogHarness) -> None:
    log = filled(harness)
    replace(log, cleaned_segment(log, 0, [3, 7]), log.segments[:3])
    log.close()
    again = harness.open(segment_bytes=SEGMENT)
    assert again.base_offsets == [0, 12, 16]
    assert read(again, 0) == [3, 7]
    assert again.end_offset == 16


@pytest.mark.parametrize("kind", [".log", ".index"])
def test_a_file_that_is_opened_meanwhile_is_that_of_the_old_segment(
    harness: LogHarness, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The new segment, which has the same name by then, has its batches elsewhere."""
    filled(harness).close()
    log = harness.open(segment_bytes=SEGMENT, index_interval_bytes=0)
    log.update_high_watermark(16)  # resolves the position without opening a file
    if kind == ".index":
        assert log.segments[0]._file.size == SEGMENT
    made, whole = [CleanedSegment(LOCAL, log.directory, 0, index_interval_bytes=0)], LocalFileSystem.open
    data = b"".join(plain(offset, 1, size=50) for offset in (0, 1, 3))
    made[0].append(data, scan_batches(data))
    made[0].finish(mtime_ms=5_000)

    def late(fs: LocalFileSystem, path: Path, **options: bool) -> LocalFile:
        if path == log.directory / f"{0:020d}{kind}" and made:
            replace(log, made.pop(), log.segments[:1])
        return whole(fs, path, **options)

    monkeypatch.setattr(LocalFileSystem, "open", late)
    assert read(log, 3) == [3]
    assert read(log, 2) == [3]
    assert not made


class TestRefused:
    """A refused replacement changes nothing."""

    def refused(self, log: PartitionLog, old: tuple[LogSegment, ...], cuts: int) -> None:
        before = log.segments
        cleaned = cleaned_segment(log, old[0].base_offset, [5])
        with pytest.raises(LogCleaningAbortedError, match="have changed since they were read"):
            log.replace_segments([cleaned], old, truncation_count=cuts)
        cleaned.discard()
        assert log.segments == before
        assert ".log.cleaned" not in names(LogHarness(log.directory))

    def test_records_were_cut(self, harness: LogHarness) -> None:
        log = filled(harness)
        old, cuts = log.segments[1:2], log.truncation_count
        log.truncate_to(15)
        self.refused(log, old, cuts)

    def test_the_log_began_anew(self, harness: LogHarness) -> None:
        log = filled(harness)
        old, cuts = log.segments[1:2], log.truncation_count
        log.truncate_fully_and_start_at(4)
        self.refused(log, old, cuts)

    def test_it_is_appended_to(self, harness: LogHarness) -> None:
        log = filled(harness)
        self.refused(log, log.segments, log.truncation_count)

    def test_all_were_deleted(self, harness: LogHarness) -> None:
        log = filled(harness)
        old = log.segments[:2]
        log.update_high_watermark(16)
        log.maybe_increment_log_start_offset(8)
        assert len(log.delete_old_segments().deletions) == 2
        self.refused(log, old, log.truncation_count)

    def test_the_log_is_closed(self, harness: LogHarness) -> None:
        log = filled(harness)
        cleaned, old, cuts = cleaned_segment(log, 4, [5]), log.segments[1:2], log.truncation_count
        log.close()
        with pytest.raises(ClosedError):
            log.replace_segments([cleaned], old, truncation_count=cuts)


def test_some_were_deleted_meanwhile(harness: LogHarness) -> None:
    log = filled(harness)
    old = log.segments[:3]
    log.update_high_watermark(16)
    log.maybe_increment_log_start_offset(4)
    log.delete_old_segments()
    replace(log, cleaned_segment(log, 0, [5]), old)
    assert log.base_offsets == [0, 12, 16]
    assert read(log, 4) == [5]
    assert len(log.delete_old_segments().deletions) == 0


class TestSplit:
    def opened(self, directory: Path) -> tuple[LogHarness, PartitionLog]:
        harness = LogHarness(directory)
        return harness, harness.open(index_interval_bytes=0)

    def test_a_segment_of_an_open_log(self, tmp_path: Path) -> None:
        harness, log = self.opened(three_pieces(tmp_path / "t-0"))
        before = records(harness.directory)
        mtime_ms = LOCAL.stat(log.segments[1].path).mtime_ms
        assert log.split_overflowed(log.segments[1]) == list(PIECES)
        assert log.base_offsets == [0, *PIECES, LAST]
        assert {LOCAL.stat(segment.path).mtime_ms for segment in log.segments[1:-1]} == {mtime_ms}
        harness.clock.now += log.config.file_delete_delay_ms
        log.remove_deleted()
        log.close()
        expected = wanted(tmp_path / "wanted")
        assert {name: data for name, data in contents(harness.directory).items() if name in expected} == expected
        assert records(harness.directory) == before

    def test_its_aborted_transactions_lie_with_their_markers(self, tmp_path: Path) -> None:
        directory, far = with_transactions(tmp_path / "t-0"), OVERFLOWED + REACH + 5
        low, over, high = (
            AbortedTxn(7, 100, 104, 103),
            AbortedTxn(7, far, far + 2, 103),
            AbortedTxn(9, 103, far + 3, far + 4),
        )
        (directory / f"{OVERFLOWED:020d}.txnindex").write_bytes(encode_transactions([low, over, high]))
        _, log = self.opened(directory)
        first, second = log.split_overflowed(log.segments[1])
        assert (first, second) == (OVERFLOWED, far)
        assert [[*one.collect_aborted(0, MAX_OFFSET).transactions] for one in log.segments] == [
            [],
            [low],
            [over, high],
            [],
        ]
        log.close()

    def test_there_is_nothing_to_split(self, harness: LogHarness) -> None:
        log = filled(harness)
        with pytest.raises(StorageError, match="nothing to split"):
            log.split_overflowed(log.segments[0])
        assert ".log.cleaned" not in names(harness)

    def test_damage_is_not_carried_along(self, tmp_path: Path) -> None:
        directory = three_pieces(tmp_path / "t-0")
        path = directory / f"{OVERFLOWED:020d}.log"
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
        harness, log = self.opened(directory)
        with pytest.raises(CorruptRecordError, match="damaged"):
            log.split_overflowed(log.segments[1])
        assert ".log.cleaned" not in names(harness)
        log.close()
