"""Deletion at either end of a log, and its effects: files, epochs, snapshots, transactions, index sizes."""

from __future__ import annotations

from typing import Any

import pytest

from log_maker import BASE_TIME, TRANSACTIONAL, batch, marker, plain
from storage.log.log_harness import NOW, RECORD_BYTES, LogHarness, read
from tidelog.model import ClosedError, LogOffsetMetadata, OffsetOutOfRangeError, StorageError
from tidelog.storage.log.change.retention import RetentionRule
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.producer import AppendOrigin

OLD = NOW - 20_000
COMPACT, BOTH = frozenset({"compact"}), frozenset({"compact", "delete"})


def catch_up(log: PartitionLog) -> None:
    """Move the high watermark to the log end."""
    log.update_high_watermark(log.end_offset)


class TestRetention:
    """Retention of three segments of five records."""

    @pytest.mark.parametrize(
        ("config", "timestamp", "left"),
        [
            ({"retention_bytes": 10 * RECORD_BYTES}, NOW, [5, 10]),
            ({"retention_bytes": 10 * RECORD_BYTES + 1}, NOW, [0, 5, 10]),
            ({"retention_bytes": 15 * RECORD_BYTES}, NOW, [0, 5, 10]),
            ({"retention_ms": 10_000}, OLD, [15]),
            ({"retention_ms": 10_000_000}, OLD, [0, 5, 10]),
            ({"retention_ms": 10_000}, NOW, [0, 5, 10]),
            ({"retention_ms": 10_000, "retention_bytes": 0, "cleanup_policy": COMPACT}, OLD, [0, 5, 10]),
            ({"retention_ms": 10_000, "cleanup_policy": BOTH}, OLD, [15]),
            ({"retention_bytes": 10 * RECORD_BYTES, "cleanup_policy": BOTH}, NOW, [5, 10]),
        ],
    )
    def test_by_size_and_time_as_the_policy_says(
        self, harness: LogHarness, config: dict[str, Any], timestamp: int, left: list[int]
    ) -> None:
        log = harness.open(segment_bytes=5 * RECORD_BYTES, **config)
        harness.add(log, 15, timestamp=timestamp)
        assert log.base_offsets == [0, 5, 10]
        catch_up(log)
        log.delete_old_segments()
        assert log.base_offsets == harness.files(".log") == harness.files(".index") == left
        assert harness.files(".log.deleted") == [base for base in (0, 5, 10) if base not in left]
        assert log.log_start_offset == left[0]
        assert log.end_offset == 15

    @pytest.mark.parametrize(("log_start", "left"), [(4, [0, 5, 10]), (5, [5, 10]), (7, [5, 10]), (15, [10])])
    def test_segments_below_the_log_start_go_from_a_compacted_log_too(
        self, harness: LogHarness, log_start: int, left: list[int]
    ) -> None:
        """The active segment is never deleted."""
        log = harness.open(segment_bytes=5 * RECORD_BYTES, retention_ms=10_000, cleanup_policy=COMPACT)
        harness.add(log, 15, timestamp=OLD)
        catch_up(log)
        assert log.maybe_increment_log_start_offset(log_start)
        assert log.base_offsets == [0, 5, 10], "only once retention is applied"
        log.delete_old_segments()
        assert log.base_offsets == left
        assert log.log_start_offset == log_start
        harness.add(log)
        assert read(log, 15) == [15]

    def test_only_what_lies_below_the_high_watermark(self, harness: LogHarness) -> None:
        """All records are too old. Each step deletes exactly the segments that end at or below the high watermark."""
        log = harness.open(segment_bytes=5 * RECORD_BYTES, retention_ms=999)
        harness.add(log, 100, timestamp=NOW - 1000)
        bases = log.base_offsets
        assert len(bases) == 20
        for watermark in range(101):
            log.update_high_watermark(watermark)
            assert log.high_watermark == watermark
            log.delete_old_segments()
            expected = [base for base in bases if base + 5 > watermark] or [100]
            assert log.base_offsets == expected
            assert log.log_start_offset == expected[0] <= watermark
        assert log.size == 0
        assert log.offsets().high_watermark == log.offsets().log_end == LogOffsetMetadata(100, 100, 0)

    def test_a_log_that_loses_everything_keeps_its_end_and_epoch(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=5 * RECORD_BYTES, retention_ms=999)
        harness.add(log, 90, epoch=0, timestamp=NOW - 1000)
        harness.add(log, 10, epoch=1, timestamp=NOW - 1000)
        assert harness.epochs() == [(0, 0), (1, 90)]
        assert not log.delete_old_segments().deletions, "nothing is known to be replicated"
        for watermark in range(25, 31):
            log.update_high_watermark(watermark)
            log.delete_old_segments()
            assert log.log_start_offset == watermark // 5 * 5
            assert harness.epochs() == [(0, log.log_start_offset), (1, 90)]
        catch_up(log)
        decision = log.delete_old_segments()
        assert decision.rolls_first
        assert (log.base_offsets, log.log_start_offset, log.end_offset) == ([100], 100, 100)
        assert harness.epochs() == [(1, 100)]
        harness.add(log, 3, epoch=1)
        log.close()
        again = harness.open()
        assert (again.log_start_offset, again.end_offset) == (100, 103)
        assert read(again, 100) == [100, 101, 102]
        again.delete()
        assert not harness.directory.exists()
        with pytest.raises(ClosedError):
            again.delete_old_segments()

    @pytest.mark.parametrize(
        ("starts", "left"),
        [
            ([(0, 0), (1, 5), (2, 10)], [(1, 5), (2, 10)]),
            ([(0, 0), (1, 7), (2, 10)], [(0, 5), (1, 7), (2, 10)]),
            ([(0, 0)], [(0, 5)]),
        ],
    )
    def test_epochs_follow(
        self, harness: LogHarness, starts: list[tuple[int, int]], left: list[tuple[int, int]]
    ) -> None:
        """The epoch of the new log start begins at the log start, and earlier epochs are removed."""
        log = harness.open(segment_bytes=5 * RECORD_BYTES, retention_bytes=10 * RECORD_BYTES)
        for offset in range(15):
            harness.add(log, epoch=max(epoch for epoch, start in starts if start <= offset))
        assert harness.epochs() == starts
        catch_up(log)
        log.delete_old_segments()
        assert log.base_offsets == [5, 10]
        assert harness.epochs() == left


