"""Several logs of one log manager on a simulated disk, their promises, and a check of the crash state.

A manager must start on the found disk. It serves every log that was not being deleted, with all flushed records and no
invented ones. It accepts appends, and is the same after a clean shutdown and another start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from crash.examination import Batch, batches_of
from crash.story import CONFIG, ROOT, Stored
from log_maker import BASE_TIME, plain
from tidelog.model import TopicPartition
from tidelog.storage.manager.log_manager import LogManager
from tidelog.testing import ManualClock, SimulatedDisk

DISKS = (ROOT / "disk1", ROOT / "disk2")
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerPromise:
    """The current promise. ``kept`` has each log's flushed batches, and none of a log under deletion."""

    kept: Mapping[TopicPartition, tuple[Stored, ...]]
    written: frozenset[bytes]


class ManagerStory:
    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.clock = ManualClock(BASE_TIME + 1_000_000)
        self.manager = new_manager(disk, self.clock)
        self.batches: dict[TopicPartition, list[Stored]] = {}
        self.flushed: dict[TopicPartition, int] = {}
        self.written: set[bytes] = set()

    def promise(self) -> ManagerPromise:
        return ManagerPromise(
            kept={
                partition: tuple(one for one in self.batches[partition] if one.end <= end)
                for partition, end in self.flushed.items()
            },
            written=frozenset(self.written),
        )

    def fill(self, partition: TopicPartition, batches: int) -> None:
        log = self.manager.get_or_create(partition)
        for number in range(batches):
            self.clock.now += 10
            first = log.end_offset
            made = plain(first, 1 + number % 3, size=60, timestamp=self.clock.now)
            self.written.add(made)
            log.append_as_leader(bytearray(bytes(8) + made[8:]), leader_epoch=0)
            self.batches.setdefault(partition, []).append(Stored(first, log.end_offset, made))

    def flush(self, partition: TopicPartition) -> None:
        self.flushed[partition] = self.manager.require(partition).flush()

    def killed(self, disk: SimulatedDisk) -> ManagerStory:
        """Continue the story on the disk that was found, without a start of the manager."""
        self.disk, self.manager = disk, new_manager(disk, self.clock)
        return self


def new_manager(disk: SimulatedDisk, clock: ManualClock) -> LogManager:
    return LogManager(disk, DISKS, default_config=CONFIG, clock=clock)


def running() -> ManagerStory:
    """Start a manager with two logs on two disks, the first flushed in part, the second to its end."""
    disk = SimulatedDisk()
    disk.make_dir(ROOT)
    disk.sync_all()
    story = ManagerStory(disk)
    story.manager.startup()
    story.fill(T0, 12)
    story.flush(T0)
    story.fill(T0, 6)
    story.fill(T1, 8)
    story.flush(T1)
    story.manager.checkpoint_recovery_points()
    return story


def killed() -> ManagerStory:
    story = running()
    return story.killed(story.disk.after_crash(3))


def start(story: ManagerStory) -> None:
    story.manager.startup()


def create(story: ManagerStory) -> None:
    story.fill(T2, 4)
    story.flush(T2)


def checkpoint(story: ManagerStory) -> None:
    story.flush(T0)
    story.manager.checkpoint_recovery_points()
    story.manager.checkpoint_log_starts()
    story.manager.checkpoint_high_watermarks()


def move(story: ManagerStory) -> None:
    """Move the log to the other disk, with appends during the move and after it."""
    manager = story.manager
    here = manager.require(T0).directory.parent
    manager.move(T0, next(path for path in DISKS if path != here))
    story.fill(T0, 2)
    assert manager.run_move(T0)
    story.fill(T0, 2)
    story.flush(T0)


def delete(story: ManagerStory) -> None:
    del story.flushed[T1]
    story.manager.delete(T1)
    story.clock.now += CONFIG.file_delete_delay_ms
    story.manager.remove_deleted_logs()
    assert story.manager.deleted_logs == []


def shutdown(story: ManagerStory) -> None:
    story.manager.shutdown()


MANAGER_SCENARIOS: tuple[tuple[str, Callable[[], ManagerStory], Callable[[ManagerStory], None]], ...] = (
    ("a manager starts", killed, start),
    ("a manager creates a log", running, create),
    ("a manager writes checkpoints", running, checkpoint),
    ("a manager moves a log", running, move),
    ("a manager deletes a log", running, delete),
    ("a manager is shut down", running, shutdown),
)


def examine_start(disk: SimulatedDisk, promise: ManagerPromise) -> None:
    """Check a disk against the promise. Raise AssertionError, or an error of the start."""
    clock = ManualClock(BASE_TIME + 2_000_000)
    manager = new_manager(disk, clock)
    manager.startup()
    assert not manager.damaged
    assert not manager.offline
    found = contents(manager)
    for partition, kept in promise.kept.items():
        there = {batch.first: batch.data for batch in found[partition]}
        for one in kept:
            assert there.get(one.first) == one.data, f"{partition}: the batch at {one.first} is lost or changed"
    for partition, batches in found.items():
        assert all(batch.data in promise.written for batch in batches), f"{partition}: something nobody wrote"
        end = manager.require(partition).end_offset
        made = bytearray(plain(0, 1, timestamp=clock.now))
        assert manager.require(partition).append_as_leader(made, leader_epoch=0).first_offset == end
    before = contents(manager)
    manager.shutdown()
    again = new_manager(disk, clock)
    again.startup()
    assert contents(again) == before
    assert all(not log.loaded.recovered for log in again.all_logs()), "it was stopped in order"
    again.shutdown()


def contents(manager: LogManager) -> dict[TopicPartition, list[Batch]]:
    return {partition: batches_of(manager.require(partition)) for partition in manager.partitions()}
