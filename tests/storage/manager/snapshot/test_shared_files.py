"""Hard links between a log directory and its snapshot: whatever one side does, no byte of the other side changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from snapshot_checks import UNSYNCED, digests, records, snapshot
from snapshot_source import SMALL, T0, Source
from tidelog.model import TidelogError, TopicPartition
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import ReadRange
from tidelog.storage.manager.compact.compact import compact_directory
from tidelog.storage.manager.compact.compact_plan import CompactOptions
from tidelog.storage.manager.recovery.directory_recovery import recover
from tidelog.storage.manager.survey.setting_sources import SettingSources
from tidelog.testing import ManualClock

PARTITION = TopicPartition("t", 0)
GAP_AT = 40
LAST = 100


def make(path: Path, *, high_watermark: int | None = None, gap: bool = True) -> Source:
    """Write 100 records in sealed segments and an active one. Compaction has removed some before offset 40."""
    source = Source(path)
    log = source.log("t-0")
    for number in range(0, GAP_AT, 4):
        kept = number in (0, 12)
        log.append([T0 + number] * 4, keys=[b"%d" % (number + more) if kept else b"same" for more in range(4)])
    log.log.roll()
    for number in range(GAP_AT, LAST, 4):
        log.append([T0 + number] * 4, keys=[b"%d" % (number + more) for more in range(4)])
    source.finish(high_watermarks={} if high_watermark is None else {"t-0": high_watermark})
    if gap:
        compact(path)
    return source


def compact(path: Path) -> None:
    settings = SettingSources(
        overrides={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.bytes": "600"}
    )
    clock = ManualClock(T0 + 10**9)
    options = CompactOptions(sources=settings, clock=clock, cleaner=CleanerSettings(), threads=1)
    compact_directory(UNSYNCED, path, options)


def change(path: Path, work: Callable[[PartitionLog], object]) -> None:
    """Open the log of a clean directory, change it, and close it like a broker."""
    source = Source(path)
    log = source.log("t-0", replace(SMALL, retention_bytes=0, file_delete_delay_ms=0))
    work(log.log)
    source.finish()


def append(path: Path) -> None:
    source = Source(path)
    log = source.log("t-0")
    for number in range(20):
        log.append([T0 + 1000 + number] * 3, codec="lz4")
    source.finish()


def truncate(offset: int) -> Callable[[Path], None]:
    def work(path: Path) -> None:
        change(path, lambda log: log.truncate_to(offset))
        append(path)

    return work


def delete_oldest(path: Path) -> None:
    change(path, lambda log: (log.delete_old_segments(), log.remove_deleted()))
    append(path)


def restart_elsewhere(path: Path) -> None:
    change(path, lambda log: log.truncate_fully_and_start_at(500))
    append(path)


def compact_and_append(path: Path) -> None:
    compact(path)
    append(path)


def recover_everything(path: Path) -> None:
    (path / ".kafka_cleanshutdown").unlink()
    (path / "recovery-point-offset-checkpoint").unlink()
    for index in (path / "t-0").glob("*.index"):
        index.unlink()
    recover(path, now_ms=T0, fs=UNSYNCED)
    append(path)


def delete_the_topic(path: Path) -> None:
    change(path, lambda log: log.delete())


CHANGES: dict[str, Callable[[Path], None]] = {
    "append": append,
    "truncate inside of a sealed segment": truncate(58),
    "truncate between two sealed segments": truncate(GAP_AT),
    "truncate in the gap that the cleaner made": truncate(GAP_AT - 1),
    "truncate in the first segment": truncate(1),
    "delete the oldest segments": delete_oldest,
    "start at another offset": restart_elsewhere,
    "compact": compact_and_append,
    "recover all segments": recover_everything,
    "delete the topic": delete_the_topic,
}


@pytest.mark.parametrize("side", ["source", "snapshot"])
@pytest.mark.parametrize("change_", CHANGES)
def test_a_change_of_one_side_is_not_seen_by_the_other(change_: str, side: str, tmp_path: Path) -> None:
    source, copy = tmp_path / "data", tmp_path / "copy"
    make(source)
    snapshot(source, copy, at_ms=T0 + 10**6)
    assert sum(one.stat().st_nlink == 2 for one in (copy / "t-0").iterdir()) > 3
    changed, other = (source, copy) if side == "source" else (copy, source)
    before, found = digests(other), records(other, PARTITION)

    CHANGES[change_](changed)

    assert digests(other) == before
    shutil.rmtree(changed)
    assert records(other, PARTITION) == found


@pytest.mark.parametrize("side", ["source", "snapshot"])
def test_a_recovery_truncates_its_own_copy_of_a_damaged_file(side: str, tmp_path: Path) -> None:
    source, copy = tmp_path / "data", tmp_path / "copy"
    make(source)
    snapshot(source, copy, at_ms=T0 + 10**6)
    name = sorted((source / "t-0").glob("*.log"))[-2].name
    with (source / "t-0" / name).open("r+b") as file:  # the disk damages the file of both sides
        file.seek(-1, 2)
        file.write(b"?")
    changed, other = (source, copy) if side == "source" else (copy, source)
    before = digests(other)
    recover_everything(changed)
    assert (changed / "t-0" / name).stat().st_size < (other / "t-0" / name).stat().st_size
    assert digests(other) == before


def names_with_links(path: Path) -> set[str]:
    return {one.name for one in (path / "t-0").iterdir() if one.stat().st_nlink > 1}


def test_only_sealed_logs_are_linked(tmp_path: Path) -> None:
    source = make(tmp_path / "data", gap=False)
    snapshot(source.path, tmp_path / "copy", at_ms=T0 + 10**6)
    logs = [one.name for one in sorted((source.path / "t-0").glob("*.log"))]
    assert names_with_links(tmp_path / "copy") == set(logs[:-1])


def test_the_segment_with_the_end_is_not_linked(tmp_path: Path) -> None:
    source = make(tmp_path / "data", gap=False)
    snapshot(source.path, tmp_path / "copy", at_offsets={PARTITION: 62})
    logs = [one.name for one in sorted((source.path / "t-0").glob("*.log")) if int(one.stem) < 62]
    assert names_with_links(tmp_path / "copy") == set(logs[:-1])


def test_a_segment_above_the_high_watermark_is_not_linked(tmp_path: Path) -> None:
    source = make(tmp_path / "data", high_watermark=50, gap=False)
    snapshot(source.path, tmp_path / "copy", at_ms=T0 + 10**6)
    bases = [int(one.stem) for one in sorted((source.path / "t-0").glob("*.log"))]
    linked = {int(name.removesuffix(".log")) for name in names_with_links(tmp_path / "copy")}
    ends = dict(pairwise(bases))
    assert linked == {base for base, end in ends.items() if end <= 50}
    assert linked


def test_an_end_between_two_segments_needs_no_copy(tmp_path: Path) -> None:
    """The last segment stays linked: an empty one follows it, which gets the appends."""
    source = make(tmp_path / "data", gap=False)
    bases = [int(one.stem) for one in sorted((source.path / "t-0").glob("*.log"))]
    result = snapshot(source.path, tmp_path / "copy", at_offsets={PARTITION: bases[2]})
    assert result.directories[0].partitions[0].copy.copied == 0
    logs = {one.name: one.stat() for one in (tmp_path / "copy" / "t-0").glob("*.log")}
    assert [status.st_nlink for _, status in sorted(logs.items())] == [2, 2, 1]
    assert logs[f"{bases[2]:020}.log"].st_size == 0


def test_copies_have_no_links(tmp_path: Path) -> None:
    source = make(tmp_path / "data")
    snapshot(source.path, tmp_path / "copy", at_ms=T0 + 10**6, links=False)
    assert names_with_links(tmp_path / "copy") == set()
    assert records(tmp_path / "copy", PARTITION) == records(source.path, PARTITION)


def test_the_log_end_is_the_first_record_left_out_also_after_compaction(tmp_path: Path) -> None:
    """A group that had read up to the end must find its committed offset inside of the log."""
    source = make(tmp_path / "data")
    found = records(source.path, PARTITION)
    assert [one.offset for one in found[:8]] == [0, 1, 2, 3, 12, 13, 14, 15], "the cleaner has made a gap"
    for end in (8, 20, GAP_AT - 2):  # in a gap inside of a segment, and in gaps between segments
        target = tmp_path / f"copy-{end}"
        try:
            snapshot(source.path, target, at_offsets={PARTITION: end})
        except TidelogError as error:
            raise AssertionError(f"no snapshot that ends at {end}: {error}") from error
        assert records(target, PARTITION) == [one for one in found if one.offset < end]
        view = LogView(LOCAL, target / "t-0")
        assert view.log_end == end
        *_, last = view.batches(ReadRange(start=view.log_start, end=end, control=True))
        assert last.table.row(len(last.table) - 1).last_offset == end - 1, "a consumer would never reach the end"


def test_a_log_without_records_before_the_end_has_an_empty_batch(tmp_path: Path) -> None:
    """Each segment up to the end is empty after a compaction, so the batch is the only one."""
    source = Source(tmp_path / "data")
    log = source.log("t-0")
    for number in range(24):
        log.append([T0 + number] * 4, keys=[b"same"] * 4, leader_epoch=number // 8)
    log.log.roll()
    log.append([T0 + 100], keys=[b"same"], leader_epoch=3)
    source.finish()
    compact(source.path)
    snapshot(source.path, tmp_path / "copy", at_offsets={PARTITION: 50})
    view = LogView(LOCAL, tmp_path / "copy" / "t-0")
    ((row,),) = (list(one.table.rows()) for one in view.batches(ReadRange(start=0, end=50, control=True)))
    assert (row.base_offset, row.last_offset, row.record_count, row.leader_epoch) == (49, 49, 0, 1)
    assert (view.log_start, view.log_end) == (0, 50)
    append(tmp_path / "copy")
    assert [one.offset for one in records(tmp_path / "copy", PARTITION)] == list(range(50, 110))
