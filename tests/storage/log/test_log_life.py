"""A log from its creation to its deletion: topic id, settings, renames of its directory, flushes, closing."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from log_maker import data, marker, plain
from storage.log.log_harness import NOW, RECORD_BYTES, LogHarness, fetch, lead, read
from tidelog.model import (
    ClosedError,
    DirectoryError,
    InconsistentTopicIdError,
    Isolation,
    LogOffsetMetadata,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    StorageError,
)
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.producer_state import SnapshotFiles
from tidelog.storage.producer import AppendOrigin
from tidelog.storage.segment.file_names import FileKind, segment_file
from tidelog.storage.segment.segment import LogSegment
from tidelog.testing import DiskCall, Lost, ManualScheduler, SimulatedDisk

TOPIC = uuid.UUID("6d7f2b1a-54c5-4b0e-9a57-2f6a4f0c1d10")
OTHER = uuid.UUID("00000000-0000-4000-8000-0000000000ff")


def written_id(directory: Path) -> uuid.UUID | None:
    found = PartitionMetadata.read(LOCAL, directory / PARTITION_METADATA_FILE)
    return None if found is None else found.topic_id


class TestTopicId:
    @pytest.mark.parametrize(
        "append",
        [
            lambda log: log.append_as_leader(bytearray(plain(0, 1)), leader_epoch=0),
            lambda log: log.append_as_follower(plain(0, 1), 0),
            lambda log: log.append(bytearray(plain(0, 1))),
        ],
        ids=["leader", "follower", "own"],
    )
    def test_it_is_written_before_the_first_record(self, harness: LogHarness, append: Any) -> None:
        log = harness.open()
        log.assign_topic_id(TOPIC)
        assert (log.topic_id, written_id(harness.directory)) == (TOPIC, None)
        append(log)
        assert written_id(harness.directory) == TOPIC

    @pytest.mark.parametrize("is_given_later", [False, True])
    def test_it_is_written_at_once_in_the_background(self, harness: LogHarness, is_given_later: bool) -> None:
        scheduler = ManualScheduler(harness.clock)
        scheduler.startup()
        log = harness.open(scheduler=scheduler, topic_id=None if is_given_later else TOPIC)
        if is_given_later:
            log.assign_topic_id(TOPIC)
        assert (log.topic_id, written_id(harness.directory)) == (TOPIC, None)
        assert scheduler.names == ["flush-metadata-file"]
        harness.clock.sleep_ms(0)
        assert (written_id(harness.directory), log.append_waits_for_disk) == (TOPIC, False)
        log.assign_topic_id(TOPIC)
        log.close()
        harness.open(scheduler=scheduler, topic_id=TOPIC)
        assert scheduler.names == []

    def test_a_log_that_ends_first_is_passed_over_in_the_background(self, harness: LogHarness) -> None:
        scheduler = ManualScheduler(harness.clock)
        scheduler.startup()
        log = harness.open(scheduler=scheduler, topic_id=TOPIC)
        log.close_handlers()
        harness.clock.sleep_ms(0)
        assert written_id(harness.directory) is None

    def test_it_is_written_at_an_orderly_end(self, harness: LogHarness) -> None:
        log = harness.open(topic_id=TOPIC)
        assert written_id(harness.directory) is None
        log.close()
        assert written_id(harness.directory) == TOPIC

    @pytest.mark.parametrize("clean", [True, False])
    def test_it_is_known_again(self, harness: LogHarness, clean: bool) -> None:
        log = harness.open(topic_id=TOPIC)
        harness.add(log)
        log.close()
        again = harness.open(clean=clean)
        assert again.topic_id == TOPIC
        again.assign_topic_id(TOPIC)

    def test_another_topics_log_is_refused(self, harness: LogHarness) -> None:
        log = harness.open(topic_id=TOPIC)
        harness.add(log)
        with pytest.raises(InconsistentTopicIdError, match="belongs to the topic bX8rGlTFSw6aVy9qTwwdEA"):
            log.assign_topic_id(OTHER)
        assert log.is_healthy
        log.close()
        with pytest.raises(InconsistentTopicIdError):
            harness.open(topic_id=OTHER)
        assert (written_id(harness.directory), harness.open(topic_id=TOPIC).topic_id) == (TOPIC, TOPIC)

    def test_a_log_without_one(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.add(log)
        log.close()
        assert (log.topic_id, written_id(harness.directory)) == (None, None)


class TestRename:
    def test_everything_goes_on_under_the_new_name(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=3 * RECORD_BYTES, cleanup_policy=frozenset({"compact", "delete"}))
        harness.add(log, 5, epoch=5)
        old, new = harness.directory, harness.directory.with_name("t-0.0123456789abcdef0123456789abcdef-future")
        log.rename(new)
        assert (log.directory, old.exists()) == (new, False)
        assert read(log, 0) + read(log, 3) == [0, 1, 2, 3, 4]
        harness.add(log, 2, epoch=10)
        lead(log, data(0, 1), leader_epoch=10)
        lead(log, marker(0, False), leader_epoch=10, origin=AppendOrigin.COORDINATOR)
        assert log.base_offsets == [0, 3, 6]
        log.update_high_watermark(9)
        assert log.offsets().last_stable.message_offset == 9
        log.maybe_increment_log_start_offset(3)
        log.delete_old_segments()
        log.close()
        harness.directory = new
        assert not old.exists()
        assert (harness.epochs(), harness.files(".snapshot")) == ([(5, 3), (10, 5)], [3, 6, 9])
        assert harness.files(".log.deleted") == [0]
        again = harness.open(log_start=3)
        assert read(again, 3) + read(again, 6) == [3, 4, 5, 6, 7, 8]
        again.update_high_watermark(9)
        aborted = fetch(again, 6, Isolation.READ_COMMITTED).aborted
        assert aborted is not None
        assert [tuple(one) for one in aborted] == [(7, 7, 8, 9)]

    def test_epochs_are_written_where_the_log_is(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.add(log, epoch=5)
        old, harness.directory = harness.directory, harness.directory.with_name("elsewhere-0")
        log.rename(harness.directory)
        harness.add(log, epoch=10)
        assert log.epochs.latest == 10
        assert harness.epochs() == [(5, 0), (10, 1)]
        assert not (old / LEADER_EPOCH_CHECKPOINT).exists()

    @pytest.mark.parametrize("appends", [0, 1])
    def test_the_topic_id_goes_along(self, harness: LogHarness, appends: int) -> None:
        """The rename writes the topic id, if no append wrote it before."""
        log = harness.open()
        log.assign_topic_id(TOPIC)
        harness.add(log, appends)
        old, new = harness.directory, harness.directory.with_name("elsewhere-0")
        log.rename(new)
        assert (log.topic_id, written_id(new), written_id(old)) == (TOPIC, TOPIC, None)

    def test_a_topic_id_given_later_is_written_there(self, harness: LogHarness) -> None:
        log = harness.open()
        old, new = harness.directory, harness.directory.with_name("elsewhere-0")
        log.rename(new)
        log.assign_topic_id(TOPIC)
        harness.add(log)
        assert (written_id(new), written_id(old)) == (TOPIC, None)

    def test_what_waits_for_its_deletion_goes_from_there(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=RECORD_BYTES)
        harness.add(log, 3)
        log.truncate_to(1)
        harness.directory = harness.directory.with_name("elsewhere-0")
        log.rename(harness.directory)
        assert harness.files(".log.deleted") == harness.files(".snapshot.deleted") == [2]
        harness.clock.now += log.config.file_delete_delay_ms
        assert log.remove_deleted() == 1
        assert (harness.files(".*.deleted"), harness.files(".log")) == ([], [0, 1])

    def test_to_its_own_name(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.add(log)
        log.rename(harness.directory)
        harness.add(log)
        assert (log.directory, read(log, 0)) == (harness.directory, [0, 1])

    def test_to_a_name_that_is_taken(self, harness: LogHarness) -> None:
        """The rename changes nothing, and the log accepts appends."""
        log = harness.open()
        harness.add(log)
        taken = harness.directory.with_name("elsewhere-0")
        taken.mkdir()
        with pytest.raises(DirectoryError, match="a log cannot be renamed to an existing directory"):
            log.rename(taken)
        assert (log.directory, list(taken.iterdir()), log.is_healthy) == (harness.directory, [], True)
        harness.add(log)
        assert read(log, 0) == [0, 1]

    def test_a_flush_under_way_ends_first(self, harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        """The flush syncs the directory by its old name, so the rename waits."""
        log = harness.open()
        harness.add(log, 3)
        new = harness.directory.with_name("elsewhere-0")
        renaming = threading.Thread(target=log.rename, args=(new,))
        sync_dir = LOCAL.sync_dir

        def slowly(path: Path) -> None:
            if path == harness.directory and not renaming.ident:
                renaming.start()
                renaming.join(timeout=0.2)
                assert not new.exists()
            sync_dir(path)

        monkeypatch.setattr(type(LOCAL), "sync_dir", staticmethod(slowly))
        assert log.flush() == 3
        renaming.join()
        assert (log.directory, new.exists(), log.is_healthy) == (new, True, True)
        assert log.flush() == 3

    def test_readers_go_on(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=5 * RECORD_BYTES)
        harness.add(log, 20)
        log.update_high_watermark(20)
        failures: list[object] = []
        done = threading.Event()

        def look() -> None:
            try:
                while not done.is_set():
                    found = [read(log, start)[0] for start in (0, 7, 19)]
                    first = log.offset_for_timestamp(NOW)
                    if found != [0, 7, 19] or first is None or first.offset != 0:
                        failures.append((found, first))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(100):
            log.rename(harness.directory.with_name(f"elsewhere-{number}"))
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []


class TestDelete:
    @pytest.mark.parametrize("closes_first", [False, True])
    def test_nothing_is_left(self, harness: LogHarness, closes_first: bool) -> None:
        log = harness.open(segment_bytes=5 * RECORD_BYTES, topic_id=TOPIC)
        harness.add(log, 12)
        log.truncate_to(9)
        if closes_first:
            log.close()
        log.delete()
        assert not harness.directory.exists()
        harness.clock.now += log.config.file_delete_delay_ms
        for call in (log.remove_expired_producers, log.remove_deleted, log.delete_old_segments, log.offsets, log.roll):
            with pytest.raises(ClosedError):
                call()
        log.close()
        assert not harness.directory.exists()

    def test_after_another_name(self, harness: LogHarness) -> None:
        log = harness.open()
        new = harness.directory.with_name("elsewhere-0")
        log.rename(new)
        harness.add(log)
        log.delete()
        assert list(new.parent.iterdir()) == []

    def test_a_directory_with_something_else_in_it_stays(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=RECORD_BYTES)
        harness.add(log, 2)
        (harness.directory / "notes").mkdir()
        with pytest.raises(StorageError):
            log.delete()
        assert [path.name for path in harness.directory.iterdir()] == ["notes"]


class TestClose:
    def test_every_segment_is_closed_although_one_fails(
        self, harness: LogHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = harness.open(segment_bytes=RECORD_BYTES)
        harness.add(log, 3)
        close, closed = LogSegment.close, []

        def fail_at_1(segment: LogSegment) -> None:
            close(segment)
            if segment.path.parent != harness.directory:
                return
            closed.append(segment.base_offset)
            if segment.base_offset == 1:
                raise StorageError("the disk is gone", path=segment.path)

        monkeypatch.setattr(LogSegment, "close", fail_at_1)
        with pytest.raises(StorageError, match="the disk is gone"):
            log.close()
        assert closed == [0, 1, 2]

    def test_files_let_go_are_no_orderly_end(self, harness: LogHarness) -> None:
        """A close after ``close_handlers`` is no clean shutdown either, so the next load has to recover."""
        log = harness.open()
        harness.add(log, 3)
        for _ in range(2):
            log.close_handlers()
            assert not log.is_healthy
            for call in (lambda: harness.add(log), log.roll, log.flush, lambda: read(log, 0)):
                with pytest.raises(ClosedError):
                    call()
        log.close()
        assert harness.files(".snapshot") == []
        assert segment_file(harness.directory, 0, FileKind.INDEX).stat().st_size == 4096, "not trimmed"
        again = harness.open(clean=False)
        assert (read(again, 0), [one.base_offset for one in again.loaded.recovered]) == ([0, 1, 2], [0])

    def test_nothing_is_appended_after_an_orderly_end(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.add(log, 2)
        log.close()
        before = segment_file(harness.directory, 0, FileKind.LOG).read_bytes()
        for append in (lambda: harness.add(log), lambda: log.append_as_follower(plain(2, 1), 0)):
            with pytest.raises(ClosedError):
                append()
        assert segment_file(harness.directory, 0, FileKind.LOG).read_bytes() == before
        assert harness.files(".snapshot") == [2]


class TestSettings:
    def test_others_from_now_on(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=3 * RECORD_BYTES)
        harness.add(log, 2)
        wider = LogConfig(segment_bytes=5 * RECORD_BYTES, max_message_bytes=RECORD_BYTES, segment_index_bytes=4096)
        log.update_config(wider)
        assert log.config == wider
        harness.add(log, 4)
        assert log.base_offsets == [0, 5]
        with pytest.raises(RecordTooLargeError):
            lead(log, plain(0, 2))
        log.update_config(LogConfig(segment_bytes=RECORD_BYTES, retention_bytes=0, retention_ms=-1))
        harness.add(log, 2)
        assert log.base_offsets == [0, 5, 6, 7]
        log.update_high_watermark(7)
        log.delete_old_segments()
        assert log.base_offsets == [7]

    def test_how_long_producers_are_known(self, harness: LogHarness) -> None:
        log = harness.open(producer_id_expiration_ms=5000)
        harness.produce(log, [b"x"], producer_id=1, sequence=0)
        harness.clock.now += 1000
        assert log.remove_expired_producers() == 0
        log.update_config(LogConfig(producer_id_expiration_ms=1000))
        assert log.remove_expired_producers() == 1


class TestListener:
    def test_it_hears_each_high_watermark(self, harness: LogHarness) -> None:
        heard: list[int] = []
        log = harness.open(on_high_watermark=heard.append)
        harness.add(log, 6)
        log.maybe_increment_high_watermark(LogOffsetMetadata(4))
        log.update_high_watermark(4)
        log.offsets()
        assert heard == [4]
        log.truncate_to(3)
        assert heard == [4, 3]
        harness.add(log, 3)
        log.truncate_fully_and_start_at(4)
        assert heard == [4, 3, 4]

    def test_one_that_comes_later_hears_what_comes_later(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.add(log, 3)
        log.update_high_watermark(2)
        log.maybe_increment_log_start_offset(2)
        log.close()
        heard: list[int] = []
        again = harness.open(on_high_watermark=heard.append, log_start=2, high_watermark=2)
        harness.add(again, 3)
        assert heard == []
        again.maybe_increment_high_watermark(LogOffsetMetadata(4))
        assert heard == [4]


class TestFlush:
    def test_up_to_a_roll(self, harness: LogHarness) -> None:
        log = harness.open()
        harness.add(log)
        log.roll()
        harness.add(log, 2)
        assert log.recovery_point == 0
        assert log.flush(1) == 1
        assert (log.recovery_point, log.flush()) == (1, 3)

    def test_snapshots_stay(self, harness: LogHarness) -> None:
        log = harness.open()
        for offset in (1, 2, 3):
            harness.add(log)
            log.roll()
            log.flush(offset)
            assert harness.files(".snapshot") == list(range(1, offset + 1))
        harness.add(log)
        log.flush(4)
        assert harness.files(".snapshot") == [1, 2, 3]

    def test_one_that_fails_at_a_snapshot(self, harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        log = harness.open()
        harness.add(log)
        log.roll()

        def fail(_: SnapshotFiles) -> None:
            raise StorageError("the disk is gone", path=harness.directory)

        monkeypatch.setattr(SnapshotFiles, "sync", fail)
        with pytest.raises(StorageError, match="the disk is gone"):
            log.flush(1)
        assert (log.recovery_point, log.is_healthy) == (0, False)


class TestRoll:
    def test_an_empty_segment_stays_the_active_one(self, harness: LogHarness) -> None:
        log = harness.open()
        for _ in range(2):
            log.roll()
            assert (log.base_offsets, log.end_offset) == ([0], 0)
        log.append_as_follower(plain(0, 1), 0)
        log.append_as_follower(plain(1, 1), 0)
        assert (log.base_offsets, log.end_offset, read(log, 0), read(log, 1)) == ([0], 2, [0, 1], [1])
        log.roll()
        assert (log.base_offsets, log.end_offset, harness.files(".log")) == ([0, 2], 2, [0, 2])
        assert log.offsets().log_end == LogOffsetMetadata(2, 2, 0)

    def test_an_empty_segment_whose_index_has_no_room(self, harness: LogHarness) -> None:
        """A clean shutdown leaves this segment, and it accepts records again."""
        log = harness.open(index_interval_bytes=0)
        harness.add(log, 2)
        log.roll()
        log.close()
        assert segment_file(harness.directory, 2, FileKind.INDEX).stat().st_size == 0
        again = harness.open(index_interval_bytes=0)
        again.append_as_follower(plain(2, 1), 0)
        again.append_as_follower(plain(3, 1), 0)
        assert (again.base_offsets, read(again, 2)) == ([0, 2], [2, 3])
        assert segment_file(harness.directory, 2, FileKind.INDEX).stat().st_size == 4096

    @pytest.mark.parametrize("syncs_rolls", [False, True])
    def test_a_synced_one_leaves_the_log_on_the_disk_before_the_segment_exists(
        self, tmp_path: Path, syncs_rolls: bool
    ) -> None:
        disk, directory = SimulatedDisk(), tmp_path / "t-0"
        disk.make_dir(tmp_path)
        disk.sync_all()
        harness = LogHarness(directory)
        log = harness.open(fs=disk, syncs_rolls=syncs_rolls)
        found: list[bool] = []

        def look(call: DiskCall) -> None:
            if (call.name, call.path.suffix) == ("create", ".log"):
                earlier = {path: data for path, data in disk.files(directory).items() if path.suffix == ".log"}
                found.append(earlier.items() <= disk.after_crash(Lost()).files().items())

        disk.before_call = look
        for _ in range(3):
            harness.add(log)
            log.roll()
        assert found == [syncs_rolls] * 3
        assert (log.recovery_point, log.flush()) == (0, 3), "a roll does not sync snapshots and leader epochs"

    @pytest.mark.parametrize("offset", [1, 3])
    def test_not_at_or_below_the_active_one(self, harness: LogHarness, offset: int) -> None:
        log = harness.open()
        harness.add(log, 3)
        log.roll()
        with pytest.raises(StorageError, match=f"cannot begin at {offset}, the active one begins at 3"):
            log._state.roll(offset)
        assert (log.base_offsets, harness.files(".log"), harness.files(".snapshot")) == ([0, 3], [0, 3], [3])

    @pytest.mark.parametrize("before", [0, 1])
    def test_offsets_too_far_apart_for_one_segment(self, harness: LogHarness, before: int) -> None:
        """The append is refused before a roll, and the log accepts other appends."""
        log = harness.open()
        harness.add(log, before)
        with pytest.raises(RecordBatchTooLargeError):
            log.append_as_follower(plain(before, 1) + plain(before + 2**31, 1), 0)
        assert (log.base_offsets, log.end_offset, log.is_healthy) == ([0], before, True)
        log.append_as_follower(plain(before, 1), 0)
        log.append_as_follower(plain(before + 2**31, 1), 0)
        assert log.base_offsets == [0, before + 2**31]


class TestAppend:
    def test_what_is_read_is_what_was_written(self, harness: LogHarness) -> None:
        log = harness.open()
        assert fetch(log, 0).data() == b""
        content = plain(0, 2) + plain(2, 3)
        log.append_as_follower(content, 0)
        assert (log.end_offset, log.recovery_point, fetch(log, 0).data()) == (5, 0, content)

    def test_a_log_whose_files_are_gone(self, harness: LogHarness) -> None:
        """The log begins at the log start of its checkpoint."""
        log: PartitionLog = harness.open(log_start=500)
        assert (log.log_start_offset, log.high_watermark, log.end_offset, log.base_offsets) == (500, 500, 500, [500])
        assert lead(log, plain(0, 1)) == range(500, 501)
