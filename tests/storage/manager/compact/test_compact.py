"""Compacting a directory that no process has open: the result, the unchanged files, refusals, and cancelling."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tidelog
from dirty_directory import last_values, make_dirty, record_offsets
from golden_sets import footprint
from log_maker import BASE_TIME, mark_clean
from overflowed_log import three_pieces
from tidelog.inspect.verify import verify_directory
from tidelog.model import CancelledError, CorruptRecordError, DirectoryError, Isolation, LockedError, TidelogError
from tidelog.runtime.progress import Progress
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.compact.compact import CompactResult, compact_directory, compact_into
from tidelog.storage.manager.compact.compact_plan import CompactOptions
from tidelog.storage.manager.survey.setting_sources import SettingSources
from tidelog.testing import ManualClock

COMMITTED = Isolation.READ_COMMITTED
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0"}


def options(**others: Any) -> CompactOptions:
    clock = ManualClock(BASE_TIME + 1_000_000)
    return CompactOptions(sources=SettingSources(overrides=SETTINGS), clock=clock, **{"threads": 2} | others)


def compact(path: Path, **named: Any) -> CompactResult:
    result = compact_directory(LOCAL, path, options(), **named)
    assert result.failures == ()
    return result


def other_files(path: Path) -> Mapping[str, bytes]:
    """Return all files that compaction does not touch."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.suffix not in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
        if file.name not in (CLEANER_CHECKPOINT, ".lock")
    }


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    return make_dirty(tmp_path / "data", partitions=3)


def test_the_last_values_stay_and_the_rest_goes(dirty: Path) -> None:
    values, records, others = last_values(dirty, COMMITTED), record_offsets(dirty), other_files(dirty)
    told: list[Progress] = []
    result = compact(dirty, on_progress=told.append)
    assert last_values(dirty, COMMITTED) == values
    assert [log.name for log in result.logs] == ["t-0", "t-1", "t-2"]
    assert result.bytes_freed > sum(log.bytes for log in result.logs)
    for log in result.logs:
        left = record_offsets(dirty)[log.name]
        assert set(left) < set(records[log.name])
        assert left[-1] == records[log.name][-1]
    assert other_files(dirty) == others, "marker, recovery points, log starts, high watermarks, epochs"
    ends = {log.partition: log.first_dirty_offset for log in result.logs}
    assert OffsetCheckpoint.read(LOCAL, dirty / CLEANER_CHECKPOINT) == ends
    assert not [file for file in dirty.rglob("*") if file.suffix in (".cleaned", ".swap", ".deleted")]
    assert told[-1].bytes_done == told[-1].bytes_total > 0
    assert told[-1].logs_done == 3
    assert not [finding for part in verify_directory(LOCAL, dirty).partitions for finding in part.findings]


def test_the_log_goes_on_where_it_was(dirty: Path) -> None:
    compact(dirty)
    with tidelog.open_log(dirty / "t-0") as log:
        end = log.offsets().log_end.message_offset
        assert log.append(b"new", key=b"key-1") == end


def test_twice_is_once(dirty: Path) -> None:
    compact(dirty)
    before = footprint(dirty)
    assert compact(dirty).logs == ()
    assert footprint(dirty) == before


def test_a_small_buffer_takes_several_rounds(dirty: Path) -> None:
    values = last_values(dirty, COMMITTED)
    small = options(cleaner=CleanerSettings(dedupe_buffer_bytes=2 * 24 * 20))
    result = compact_directory(LOCAL, dirty, small)
    assert result.failures == ()
    assert all(log.rounds > 1 for log in result.logs)
    assert last_values(dirty, COMMITTED) == values


def test_only_some(dirty: Path) -> None:
    result = compact(dirty, only=[tidelog.TopicPartition("t", 1)])
    assert [log.name for log in result.logs] == ["t-1"]
    assert OffsetCheckpoint.read(LOCAL, dirty / CLEANER_CHECKPOINT).keys() == {tidelog.TopicPartition("t", 1)}


def test_a_checkpoint_that_cannot_be_right_is_reset(dirty: Path) -> None:
    past_end = {tidelog.TopicPartition("t", 0): 10**6, tidelog.TopicPartition("gone", 7): 3}
    OffsetCheckpoint.write(LOCAL, dirty / CLEANER_CHECKPOINT, past_end)
    result = compact(dirty)
    kept = OffsetCheckpoint.read(LOCAL, dirty / CLEANER_CHECKPOINT)
    assert kept == {log.partition: log.first_dirty_offset for log in result.logs} | {
        tidelog.TopicPartition("gone", 7): 3
    }


