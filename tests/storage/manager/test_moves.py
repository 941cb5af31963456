"""Moving a partition to another log directory loses and duplicates nothing, whatever happens at the same time."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from log_maker import CONTROL, TRANSACTIONAL, batch, plain
from storage.log.log_harness import fetch
from storage.manager.manager_home import NOW, RECOVERY_POINT, DiskHome, content, fill, values
from tidelog.model import (
    ClosedError,
    DirectoryError,
    Isolation,
    StorageError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tidelog.runtime import ThreadScheduler
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.producer import AppendOrigin
from tidelog.testing import Chooser, Kept, Lost, PowerLoss

T0 = TopicPartition("t", 0)
PRODUCER = 23


@pytest.fixture
def home() -> Iterator[DiskHome]:
    made = DiskHome(directories=3)
    yield made
    made.stop()


def start(home: DiskHome, batches: int = 10, **options: object) -> tuple[LogManager, PartitionLog]:
    """Start a manager with one partition in the first directory."""
    manager = home.start(**options)
    manager.prefer(T0, home.paths[0])
    log = manager.get_or_create(T0)
    fill(log, batches)
    return manager, log


def moved(manager: LogManager, path: Path) -> PartitionLog:
    """Move the partition without a scheduler."""
    manager.move(T0, path)
    assert manager.run_move(T0)
    log = manager.require(T0)
    assert log.directory == path / "t-0"
    return log


def what_it_holds(log: PartitionLog) -> tuple[object, ...]:
    offsets = log.offsets()
    return (
        content(log),
        log.log_start_offset,
        log.end_offset,
        offsets.high_watermark.message_offset,
        offsets.last_stable.message_offset,
        log.epochs.entries,
        log.topic_id,
        {producer: (entry.producer_epoch, tuple(entry.batches)) for producer, entry in log.producers.items()},
    )


def under_way(manager: LogManager, path: Path) -> PartitionLog:
    """Begin a move, copy a part, and return the future log."""
    manager.move(T0, path)
    manager.moves[T0].copy()
    future = manager.log(T0, is_future=True)
    assert future is not None
    assert future.end_offset < manager.require(T0).end_offset
    return future


class TestWhole:
    def test_the_new_log_takes_the_place_of_the_old_one(self, home: DiskHome) -> None:
        manager, old = start(home)
        before = what_it_holds(old)
        new = moved(manager, home.paths[1])
        assert what_it_holds(new) == before
        assert manager.moves == {}
        assert manager.log(T0, is_future=True) is None
        with pytest.raises(ClosedError, match="the log was replaced by another one or deleted"):
            fill(old, 1)
        assert fetch(old, 0).data()  # readers continue
        fill(new, 1)
        assert new.end_offset == 110
        assert manager.deleted_logs == [old]
        home.clock.sleep_ms(120_000)
        assert [name for name in home.disk.list_names(home.paths[0]) if name.startswith("t-")] == []

    def test_checkpoints_speak_of_it_where_it_is(self, home: DiskHome) -> None:
        manager, old = start(home)
        old.flush()
        manager.checkpoint_recovery_points()
        moved(manager, home.paths[1])
        assert home.checkpoint(home.paths[0], RECOVERY_POINT) == {}
        assert home.checkpoint(home.paths[1], RECOVERY_POINT) == {T0: 100}

    def test_the_scheduler_does_it(self, home: DiskHome) -> None:
        manager, _ = start(home)
        manager.move(T0, home.paths[1])
        home.clock.sleep_ms(0)
        assert manager.require(T0).directory.parent == home.paths[1]

    def test_an_empty_log(self, home: DiskHome) -> None:
        manager, _ = start(home, 0)
        assert what_it_holds(moved(manager, home.paths[1]))[:3] == (b"", 0, 0)

    def test_a_log_that_was_emptied(self, home: DiskHome) -> None:
        manager, old = start(home)
        old.truncate_fully_and_start_at(500)
        assert what_it_holds(moved(manager, home.paths[1]))[:3] == (b"", 500, 500)

    def test_a_log_start_inside_a_batch(self, home: DiskHome) -> None:
        manager, old = start(home)
        old.maybe_increment_log_start_offset(35)
        old.delete_old_segments()
        before = what_it_holds(old)
        new = moved(manager, home.paths[1])
        assert what_it_holds(new) == before
        manager.shutdown()
        again = home.start().require(T0)
        assert what_it_holds(again) == before

    def test_compacted_gaps(self, home: DiskHome) -> None:
        manager, old = start(home, 0)
        for base, epoch in ((7, 0), (900, 2), (2**31 + 5, 2), (2**33, 4)):
            old.append_as_follower(plain(base, 3, timestamp=NOW), epoch)
        assert what_it_holds(moved(manager, home.paths[1])) == what_it_holds(old)

    def test_a_log_that_was_cut_in_a_gap(self, home: DiskHome) -> None:
        """The future log ends after its last batch, as the old log would after a restart."""
        manager, old = start(home, 0)
        for base in (0, 900):
            old.append_as_follower(plain(base, 3, timestamp=NOW), 0)
        manager.truncate_to({T0: 500})
        assert old.end_offset == 500
        before = content(old)
        new = moved(manager, home.paths[1])
        assert (content(new), new.end_offset) == (before, 3)
        fill(new, 1)
        assert new.end_offset == 13

    def test_batches_too_far_apart_for_one_segment(self, home: DiskHome) -> None:
        manager, old = start(home, 0, default_config=LogConfig(segment_index_bytes=4096))
        for base in (0, 2**31 + 5, 2**32 + 9, 2**32 + 10):
            old.append_as_follower(plain(base, 1, timestamp=NOW), 0)
        assert what_it_holds(moved(manager, home.paths[1])) == what_it_holds(old)

    def test_leader_epochs_with_and_without_records(self, home: DiskHome) -> None:
        manager, old = start(home, 2)
        for epoch in (3, 4):
            old.append_as_leader(bytearray(plain(0, 1, timestamp=NOW)), leader_epoch=epoch)
        old.assign_epoch(9, old.end_offset)
        before = what_it_holds(old)
        new = moved(manager, home.paths[1])
        assert [tuple(entry) for entry in new.epochs.entries] == [(0, 0), (3, 20), (4, 21), (9, 22)]
        assert what_it_holds(new) == before

    def test_the_topic_id_that_came_late(self, home: DiskHome) -> None:
        manager, old = start(home)
        manager.move(T0, home.paths[1])
        topic_id = uuid.uuid4()
        old.assign_topic_id(topic_id)
        assert manager.run_move(T0)
        manager.shutdown()
        assert home.start().require(T0).topic_id == topic_id

    def test_the_high_watermark(self, home: DiskHome) -> None:
        manager, old = start(home, is_sole_replica=False)
        old.update_high_watermark(40)
        new = moved(manager, home.paths[1])
        assert new.high_watermark == 40
        manager.shutdown()
        assert home.start(is_sole_replica=False).require(T0).high_watermark == 40

    def test_there_and_back_again(self, home: DiskHome) -> None:
        manager, log = start(home, 3)
        for path in (*home.paths[1:], *home.paths):
            log = moved(manager, path)
            fill(log, 1)
        assert len(values(log)) == 80


def transactional(log: PartitionLog, sequence: int, count: int, producer: int = PRODUCER) -> None:
    made = batch(0, [b"x"] * count, timestamp=NOW, producer_id=producer, sequence=sequence, attributes=TRANSACTIONAL)
    log.append_as_leader(bytearray(made), leader_epoch=0)


def end_transaction(log: PartitionLog, *, committed: bool) -> None:
    made = batch(
        0,
        [bytes(6)],
        key=b"\0\0\0" + bytes([committed]),
        timestamp=NOW,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=PRODUCER,
        sequence=-1,
    )
    log.append_as_leader(bytearray(made), leader_epoch=0, origin=AppendOrigin.COORDINATOR)


def test_transactions_and_producers_come_along(home: DiskHome) -> None:
    manager, old = start(home, 0)
    for number, committed in enumerate((True, False, True, False)):
        transactional(old, 4 * number, 4)
        end_transaction(old, committed=committed)
        fill(old, 1)
    transactional(old, 16, 2)
    before, aborted = what_it_holds(old), fetch(old, 0, Isolation.READ_COMMITTED).aborted
    assert aborted
    assert before[4] < before[3]  # type: ignore[operator]
    new = moved(manager, home.paths[1])
    assert what_it_holds(new) == before
    assert fetch(new, 0, Isolation.READ_COMMITTED).aborted == aborted
    manager.shutdown()
    manager = home.start()
    again = manager.require(T0)
    assert again.offsets().last_stable.message_offset == before[4]
    assert fetch(again, 0, Isolation.READ_COMMITTED).aborted == aborted
    transactional(again, 18, 1)  # the new log knows its sequence
    end_transaction(again, committed=False)
    assert again.offsets().last_stable.message_offset == again.end_offset
    assert fetch(moved(manager, home.paths[2]), 0, Isolation.READ_COMMITTED).aborted[-1].producer_id == PRODUCER  # type: ignore[index]


def test_appenders_lose_nothing_and_write_nothing_twice(home: DiskHome) -> None:
    scheduler = ThreadScheduler(3)
    scheduler.startup()
    manager, _ = start(home, 0, scheduler=scheduler)
    acknowledged: list[tuple[int, bytes]] = []
    refused = [0]
    is_over = threading.Event()

    def append(thread: int) -> None:
        number = 0
        while not is_over.is_set():
            value = b"%d:%d" % (thread, number)
            log = manager.require(T0)
            try:
                result = log.append_as_leader(bytearray(batch(0, [value], timestamp=NOW)), leader_epoch=0)
            except ClosedError:
                refused[0] += 1
                continue
            acknowledged.append((result.offsets.start, value))
            number += 1
            time.sleep(0.001)  # three fast writers could outrun the copy of small segments

    threads = [threading.Thread(target=append, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for path in (home.paths[1], home.paths[2], home.paths[0], home.paths[1]):
        manager.move(T0, path)
        deadline = time.monotonic() + 60
        while manager.require(T0).directory.parent != path and time.monotonic() < deadline:
            time.sleep(0.01)
    is_over.set()
    for thread in threads:
        thread.join()
    log = manager.require(T0)
    assert log.directory.parent == home.paths[1]
    assert values(log) == sorted(acknowledged)
    assert [offset for offset, _ in values(log)] == list(range(len(acknowledged)))
    scheduler.shutdown()


class TestTheLogChangesMeanwhile:
    @pytest.mark.parametrize("cut_at", [0, 5, 20, 35, 90])
    def test_it_is_truncated_and_goes_on_in_the_same_epoch(self, home: DiskHome, cut_at: int) -> None:
        manager, old = start(home)
        under_way(manager, home.paths[1])
        old.truncate_to(cut_at)
        for _ in range(12):
            old.append_as_leader(bytearray(plain(0, 10, timestamp=NOW, size=25)), leader_epoch=0)
        before = what_it_holds(old)
        assert manager.run_move(T0)
        assert what_it_holds(manager.require(T0)) == before

    def test_it_is_truncated_more_than_once(self, home: DiskHome) -> None:
        manager, old = start(home)
        move = under_way(manager, home.paths[1])
        for cut_at, batches in ((60, 9), (10, 2), (25, 9)):
            old.truncate_to(cut_at)
            fill(old, batches, timestamp=NOW + cut_at)
        before = what_it_holds(old)
        assert move.end_offset
        assert manager.run_move(T0)
        assert what_it_holds(manager.require(T0)) == before

    def test_it_is_truncated_between_reading_and_writing(self, home: DiskHome, monkeypatch: pytest.MonkeyPatch) -> None:
        manager, old = start(home)
        future = under_way(manager, home.paths[1])
        append = future.append_as_follower
        pending: list[Callable[[], None]] = [lambda: old.truncate_to(30) and fill(old, 9, timestamp=NOW + 5)]  # type: ignore[list-item,func-returns-value]

        def late(*arguments: object) -> object:
            if pending:
                pending.pop()()
            return append(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(future, "append_as_follower", late)
        assert manager.run_move(T0)
        assert content(manager.require(T0)) == content(old)

    @pytest.mark.parametrize("offset", [0, 20, 45, 100, 700])
    def test_it_begins_anew(self, home: DiskHome, offset: int) -> None:
        manager, old = start(home)
        under_way(manager, home.paths[1])
        old.truncate_fully_and_start_at(offset)
        fill(old, 5, timestamp=NOW + 1)
        before = what_it_holds(old)
        assert manager.run_move(T0)
        assert what_it_holds(manager.require(T0)) == before

    def test_it_loses_its_oldest_records(self, home: DiskHome) -> None:
        manager, old = start(home, 20)
        future = under_way(manager, home.paths[1])
        old.maybe_increment_log_start_offset(155)
        old.delete_old_segments()
        assert future.end_offset < old.base_offsets[0]
        assert manager.run_move(T0)
        new = manager.require(T0)
        assert (content(new), new.log_start_offset) == (content(old), 155)

    def test_it_loses_what_is_read_just_now(self, home: DiskHome, monkeypatch: pytest.MonkeyPatch) -> None:
        manager, old = start(home, 20)
        under_way(manager, home.paths[1])
        read = old.read
        pending = [155]

        def late(*arguments: object) -> object:
            if pending:
                old.maybe_increment_log_start_offset(pending.pop())
                old.delete_old_segments()
            return read(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(old, "read", late)
        assert manager.run_move(T0)
        assert content(manager.require(T0)) == content(old)

    def test_its_settings_change(self, home: DiskHome) -> None:
        manager, old = start(home)
        future = under_way(manager, home.paths[1])
        home.topic_settings["t"] = {"segment.bytes": "600", "retention.ms": "77"}
        manager.update_topic_config("t")
        assert old.config.retention_ms == future.config.retention_ms == 77
        assert manager.run_move(T0)
        assert manager.require(T0).config.segment_bytes == 600

    def test_segments_become_smaller_than_its_batches(self, home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
        manager, old = start(home)
        under_way(manager, home.paths[1])
        home.topic_settings["t"] = {"segment.bytes": "100"}
        manager.update_topic_config("t")
        home.clock.sleep_ms(0)
        assert manager.require(T0) is old
        assert "Moving t-0 to another log directory failed; it will be retried" in caplog.text
        home.topic_settings["t"] = {"segment.bytes": "1024"}
        manager.update_topic_config("t")
        home.clock.sleep_ms(1000)
        assert content(manager.require(T0)) == content(old)
        assert manager.require(T0) is not old

    def test_it_is_deleted(self, home: DiskHome) -> None:
        manager, old = start(home)
        future = under_way(manager, home.paths[1])
        assert manager.delete(T0) is old
        assert not manager.run_move(T0)
        assert manager.moves == {}
        assert manager.deleted_logs == [future, old]
        home.clock.sleep_ms(120_000)
        assert manager.all_logs() == []
        assert not any(name.startswith("t-") for path in home.paths for name in home.disk.list_names(path))


class TestCallingOff:
    def test_towards_where_it_lies(self, home: DiskHome) -> None:
        manager, old = start(home)
        future = under_way(manager, home.paths[1])
        manager.move(T0, home.paths[0])
        assert not manager.run_move(T0)
        assert manager.require(T0) is old
        assert manager.deleted_logs == [future]
        fill(old, 1)
        home.clock.sleep_ms(5000)
        assert manager.require(T0) is old

    def test_towards_elsewhere(self, home: DiskHome) -> None:
        manager, old = start(home)
        first = under_way(manager, home.paths[1])
        manager.move(T0, home.paths[2])
        home.clock.sleep_ms(0)
        assert manager.require(T0).directory.parent == home.paths[2]
        assert content(manager.require(T0)) == content(old)
        assert set(manager.deleted_logs) == {first, old}

    def test_the_same_again_goes_on(self, home: DiskHome) -> None:
        manager, _ = start(home)
        under_way(manager, home.paths[1])
        move = manager.moves[T0]
        manager.move(T0, home.paths[1])
        assert manager.moves[T0] is move
        assert home.scheduler.names.count("move-log") == 1
        home.clock.sleep_ms(0)
        assert manager.require(T0).directory.parent == home.paths[1]

    def test_while_it_is_copied(self, home: DiskHome, monkeypatch: pytest.MonkeyPatch) -> None:
        manager, old = start(home)
        future = under_way(manager, home.paths[1])
        append = future.append_as_follower

        def late(*arguments: object) -> object:
            if manager.moves:
                manager.move(T0, home.paths[0])
            return append(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(future, "append_as_follower", late)
        assert not manager.run_move(T0)
        assert manager.require(T0) is old

    def test_nothing_to_do(self, home: DiskHome) -> None:
        manager, old = start(home)
        manager.move(T0, home.paths[0])
        assert manager.moves == {}
        assert manager.all_logs() == [old]
        assert not manager.run_move(T0)

    def test_refusals(self, home: DiskHome) -> None:
        manager, _ = start(home)
        with pytest.raises(DirectoryError, match="not found in the config"):
            manager.move(T0, Path("/elsewhere"))
        with pytest.raises(UnknownTopicOrPartitionError):
            manager.move(TopicPartition("u", 0), home.paths[1])


class TestRestart:
    def test_a_stop_in_the_middle(self, home: DiskHome) -> None:
        manager, old = start(home)
        copied = under_way(manager, home.paths[1]).end_offset
        before = content(old)
        manager.shutdown()
        again = home.start()
        assert again.log(T0, is_future=True).end_offset == copied  # type: ignore[union-attr]
        assert list(again.moves) == [T0]
        assert again.run_move(T0)
        assert content(again.require(T0)) == before

    def test_the_future_log_has_more_after_a_crash(self, home: DiskHome) -> None:
        manager, old = start(home)
        old.flush()
        manager.move(T0, home.paths[1])
        fill(old, 10, timestamp=NOW + 1)
        future = manager.log(T0, is_future=True)
        assert future is not None
        while not manager.moves[T0].copy():
            pass
        future.flush()
        manager.checkpoint_recovery_points()
        home.crash(manager, Lost())
        again = home.start()
        current = again.require(T0)
        assert 100 <= current.end_offset < 200
        fill(current, 20, timestamp=NOW + 2)
        assert again.run_move(T0)
        assert content(again.require(T0)) == content(current)

    def test_a_future_log_without_a_current_one_is_left_alone(
        self, home: DiskHome, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager, _ = start(home)
        under_way(manager, home.paths[1])
        manager.shutdown()
        again = home.start(paths=home.paths[1:])
        future = again.log(T0, is_future=True)
        assert future is not None
        assert "is a future log without a current log; its move does not continue" in caplog.text
        assert again.moves == {}

    def test_a_log_that_is_made_anew_is_not_mixed_with_the_future_of_another(self, home: DiskHome) -> None:
        """Leader epochs could not tell the two logs apart, and the future log may be the only copy of the old data."""
        manager, _ = start(home)
        waiting = under_way(manager, home.paths[1])
        records = values(waiting)
        manager.shutdown()
        again = home.start(paths=home.paths[1:2])
        anew = again.get_or_create(T0)
        fill(anew, 20, timestamp=NOW + 1)
        before = content(anew)
        assert again.log(T0, is_future=True) is None
        assert [path.name.endswith("-stray") for path in again.strays] == [True]
        again.shutdown()
        last = home.start(paths=home.paths[1:])
        assert last.moves == {}
        assert content(moved(last, home.paths[2])) == before
        [aside] = last.strays
        last.shutdown()
        home.disk.rename(aside, aside.with_name("u-0"))
        assert values(home.start(paths=home.paths[1:]).require(TopicPartition("u", 0))) == records

    def test_a_crash_at_some_steps(self) -> None:
        """The log was flushed, so the crash loses and duplicates nothing, and the move can be completed."""
        assert self._crash_everywhere([[Lost()], [1], [Kept()]], every=5) > 50

    @pytest.mark.slow
    def test_a_crash_at_every_step(self) -> None:
        found = [Lost(), Kept(), *range(6)]
        print(f"{self._crash_everywhere([found])} steps of a move, {len(found)} disks each")

    def _crash_everywhere(self, found: list[Sequence[Chooser | int]], *, every: int = 1) -> int:
        """Crash at every ``every``-th step of a move, and return the number of steps."""
        step = 0
        for choices in itertools.cycle(found):
            over = [self._crash_at(step, choice) for choice in choices]
            if not all(over):
                return step
            step += every
        return step

    def _crash_at(self, step: int, choice: Chooser | int) -> bool:
        """Return False if the move ended before the step."""
        home = DiskHome()
        manager, log = start(home, 3)
        log.flush()
        manager.checkpoint_recovery_points()
        before, now = content(log), len(home.disk.calls)
        home.disk.crash_before(now + step)
        try:
            moved(manager, home.paths[1])
            home.clock.sleep_ms(120_000)
        except PowerLoss:
            pass
        else:
            return False
        home.crash(manager, choice)
        again = home.start()
        assert content(again.require(T0)) == before, f"step {step}"
        assert again.partitions() == [T0]
        again.run_move(T0)
        assert again.log(T0, is_future=True) is None
        fill(again.require(T0), 1)
        assert len(values(again.require(T0))) == 40
        again.shutdown()
        return True


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


class TestDisksFail:
    @pytest.mark.parametrize("call", ["create", "pwrite", "sync", "rename"])
    def test_the_target(self, home: DiskHome, caplog: pytest.LogCaptureFixture, call: str) -> None:
        manager, old = start(home)
        under_way(manager, home.paths[1])
        home.break_disk(home.paths[1], calls={call})
        home.clock.sleep_ms(0)
        assert manager.require(T0) is old
        assert list(manager.offline) == [home.paths[1]]
        assert len(errors(caplog)) == 1
        assert manager.moves == {}
        fill(old, 1)
        manager.move(T0, home.paths[2])
        home.clock.sleep_ms(0)
        assert manager.require(T0).directory.parent == home.paths[2]
        with pytest.raises(StorageError, match="offline"):
            manager.move(T0, home.paths[1])

    def test_the_source_while_it_is_read(self, home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
        manager, old = start(home)
        before = content(old)
        old.flush()
        under_way(manager, home.paths[1])
        home.break_disk(home.paths[0], calls={"pread"})
        home.clock.sleep_ms(2000)
        with pytest.raises(StorageError, match="t-0 is offline"):
            manager.require(T0)
        assert manager.moves == {}
        assert len(errors(caplog)) == 1
        manager.shutdown()
        home.disk.heal()
        again = home.start()
        home.clock.sleep_ms(0)
        assert again.require(T0).directory.parent == home.paths[1]
        assert content(again.require(T0)) == before

    def test_the_source_when_its_log_has_to_go(self, home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
        manager, old = start(home)
        before = content(old)
        old.flush()
        manager.move(T0, home.paths[1])
        home.break_disk(home.paths[0], calls={"rename"})
        home.clock.sleep_ms(0)
        new = manager.require(T0)
        assert new.directory.parent == home.paths[1]
        assert content(new) == before
        assert list(manager.offline) == [home.paths[0]]
        assert len(errors(caplog)) == 1
        manager.shutdown()
        home.disk.heal()
        again = home.start()  # two live directories with the same records
        assert content(again.require(T0)) == before
        assert len(again.strays) == 1


class TestMovesThatWaitForTheirOwner:
    """A broker lets a move end once the controller knows the new log directory."""

    def test_the_rest_is_copied_after_the_permission(self, home: DiskHome) -> None:
        asked: list[tuple[TopicPartition, Path]] = []
        ends: list[Callable[[], None]] = []

        def on_caught_up(partition: TopicPartition, path: Path, end: Callable[[], None]) -> None:
            asked.append((partition, path))
            ends.append(end)

        manager, old = start(home, on_caught_up=on_caught_up)
        manager.move(T0, home.paths[1])
        home.clock.sleep_ms(0)
        assert asked == [(T0, home.paths[1])]
        assert manager.require(T0) is old
        fill(old, 3)
        assert not manager.run_move(T0)
        assert len(asked) == 1
        fill(old, 3)
        before = what_it_holds(old)
        ends[0]()
        home.clock.sleep_ms(0)
        new = manager.require(T0)
        assert new.directory.parent == home.paths[1]
        assert what_it_holds(new) == before

    def test_a_cancelled_move_does_not_end(self, home: DiskHome) -> None:
        ends: list[Callable[[], None]] = []
        manager, old = start(home, on_caught_up=lambda _partition, _path, end: ends.append(end))
        manager.move(T0, home.paths[1])
        home.clock.sleep_ms(0)
        manager.move(T0, home.paths[0])
        ends[0]()
        home.clock.sleep_ms(0)
        assert manager.require(T0) is old
        manager.move(T0, home.paths[1])
        home.clock.sleep_ms(0)
        assert manager.require(T0) is old, "the second move has no permission yet"
        ends[1]()
        home.clock.sleep_ms(0)
        assert manager.require(T0).directory.parent == home.paths[1]


class TestThrottle:
    def test_a_throttled_move_takes_its_time(self, home: DiskHome) -> None:
        manager, old = start(home, 40, move_rate=lambda: 500)
        began_ms, size = home.clock.monotonic_ms(), old.size
        manager.move(T0, home.paths[1])
        while manager.require(T0) is old:
            home.clock.sleep_ms(100)
        rate = size * 1000 / (home.clock.monotonic_ms() - began_ms)
        assert 250 < rate < 1000
        assert content(manager.require(T0)) == content(old)

    def test_another_rate_counts_at_once(self, home: DiskHome) -> None:
        rates = [1]
        manager, old = start(home, 40, move_rate=lambda: rates[0])
        manager.move(T0, home.paths[1])
        home.clock.sleep_ms(5000)
        assert manager.require(T0) is old
        rates[0] = 1_000_000
        home.clock.sleep_ms(1000)
        assert manager.require(T0) is not old

    def test_moves_share_the_rate(self, home: DiskHome) -> None:
        manager, old = start(home, 10, move_rate=lambda: 1)
        other = manager.get_or_create(TopicPartition("t", 1))
        fill(other, 10)
        manager.move(T0, home.paths[1])
        home.clock.sleep_ms(0)
        target = next(path for path in home.paths if path != other.directory.parent)
        manager.move(TopicPartition("t", 1), target)
        home.clock.sleep_ms(0)
        second = manager.log(TopicPartition("t", 1), is_future=True)
        assert second is not None
        assert second.end_offset == 0
        assert manager.require(T0) is old
