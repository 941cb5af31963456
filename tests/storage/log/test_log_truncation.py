"""A log truncated at an offset, or emptied and restarted: the remaining records, files, offsets, epochs, producers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from log_maker import batch, data, plain
from storage.log.log_harness import NOW, LogHarness, fetch, lead, read
from tidelog.model import LogOffsetMetadata, OffsetOutOfRangeError
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.segment.file_names import FileKind, segment_file
from tidelog.storage.segment.segment import LogSegment
from tidelog.testing import Kept, ManualClock, SimulatedDisk
from tidelog.testing.disk.sector_map import SECTOR_BYTES

ONE = plain(0, 1)


def lead_singly(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        lead(log, ONE)


class TestRecords:
    def test_at_or_past_the_end_nothing_goes(self, harness: LogHarness) -> None:
        log = harness.open()
        lead_singly(log, 10)
        size = log.size
        for offset in (10, 11):
            assert not log.truncate_to(offset)
            assert (log.end_offset, log.size) == (10, size)

    def test_cut_and_filled_again(self, harness: LogHarness) -> None:
        log = harness.open()
        lead_singly(log, 10)
        size = log.size
        assert log.truncate_to(5)
        assert (log.end_offset, log.size) == (5, size // 2)
        assert log.truncate_to(0)
        assert (log.end_offset, log.size, log.base_offsets) == (0, 0, [0])
        lead_singly(log, 10)
        assert (log.end_offset, log.size) == (10, size)

    def test_segments_behind_the_cut_go_with_their_files(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=3 * len(ONE))
        lead_singly(log, 14)
        assert log.base_offsets == [0, 3, 6, 9, 12]
        assert log.truncate_to(7)
        assert (log.base_offsets, log.end_offset) == ([0, 3, 6], 7)
        assert harness.files(".log") == [0, 3, 6]
        assert harness.files(".log.deleted") == harness.files(".snapshot.deleted") == [9, 12]
        assert read(log, 6) == [6]
        with pytest.raises(OffsetOutOfRangeError):
            fetch(log, 8)
        assert lead(log, ONE) == range(7, 8)
        assert read(log, 6) == [6, 7]

    def test_a_batch_that_holds_the_offset_goes_whole(self, harness: LogHarness) -> None:
        """The log then ends at the requested offset, with a gap before it."""
        log = harness.open()
        lead(log, plain(0, 5))
        lead(log, plain(0, 5))
        assert log.truncate_to(7)
        assert (log.end_offset, read(log, 0), read(log, 6)) == (7, [0], [])
        assert lead(log, ONE) == range(7, 8)
        assert read(log, 5) == [7]

    def test_a_negative_offset(self, harness: LogHarness) -> None:
        log = harness.open()
        lead_singly(log, 2)
        with pytest.raises(ValueError, match="negative offset -1"):
            log.truncate_to(-1)
        assert log.end_offset == 2

    def test_what_was_cut_does_not_come_back(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=3 * len(ONE))
        lead_singly(log, 8)
        log.flush()
        log.truncate_to(4)
        log.close()
        for clean in (True, False):
            again = harness.open(segment_bytes=3 * len(ONE), clean=clean)
            assert (again.end_offset, again.base_offsets, read(again, 3)) == (4, [0, 3], [3])
            assert harness.files(".log.deleted") == []
            again.close()

    def test_the_indexes_have_room_again(self, harness: LogHarness) -> None:
        """A truncation restores the trimmed index of the last segment to its full size.

        The truncation leaves one entry, and the next append adds one: the interval is counted from zero again.
        """
        settings: dict[str, Any] = {
            "segment_bytes": 4 * len(ONE),
            "segment_index_bytes": 120,
            "index_interval_bytes": 0,
        }
        log = harness.open(**settings)
        lead_singly(log, 8)
        index = segment_file(harness.directory, 0, FileKind.INDEX)
        assert index.stat().st_size == 3 * 8
        log.truncate_to(2)
        assert index.stat().st_size == 120
        lead_singly(log, 2)
        assert log.base_offsets == [0]
        lead_singly(log, 1)
        assert (log.base_offsets, index.stat().st_size) == ([0, 4], 2 * 8)

    def test_an_old_segment_goes_by_the_settings_of_now(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=4 * len(ONE))
        lead_singly(log, 6)
        log.update_config(replace(log.config, segment_bytes=3 * len(ONE)))
        log.truncate_to(2)
        lead_singly(log, 3)
        assert log.base_offsets == [0, 3]


class TestPowerLoss:
    """The batches have the size of a sector, so a sector with a removed one may survive behind a new one."""

    @staticmethod
    def open_on(disk: SimulatedDisk) -> PartitionLog:
        config = LogConfig(segment_index_bytes=4096)
        return PartitionLog.open(
            OpenRequest(
                fs=disk,
                directory=Path("/t-0"),
                clock=ManualClock(NOW),
                config=config,
                clean_shutdown=False,
                is_sole_replica=False,
            )
        )

    @staticmethod
    def append(log: PartitionLog, value: bytes) -> None:
        size = SECTOR_BYTES - len(batch(0, [b""])) - 2  # the lengths of record and value take more bytes
        made = batch(0, [value * size])
        assert len(made) == SECTOR_BYTES
        lead(log, made)

    @staticmethod
    def values(log: PartitionLog) -> bytes:
        return fetch(log, 0).data()[SECTOR_BYTES - 2 :: SECTOR_BYTES]

    def require_order(self, disk: SimulatedDisk) -> None:
        found = {self.values(self.open_on(survivor)) for survivor in disk.survivors(2000)}
        assert b"aNN" in found
        assert not any(b"N" in values and values[values.index(b"N") :].strip(b"N") for values in found), found

    def test_truncated_batches_do_not_come_back_behind_new_ones(self) -> None:
        disk = SimulatedDisk()
        log = self.open_on(disk)
        for value in (b"a", b"b", b"c"):
            self.append(log, value)
        disk.sync_all()
        log.truncate_to(1)
        for _ in range(2):
            self.append(log, b"N")
        self.require_order(disk)

    def test_batches_that_recovery_removed_do_not_come_back_behind_new_ones(self) -> None:
        disk = SimulatedDisk()
        log = self.open_on(disk)
        for value in (b"a", b"b", b"c"):
            self.append(log, value)
        with disk.open(segment_file(log.directory, 0, FileKind.LOG), write=True) as file:
            file.pwrite(b"?", SECTOR_BYTES + 100)
        disk.sync_all()
        disk = disk.after_crash(Kept())
        log = self.open_on(disk)
        for _ in range(2):
            self.append(log, b"N")
        self.require_order(disk)


class TestBeginningAnew:
    def test_every_segment_goes(self, harness: LogHarness) -> None:
        """All old segments are deleted, although the log restarts at the base of one of them."""
        log = harness.open(segment_bytes=2 * len(ONE))
        lead_singly(log, 13)
        log.truncate_fully_and_start_at(10)
        assert (log.base_offsets, log.log_start_offset, log.high_watermark, log.end_offset) == ([10], 10, 10, 10)
        assert log.offsets().log_end == LogOffsetMetadata(10, 10, 0)
        assert harness.files(".log.deleted") == [0, 2, 4, 6, 8, 10, 12]
        assert fetch(log, 10).batches is None
        with pytest.raises(OffsetOutOfRangeError):
            fetch(log, 9)
        assert lead(log, ONE) == range(10, 11)
        assert read(log, 10) == [10]

    def test_again_to_the_old_size(self, harness: LogHarness) -> None:
        log = harness.open()
        lead_singly(log, 10)
        size = log.size
        log.truncate_fully_and_start_at(1)
        assert (log.size, log.end_offset) == (0, 1)
        lead_singly(log, 10)
        assert (log.size, log.end_offset) == (size, 11)
        assert log.truncate_to(0), "below its first segment the log begins anew there"
        assert (log.size, log.end_offset, log.log_start_offset, log.base_offsets) == (0, 0, 0, [0])

    def test_ahead_of_the_log(self, harness: LogHarness) -> None:
        """A follower does this if its leader has no record that the follower has."""
        log = harness.open()
        lead_singly(log, 3)
        log.flush()
        log.truncate_fully_and_start_at(500)
        assert (log.base_offsets, log.end_offset) == ([500], 500)
        log.close()
        again = harness.open(log_start=500)
        assert (again.base_offsets, again.end_offset, again.log_start_offset) == ([500], 500, 500)

    def test_files_go_when_they_are_due(self, harness: LogHarness) -> None:
        log = harness.open(file_delete_delay_ms=1000)
        lead_singly(log, 3)
        log.truncate_fully_and_start_at(3)
        harness.clock.now += 999
        assert log.remove_deleted() == 0
        harness.clock.now += 1
        assert log.remove_deleted() == 1
        assert harness.files(".*.deleted") == []
        assert harness.files(".log") == [3]


class TestOffsets:
    def test_high_watermark_and_recovery_point_come_down(self, harness: LogHarness) -> None:
        log = harness.open()
        lead_singly(log, 10)
        log.flush()
        log.update_high_watermark(8)
        log.truncate_to(9)
        assert (log.high_watermark, log.recovery_point) == (8, 9)
        log.truncate_to(6)
        assert (log.high_watermark, log.recovery_point) == (6, 6)
        offsets = log.offsets()
        assert offsets.high_watermark == offsets.last_stable == offsets.log_end == LogOffsetMetadata(6, 0, 6 * len(ONE))

    def test_what_was_cut_is_synced_again(self, harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        log = harness.open(segment_bytes=3 * len(ONE))
        lead_singly(log, 8)
        log.flush()
        log.truncate_to(4)
        synced: list[int] = []
        sync = LogSegment.sync

        def note(segment: LogSegment) -> None:
            if segment.path.parent == log.directory:
                synced.append(segment.base_offset)
            sync(segment)

        monkeypatch.setattr(LogSegment, "sync", note)
        assert log.flush(force=True) == 4
        assert synced == [3]

    def test_the_log_start_comes_down_with_the_log_end(self, harness: LogHarness) -> None:
        """The log start lay within the first segment, and the truncation point lies below it."""
        log = harness.open()
        lead_singly(log, 10)
        log.update_high_watermark(10)
        log.maybe_increment_log_start_offset(7)
        log.truncate_to(4)
        assert (log.log_start_offset, log.high_watermark, log.end_offset) == (4, 4, 4)

    def test_a_log_start_below_the_new_beginning(self, harness: LogHarness) -> None:
        log = harness.open()
        lead_singly(log, 3)
        log.truncate_fully_and_start_at(2, log_start_offset=1)
        assert (log.log_start_offset, log.high_watermark, log.end_offset) == (1, 2, 2)
        with pytest.raises(OffsetOutOfRangeError):
            fetch(log, 1)
        assert fetch(log, 2).batches is None


class TestEpochs:
    @pytest.mark.parametrize("past", [0, 1])
    def test_one_without_records_is_forgotten(self, harness: LogHarness, past: int) -> None:
        log = harness.open()
        log.append_as_follower(batch(27, [b"a", b"b"], epoch=19), 19)
        for epoch in (20, 24):
            log.assign_epoch(epoch, log.end_offset)
            assert log.epochs.latest == epoch
            log.truncate_to(29 + past)
            assert (log.epochs.latest, log.end_offset) == (19, 29)
            assert (harness.directory / LEADER_EPOCH_CHECKPOINT).read_text() == "0\n1\n19 27\n"

    def test_a_log_begun_anew_has_none(self, harness: LogHarness) -> None:
        log = harness.open()
        lead_singly(log, 3)
        log.truncate_fully_and_start_at(3)
        assert log.epochs.latest is None
        assert (harness.directory / LEADER_EPOCH_CHECKPOINT).read_text() == "0\n0\n"


Cut = Callable[[PartitionLog], object]


class TestProducers:
    @pytest.mark.parametrize("cut", [lambda log: log.truncate_to(0), lambda log: log.truncate_fully_and_start_at(0)])
    def test_below_an_open_transaction(self, harness: LogHarness, cut: Cut) -> None:
        """The transaction comes from a snapshot, so its position in the segment is unknown."""
        log = harness.open()
        lead(log, plain(0, 3))
        lead(log, data(0, 2, producer_id=17))
        log.close()
        again = harness.open()
        again.update_high_watermark(5)
        assert again.offsets().last_stable.message_offset == 3
        cut(again)
        assert dict(again.producers) == {}
        lead(again, plain(0, 5))
        again.update_high_watermark(5)
        assert again.offsets().last_stable.message_offset == 5

    def test_begun_anew_within_the_log(self, harness: LogHarness) -> None:
        log = harness.open()
        lead(log, plain(0, 3))
        lead(log, data(0, 2, producer_id=17))
        log.close()
        again = harness.open(high_watermark=5)
        assert again.offsets().last_stable.message_offset == 3
        again.truncate_fully_and_start_at(2, log_start_offset=1)
        offsets = again.offsets()
        assert (offsets.log_start, offsets.last_stable.message_offset, offsets.log_end.message_offset) == (1, 2, 2)
        assert dict(again.producers) == {}

    def test_begun_anew_at_a_snapshot_of_what_was(self, harness: LogHarness) -> None:
        log = harness.open()
        lead(log, data(0, 2, producer_id=17))
        log.close()
        assert harness.files(".snapshot") == [2]
        again = harness.open()
        again.truncate_fully_and_start_at(2, log_start_offset=1)
        lead(again, plain(0, 3))
        again.truncate_to(2)
        assert (again.end_offset, dict(again.producers)) == (2, {})

    def test_begun_anew_at_its_own_end(self, harness: LogHarness) -> None:
        log = harness.open()
        lead(log, data(0, 2, producer_id=17))
        log.truncate_fully_and_start_at(2)
        assert dict(log.producers) == {}
        lead(log, plain(0, 1))
        log.update_high_watermark(3)
        assert log.offsets().last_stable.message_offset == 3

    def test_behind_the_beginning_of_a_transaction_it_stays_open(self, harness: LogHarness) -> None:
        log = harness.open()
        lead(log, data(0, 2))
        lead(log, data(0, 2, producer_id=8))
        log.truncate_to(2)
        assert list(log.producers) == [7]
        lead(log, plain(0, 3))
        log.update_high_watermark(5)
        assert log.offsets().last_stable.message_offset == 0

    def test_the_last_snapshot_is_the_one_at_the_cut(self, harness: LogHarness) -> None:
        log = harness.open()
        lead_singly(log, 2)
        log.roll()
        lead_singly(log, 1)
        log.roll()
        assert harness.files(".snapshot") == [2, 3]
        for offset, snapshots in ((2, [2]), (1, [1]), (0, [])):
            log.truncate_to(offset)
            assert harness.files(".snapshot") == snapshots
            assert log.end_offset == offset

    def test_without_any_snapshot_the_batches_are_read(self, harness: LogHarness) -> None:
        log = harness.open()
        for sequence in range(3):
            lead(log, batch(0, [b"x"], producer_id=1, sequence=sequence))
        assert harness.files(".snapshot") == []
        log.truncate_to(2)
        assert {known: entry.last_sequence for known, entry in log.producers.items()} == {1: 1}
        assert lead(log, batch(0, [b"x"], producer_id=1, sequence=2)) == range(2, 3)

    def test_a_log_begun_anew_has_neither_producers_nor_snapshots(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=len(ONE))
        lead_singly(log, 3)
        lead(log, batch(0, [b"x"], producer_id=1))
        assert harness.files(".snapshot") == [1, 2, 3]
        log.truncate_fully_and_start_at(29)
        assert (harness.files(".snapshot"), dict(log.producers)) == ([], {})
        lead_singly(log, 2)
        assert harness.files(".snapshot") == [30]
