"""Staged files become segments as if their batches were appended; a failure leaves the log unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legacy_messages import Message, encode_message
from log_maker import BASE_TIME, CONTROL, TRANSACTIONAL, batch, plain
from storage.log.log_harness import LogHarness, fetch, lead, read
from tidelog.kernel import crc32c, scan_batches
from tidelog.model import (
    CorruptRecordError,
    FileMissingError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    StorageError,
    TidelogError,
    UnsupportedFormatError,
)
from tidelog.storage.fs import LOCAL, LocalFileSystem
from tidelog.storage.log.adopt import staged_segment
from tidelog.storage.log.adopt.staged_segment import read_staged
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig

BATCHES = [plain(0, 3), plain(0, 1, size=300), plain(0, 10), plain(0, 2)]
RECORDS = 16


def staged(harness: LogHarness, batches: list[bytes] | None = None, name: str = ".staged") -> Path:
    path = harness.directory.parent / name
    path.write_bytes(b"".join(BATCHES if batches is None else batches))
    return path


def names(harness: LogHarness) -> list[str]:
    return sorted(path.name for path in harness.directory.iterdir())


def contents(harness: LogHarness, base: int) -> dict[str, bytes]:
    return {path.suffix: path.read_bytes() for path in harness.directory.glob(f"{base:020d}.*")}


def test_an_empty_log_takes_a_file_as_its_first_segment(harness: LogHarness) -> None:
    log = harness.open(is_sole_replica=True)
    path = staged(harness)
    result = log.adopt(path)
    assert (result.offsets, result.max_timestamp) == (range(RECORDS), BASE_TIME + 9)
    assert not path.exists()
    assert log.base_offsets == [0]
    assert (log.end_offset, log.high_watermark, log.recovery_point) == (RECORDS, RECORDS, RECORDS)
    table = scan_batches(fetch(log, 0).data())
    assert table.base_offset.tolist() == [0, 3, 4, 14]
    assert table.leader_epoch.tolist() == [0, 0, 0, 0]
    assert table.summary.sound
    assert harness.epochs() == [(0, 0)]
    assert [read(log, offset)[0] for offset in range(RECORDS)] == [0] * 3 + [3] + [4] * 10 + [14] * 2
    assert [name for name in names(harness) if "deleted" in name] == []


def test_a_file_follows_what_the_log_has_and_is_appended_to(harness: LogHarness) -> None:
    log = harness.open(is_sole_replica=True)
    log.assign_epoch(3, 0)
    harness.add(log, 5, epoch=3)
    assert log.adopt(staged(harness)).offsets == range(5, 21)
    assert log.adopt(staged(harness)).offsets == range(21, 37)
    harness.add(log, 2, epoch=3)
    assert log.base_offsets == [0, 5, 21]
    assert read(log, 4) == [4]
    assert read(log, 5) == [5, 8, 9, 19]
    assert read(log, 21) == [21, 24, 25, 35, 37, 38]
    assert set(scan_batches(fetch(log, 5).data()).leader_epoch.tolist()) == {3}
    assert harness.files(".snapshot") == [5, 21]
    log.close()
    again = harness.open(log_start=0)
    assert again.end_offset == 39
    assert read(again, 21) == [21, 24, 25, 35, 37, 38]


def test_a_log_that_begins_later_goes_on_where_it_ends(harness: LogHarness) -> None:
    log = harness.open()
    log.truncate_fully_and_start_at(1000)
    assert log.adopt(staged(harness)).offsets == range(1000, 1000 + RECORDS)
    assert log.base_offsets == [1000]
    assert log.offset_for_timestamp(BASE_TIME) is None, "it lies above the high watermark"
    log.update_high_watermark(log.end_offset)
    found = log.offset_for_timestamp(BASE_TIME + 5)
    assert found is not None
    assert (found.timestamp, found.offset) == (BASE_TIME + 5, 1009)


def test_readers_of_an_open_transaction_are_held_back_as_before(harness: LogHarness) -> None:
    log = harness.open(is_sole_replica=True)
    harness.produce(log, [b"open"], producer_id=4, sequence=0, attributes=TRANSACTIONAL)
    log.adopt(staged(harness))
    assert log.high_watermark == RECORDS + 1
    assert log.offsets().last_stable.message_offset == 0
    assert log.producers[4].last_sequence == 0


def test_of_nothing_comes_nothing(harness: LogHarness) -> None:
    log = harness.open()
    harness.add(log)
    path = staged(harness, [])
    assert log.adopt(path).offsets == range(1, 1)
    assert not path.exists()
    assert log.base_offsets == [0]


def test_what_an_earlier_adoption_left_is_written_anew(harness: LogHarness) -> None:
    log = harness.open()
    half = [plain(70, 3), plain(73, 1), BATCHES[2], BATCHES[3]]
    (harness.directory / f"{0:020d}.txnindex").write_bytes(b"of a log that is gone")
    assert log.adopt(staged(harness, half)).offsets == range(RECORDS)
    assert read(log, 0) == [0, 3, 4, 14]
    assert ".txnindex" not in contents(harness, 0)


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(st.tuples(st.integers(1, 9), st.integers(8, 400), st.integers(-50, 50)), min_size=1, max_size=30),
    before=st.integers(0, 3),
    interval=st.sampled_from([0, 100, 4096]),
)
def test_it_is_as_if_they_had_been_appended(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, int, int]], before: int, interval: int
) -> None:
    """The log, both indexes and the records read are the same, byte for byte."""
    made = [plain(0, count, size=size, timestamp=BASE_TIME + when) for count, size, when in batches]
    logs = []
    for _ in range(2):
        harness = LogHarness(tmp_path_factory.mktemp("model") / "t-0")
        logs.append((harness, harness.open(index_interval_bytes=interval, is_sole_replica=True)))
        harness.add(logs[-1][1], before)
    (harness, log), (adopting, adopted) = logs
    log.roll()
    for one in made:
        lead(log, one)
    result = adopted.adopt(staged(adopting, made))
    assert (result.first_offset, result.last_offset + 1) == (before, log.end_offset)
    assert adopted.base_offsets == log.base_offsets
    assert adopted.log_end == log.log_end
    assert adopted.offsets() == log.offsets()
    assert adopted.epochs.entries == log.epochs.entries
    for time in range(BASE_TIME - 60, BASE_TIME + 60):
        assert adopted.offset_for_timestamp(time) == log.offset_for_timestamp(time)
    assert adopted.segments[-1].max_timestamp == log.segments[-1].max_timestamp
    more = plain(0, 2, timestamp=BASE_TIME + 99)
    assert lead(adopted, more) == lead(log, more)
    log.close()
    adopted.close()
    for base in log.base_offsets[:-1]:
        assert contents(adopting, base) == contents(harness, base)
    assert contents(adopting, before)[".log"] == contents(harness, before)[".log"]


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(8, 400), min_size=1, max_size=20), interval=st.sampled_from([0, 100, 4096]))
def test_its_indexes_are_those_that_appending_leaves(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], interval: int
) -> None:
    made = [plain(0, 1, size=size, timestamp=BASE_TIME + size) for size in sizes]
    found = []
    for adopts in (False, True):
        harness = LogHarness(tmp_path_factory.mktemp("indexes") / "t-0")
        log = harness.open(index_interval_bytes=interval)
        if adopts:
            log.adopt(staged(harness, made))
        else:
            for one in made:
                lead(log, one)
        log.close()
        found.append(contents(harness, 0))
    assert found[1] == found[0]
    assert sorted(found[1]) == [".index", ".log", ".timeindex"]


@pytest.mark.parametrize(
    ("batches", "error", "text"),
    [
        ([plain(0), plain(0)[:-1]], CorruptRecordError, "the staged file ends within a batch"),
        ([plain(0), b"rubbish"], CorruptRecordError, "the staged file ends within a batch"),
        ([plain(0), plain(0)[:-1] + b"?"], CorruptRecordError, "damaged"),
        ([batch(0, [b"v"], producer_id=1)], InvalidRecordError, "producer id 1"),
        ([batch(0, [b"v"], attributes=TRANSACTIONAL)], InvalidRecordError, "0x10"),
        ([batch(0, [b"v"], attributes=CONTROL)], InvalidRecordError, "0x20"),
        ([batch(0, [b"v"], attributes=0x40)], InvalidRecordError, "0x40"),
        ([batch(0, [b"v"], attributes=0x08)], InvalidTimestampError, "timestamp type is not the log's, CreateTime"),
        ([plain(0, 1, size=5000)], RecordTooLargeError, "above the limit of 4096"),
        ([plain(0, 1, size=4000)] * 3, RecordBatchTooLargeError, "larger than a segment of 10000"),
        ([plain(0, 1)] * 60, RecordBatchTooLargeError, "larger than segment.index.bytes, 240"),
    ],
)
def test_what_is_refused_leaves_the_log_as_it_was(
    harness: LogHarness, batches: list[bytes], error: type[TidelogError], text: str
) -> None:
    log = harness.open(segment_bytes=10_000, max_message_bytes=4096, segment_index_bytes=240, index_interval_bytes=0)
    harness.add(log, 2)
    path = staged(harness, batches)
    before = names(harness), log.log_end, path.read_bytes()
    with pytest.raises(error, match=text) as caught:
        log.adopt(path)
    assert caught.value.path == str(path)
    assert (names(harness), log.log_end, path.read_bytes()) == before
    assert log.is_healthy
    harness.add(log)


def test_other_formats_and_missing_files_are_refused(harness: LogHarness) -> None:
    log = harness.open()
    old = encode_message(Message(0, BASE_TIME, b"k", b"v"), 1)
    with pytest.raises(UnsupportedFormatError, match="format v1") as caught:
        log.adopt(staged(harness, [plain(0, 1), old]))
    assert caught.value.position == len(plain(0, 1))
    with pytest.raises(FileMissingError):
        log.adopt(harness.directory.parent / "none")
    inside = harness.directory / "here"
    inside.write_bytes(plain(0))
    with pytest.raises(ValueError, match="here must be in the parent directory of"):
        log.adopt(inside)
    assert log.is_healthy


def test_gaps_in_the_offsets_are_refused(harness: LogHarness) -> None:
    log = harness.open()
    gap = bytearray(plain(0, 3))
    gap[57:61] = (2).to_bytes(4, "big")
    gap[17:21] = crc32c(gap[21:]).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError, match="2 records with 3 offsets"):
        log.adopt(staged(harness, [bytes(gap)]))


def test_what_was_decided_is_taken_whatever_the_settings_are_now(harness: LogHarness) -> None:
    log = harness.open(segment_bytes=200, max_message_bytes=100, index_interval_bytes=0, segment_index_bytes=24)
    path = staged(harness)
    with pytest.raises(RecordTooLargeError):
        log.adopt(path)
    assert log.adopt(path, is_decided=True).offsets == range(RECORDS)
    harness.add(log, 3)
    assert log.base_offsets[:2] == [0, RECORDS], "the segment is full"
    assert [read(log, offset)[0] for offset in (0, 3, 14, 15, 16)] == [0, 3, 14, 14, 16]


def test_more_than_a_segment_can_ever_hold_is_refused(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    path = staged(harness, [plain(0, 10), plain(0, 10)])
    size = path.stat().st_size
    harness.directory.mkdir()
    for name, enough in (("MAX_SEGMENT_BYTES", size), ("MAX_RELATIVE_OFFSET", 19)):
        monkeypatch.setattr(staged_segment, name, enough)
        assert read_staged(LOCAL, path, LogConfig(), is_decided=True).record_count == 20
        monkeypatch.setattr(staged_segment, name, enough - 1)
        with pytest.raises(RecordBatchTooLargeError):
            read_staged(LOCAL, path, LogConfig(), is_decided=True)
        monkeypatch.undo()


def test_append_time_goes_with_a_log_of_append_time(harness: LogHarness) -> None:
    log = harness.open(message_timestamp_type="LogAppendTime")
    with pytest.raises(InvalidTimestampError, match="timestamp type is not the log's, LogAppendTime"):
        log.adopt(staged(harness))
    assert log.adopt(staged(harness, [batch(0, [b"v", b"w"], attributes=0x08)])).offsets == range(2)


def test_a_failed_step_can_be_repeated_by_the_next_owner(harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    log: PartitionLog = harness.open()
    harness.add(log, 2)
    path = staged(harness)

    rename = LocalFileSystem.rename

    def fails(fs: LocalFileSystem, source: Path, target: Path) -> None:
        if target.parent != harness.directory:
            return rename(fs, source, target)
        raise StorageError("no", path=source)

    monkeypatch.setattr(LocalFileSystem, "rename", fails)
    with pytest.raises(StorageError):
        log.adopt(path)
    monkeypatch.undo()
    assert not log.is_healthy
    assert read(log, 0) == [0, 1]
    log.close()
    again = harness.open(clean=False, recovery_point=2)
    assert again.adopt(path).offsets == range(2, 2 + RECORDS)
    assert read(again, 0) == [0, 1]
    assert read(again, 2) == [2, 5, 6, 16]