class TestDecisions:
    """Decisions on nine segments of one record and an empty active one."""

    @pytest.fixture
    def log(self, harness: LogHarness) -> PartitionLog:
        log = harness.open(retention_ms=999)
        for _ in range(9):
            harness.add(log, timestamp=NOW)
            log.roll()
        catch_up(log)
        assert log.base_offsets == list(range(10))
        return log

    def test_a_rule_takes_the_oldest_for_which_it_holds(self, log: PartitionLog) -> None:
        log.maybe_increment_log_start_offset(6)
        decision = log.delete_old_segments()
        assert [deletion.segment.base_offset for deletion in decision.deletions] == [0, 1, 2, 3, 4, 5]
        assert {deletion.rule for deletion in decision.deletions} == {RetentionRule.LOG_START}
        assert log.base_offsets == [6, 7, 8, 9]

    def test_the_empty_active_segment_stays(self, harness: LogHarness, log: PartitionLog) -> None:
        harness.clock.now += 1000
        decision = log.delete_old_segments()
        assert [deletion.segment.base_offset for deletion in decision.deletions] == list(range(9))
        assert not decision.rolls_first
        assert log.base_offsets == [9]

    def test_an_active_segment_with_a_record_goes_with_the_others(self, harness: LogHarness, log: PartitionLog) -> None:
        harness.add(log, timestamp=NOW)
        harness.clock.now += 1000
        assert len(log.delete_old_segments().deletions) == 9, "its record is not replicated"
        catch_up(log)
        decision = log.delete_old_segments()
        assert [deletion.segment.base_offset for deletion in decision.deletions] == [9]
        assert decision.rolls_first
        assert log.base_offsets == [10]

    def test_each_segment_ends_where_its_successor_begins(self, harness: LogHarness, log: PartitionLog) -> None:
        harness.clock.now += 1000
        decision = log.delete_old_segments()
        seen = [(deletion.segment.base_offset, deletion.segment.end_offset) for deletion in decision.deletions]
        assert seen == [(base, base + 1) for base in range(9)]


class TestFiles:
    def test_they_wait_for_their_time(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=5 * RECORD_BYTES, retention_ms=999, file_delete_delay_ms=1000)
        harness.add(log, 100, timestamp=NOW - 1000)
        bases = log.base_offsets
        catch_up(log)
        log.delete_old_segments()
        assert harness.files(".log") == harness.files(".index") == harness.files(".timeindex") == [100]
        for wait, left, removed in ((0, bases, 0), (999, bases, 0), (1, [], 20)):
            harness.clock.now += wait
            assert log.remove_deleted() == removed
            for suffix in (".log.deleted", ".index.deleted", ".timeindex.deleted"):
                assert harness.files(suffix) == left
        assert read(log, 100) == []

    def test_a_failure_to_remove_them_fails_the_log(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=5 * RECORD_BYTES, retention_ms=999, file_delete_delay_ms=0)
        harness.add(log, 15, timestamp=NOW - 1000)
        catch_up(log)
        log.delete_old_segments()
        moved = harness.directory.rename(harness.directory.with_name("gone"))
        harness.directory.write_bytes(b"a file is in its place")
        with pytest.raises(StorageError):
            log.remove_deleted()
        assert not log.is_healthy
        harness.directory.unlink()
        moved.rename(harness.directory)
        with pytest.raises(StorageError, match="refuses writes because an earlier one failed"):
            harness.add(log)
        log.close()
        again = harness.open(clean=False)
        assert (again.base_offsets, again.end_offset) == ([15], 15)
        assert not list(harness.directory.glob("*.deleted"))

    def test_a_whole_log_cannot_be_removed_where_its_directory_is_gone(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=5 * RECORD_BYTES)
        harness.add(log, 15)
        moved = harness.directory.rename(harness.directory.with_name("gone"))
        harness.directory.write_bytes(b"a file is in its place")
        with pytest.raises(StorageError) as caught:
            log.delete()
        assert caught.value.path is not None
        assert harness.directory.read_bytes() == b"a file is in its place"
        assert len(list(moved.glob("*.log"))) == 3
        with pytest.raises(ClosedError):
            harness.add(log)