def test_who_is_refused(dirty: Path) -> None:
    before = record_offsets(dirty)
    lock = LOCAL.lock(dirty / ".lock")
    with pytest.raises(LockedError):
        compact(dirty)
    lock.release()
    (dirty / ".kafka_cleanshutdown").unlink()
    with pytest.raises(DirectoryError, match="recover it first"):
        compact(dirty)
    with pytest.raises(DirectoryError, match="recover it first"):
        compact_into(LOCAL, dirty, options(), output=dirty.parent / "copy")
    assert record_offsets(dirty) == before


def damage(path: Path) -> Path:
    """Damage a byte of a batch in the middle of ``t-1``."""
    log = sorted((path / "t-1").glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    return log


def test_a_damaged_log_fails_alone_and_stays_as_it_is(dirty: Path) -> None:
    log = damage(dirty)
    before = {file: file.read_bytes() for file in (dirty / "t-1").iterdir()}
    result = compact_directory(LOCAL, dirty, options())
    [(name, error)] = result.failures
    assert name == "t-1"
    assert isinstance(error, CorruptRecordError)
    assert error.path == str(log)
    assert [log.name for log in result.logs] == ["t-0", "t-2"]
    assert {file: file.read_bytes() for file in (dirty / "t-1").iterdir()} == before


class TestInto:
    def test_the_copy_is_what_compacting_in_place_leaves(self, dirty: Path) -> None:
        before, output = footprint(dirty), dirty.parent / "copy"
        result = compact_into(LOCAL, dirty, options(), output=output)
        assert footprint(dirty) == before
        assert result.path == output
        compact(dirty)
        ours, theirs = contents(output), contents(dirty)
        theirs.pop(".lock")
        assert ours == theirs

    def test_what_is_there_is_not_written_over(self, dirty: Path) -> None:
        with pytest.raises(DirectoryError, match="already"):
            compact_into(LOCAL, dirty, options(), output=dirty.parent)
        with pytest.raises(DirectoryError, match="cannot be inside the source directory"):
            compact_into(LOCAL, dirty, options(), output=dirty / "copy")

    def test_a_source_that_is_opened_meanwhile(self, dirty: Path) -> None:
        def open_it(_progress: Progress) -> None:
            with tidelog.open_log(dirty / "t-0") as log:
                log.append(b"value", key=b"key")

        output = dirty.parent / "copy"
        with pytest.raises(DirectoryError, match="opened while"):
            compact_into(LOCAL, dirty, options(threads=1), output=output, on_progress=open_it)
        assert sorted(path.name for path in dirty.parent.iterdir()) == ["data"]

    def test_a_log_that_cannot_be_copied_makes_no_copy(self, dirty: Path) -> None:
        log = sorted((dirty / "t-1").glob("*.log"))[0]
        log.unlink()
        log.symlink_to(dirty / "nowhere")
        with pytest.raises(TidelogError):
            compact_into(LOCAL, dirty, options(), output=dirty.parent / "copy")
        assert sorted(path.name for path in dirty.parent.iterdir()) == ["data"]


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("into", [False, True])
@pytest.mark.parametrize("moment", [1, 2, 5, 9, 17, 30])
def test_cancelled_at_any_moment(dirty: Path, moment: int, into: bool) -> None:
    before, values = record_offsets(dirty), last_values(dirty, COMMITTED)
    cancelled, told = threading.Event(), []

    def on_progress(progress: Progress) -> None:
        told.append(progress)
        if len(told) == moment:
            cancelled.set()

    run = partial(compact_into, output=dirty.parent / "copy") if into else compact_directory
    with pytest.raises(CancelledError):
        run(LOCAL, dirty, options(), on_progress=on_progress, cancelled=cancelled)
    assert sorted(path.name for path in dirty.parent.iterdir()) == ["data"]
    assert not [file for file in dirty.rglob("*") if file.suffix in (".cleaned", ".swap", ".deleted")]
    left = record_offsets(dirty)
    assert last_values(dirty, COMMITTED) == values
    compact(dirty)
    done = record_offsets(dirty)
    assert all(left[name] in (before[name], done[name]) for name in before)
    if into:
        assert left == before


def test_an_overflowed_segment_is_split_first(tmp_path: Path) -> None:
    three_pieces(tmp_path / "t-0")
    mark_clean(tmp_path)
    before = last_values(tmp_path)
    result = compact(tmp_path)
    assert last_values(tmp_path) == before
    assert [log.segments for log in result.logs] == [5], "one became three"