class TestDeleteRecords:
    def test_not_above_the_high_watermark(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=5 * RECORD_BYTES)
        harness.add(log, 100)
        log.update_high_watermark(25)
        with pytest.raises(OffsetOutOfRangeError, match="above its high watermark 25") as caught:
            log.maybe_increment_log_start_offset(26)
        assert caught.value.offset == 26
        assert log.log_start_offset == 0
        assert log.maybe_increment_log_start_offset(25)
        assert not log.maybe_increment_log_start_offset(24), "only forward"
        assert log.log_start_offset == 25

    def test_producers_stay_and_snapshots_go(self, harness: LogHarness) -> None:
        log = harness.open(file_delete_delay_ms=1000)
        for producer_id in (1, 2):
            harness.produce(log, [b"a"], producer_id=producer_id, sequence=0)
            log.roll()
        assert harness.files(".snapshot") == [1, 2]
        catch_up(log)
        log.maybe_increment_log_start_offset(2)
        log.delete_old_segments()
        harness.clock.now += 1000
        log.remove_deleted()
        assert harness.files(".snapshot") == [2]
        assert not list(harness.directory.glob("*.deleted"))
        assert {producer_id: entry.last_sequence for producer_id, entry in log.producers.items()} == {1: 0, 2: 0}
        again = harness.produce(log, [b"a"], producer_id=2, sequence=0)
        assert again.is_duplicate, "of a record that was deleted"

    @pytest.mark.parametrize(("log_start", "bases"), [(5, [0, 8]), (8, [8])])
    def test_an_open_transaction_holds_back_from_the_log_start_on(
        self, harness: LogHarness, log_start: int, bases: list[int]
    ) -> None:
        log = harness.open()
        values = [b"%d" % number for number in range(5)]
        harness.produce(log, values, producer_id=7, sequence=0, attributes=TRANSACTIONAL)
        log.append_as_leader(bytearray(plain(0, 3)), leader_epoch=0)
        log.roll()
        harness.produce(log, values, producer_id=7, sequence=5, attributes=TRANSACTIONAL)
        catch_up(log)
        assert log.offsets().last_stable.message_offset == 0
        log.maybe_increment_log_start_offset(log_start)
        log.delete_old_segments()
        assert log.base_offsets == bases
        stable = log.offsets().last_stable
        assert (stable.message_offset, stable.segment_base_offset) == (log_start, bases[0])
        log.append_as_leader(bytearray(marker(0, True)), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
        catch_up(log)
        assert log.offsets().last_stable.message_offset == log.end_offset == 14


class TestTruncation:
    def test_epochs_follow(self, harness: LogHarness) -> None:
        """A truncation removes the epochs of the removed records, in memory and on disk."""
        log = harness.open(segment_bytes=10 * RECORD_BYTES)
        for offset in range(20):
            log.append_as_follower(plain_of(offset, 0 if offset < 10 else 1 if offset < 16 else 2), 2)
        assert log.base_offsets == [0, 10]
        whole = [(0, 0), (1, 10), (2, 16)]
        for offset, left in ((20, whole), (17, whole), (16, whole[:2]), (11, whole[:2]), (10, whole[:1]), (0, [])):
            assert log.truncate_to(offset) == (offset < 20)
            assert log.end_offset == offset
            assert harness.epochs() == left

    def test_indexes_get_their_room_back(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=10 * RECORD_BYTES, index_interval_bytes=RECORD_BYTES - 1)
        for _ in range(2):
            for number in range(10):
                harness.add(log, timestamp=BASE_TIME + number)
        first = log._state.segments.first
        assert log.base_offsets == [0, 10]
        assert (first.offset_index.max_entries, first.time_index.max_entries) == (9, 9), "trimmed by the roll"
        log.truncate_to(0)
        assert log.base_offsets == [0]
        assert (first.offset_index.max_entries, first.time_index.max_entries) == (4096 // 8, 4096 // 12)
        assert (first.offset_index.entries, first.time_index.entries) == (0, 0)
        for number in range(10):
            harness.add(log, timestamp=BASE_TIME + number)
        assert log.base_offsets == [0]
        assert read(log, 7) == [7, 8, 9]


def plain_of(offset: int, epoch: int) -> bytes:
    """Make one record as a follower receives it."""
    return batch(offset, [b"%020d" % offset], timestamp=NOW, epoch=epoch)
