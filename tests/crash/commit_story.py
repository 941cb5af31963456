"""Staged files that are committed to a log directory while its power may fail, and a check of the crash state.

Two continuations follow from each state. The committer stages and commits the batch again, and every record is in the
logs once. Or ``tidelog recover`` settles the directory, and the batch is in all of its logs or in none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crash.adoption_story import unplaced
from crash.examination import batches_of
from crash.story import CONFIG
from log_maker import BASE_TIME, batch, plain
from tidelog.model import TopicPartition
from tidelog.storage.manager.recovery.directory_recovery import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions
from tidelog.storage.manager.staged.staged_commit import INTENT_FILE, PREFIX, StagedCommit, StagedFile, StagedName
from tidelog.storage.manager.writable.commit import CommitResult, commit_staged
from tidelog.storage.manager.writable.writable_directory import WritableDirectory
from tidelog.testing import DiskCall, Kept, ManualClock, SimulatedDisk

HOME = Path("/logs")
OLD, NEW = TopicPartition("t", 0), TopicPartition("new", 3)
QUERY, BATCH = "query-1", 5
ROWS = {OLD: ((3, 1), (5,)), NEW: ((2, 2),)}
"""The numbers of records of the batches, by partition and file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPromise:
    before: tuple[bytes, ...]
    """The flushed batches of the old log."""
    is_committed: bool


class CommitStory:
    """A cleanly closed log with batches, a staged batch, and the files of a dead attempt."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_dir(HOME)
        self.clock = ManualClock(BASE_TIME + 1_000_000)
        self.is_committed = False
        directory = WritableDirectory(self.disk, HOME, clock=self.clock, config=CONFIG)
        opened = directory.open_log(HOME / OLD.directory_name)
        for number in range(12):
            opened.log.append(bytearray(plain(0, 1 + number % 3, size=60, timestamp=self.clock.now)))
        self.before = tuple(batch.data for batch in batches_of(opened.log))
        directory.close()
        stage(self.disk, "dead")
        self.commit = stage(self.disk, "task-1")
        self.disk.sync_all()

    def promise(self) -> CommitPromise:
        return CommitPromise(before=self.before, is_committed=self.is_committed)


def rows_of(partition: TopicPartition) -> list[list[bytes]]:
    """Make the batches of each of a partition's files."""
    return [
        [
            batch(0, [b"%s %d %d" % (str(partition).encode(), file, number)] * count)
            for number, count in enumerate(counts)
        ]
        for file, counts in enumerate(ROWS[partition])
    ]


def stage(disk: SimulatedDisk, writer: str) -> StagedCommit:
    """Stage and sync the files of an attempt, as its tasks do."""
    files: dict[TopicPartition, tuple[StagedFile, ...]] = {}
    number = 0
    for partition in ROWS:
        staged = []
        for batches in rows_of(partition):
            name = str(StagedName(QUERY, BATCH, writer, number))
            number += 1
            data = b"".join(batches)
            with disk.open(HOME / name, create=True) as file:
                file.pwrite(data, 0)
                file.sync()
            staged.append(StagedFile(name, len(data)))
        files[partition] = tuple(staged)
    disk.sync_dir(HOME)
    return StagedCommit(query=QUERY, batch=BATCH, files=files)


def commit(disk: SimulatedDisk, wanted: StagedCommit) -> CommitResult:
    return commit_staged(disk, HOME, wanted, clock=ManualClock(BASE_TIME + 2_000_000), config=CONFIG)


def commit_it(story: CommitStory) -> None:
    assert not commit(story.disk, story.commit).was_done
    story.is_committed = True


def commit_again(story: CommitStory) -> None:
    assert commit(story.disk, story.commit).was_done


def committed() -> CommitStory:
    """Commit a batch and stage it again, as after a driver's crash."""
    story = CommitStory()
    commit_it(story)
    story.commit = stage(story.disk, "task-2")
    story.disk.sync_all()
    return story


def decided() -> CommitStory:
    """Crash in the middle of a commit: the next step is to complete it."""
    story = CommitStory()
    found: list[SimulatedDisk] = []

    def look(call: DiskCall) -> None:
        """Save the disk before each staged file is renamed into its log."""
        if call.name == "rename" and call.path.name.startswith(PREFIX):
            found.append(story.disk.after_crash(Kept()))

    story.disk.before_call = look
    commit_it(story)
    story.disk = found[1]
    return story


def open_it(story: CommitStory) -> None:
    WritableDirectory(story.disk, HOME, clock=story.clock, config=CONFIG).close()


COMMIT_SCENARIOS: tuple[tuple[str, Callable[[], CommitStory], Callable[[CommitStory], None]], ...] = (
    ("commit", CommitStory, commit_it),
    ("commit again", committed, commit_again),
    ("carry out a commit", decided, open_it),
)


def examine_commit(disk: SimulatedDisk, promise: CommitPromise) -> None:
    """Check a disk against the promise. Raise AssertionError, or an error of committing."""
    recovered = disk.after_crash(Kept())
    options = RecoverOptions(now_ms=BASE_TIME, config=CONFIG, threads=1)
    assert not recover_directory(recovered, HOME, options).failures
    require_settled(recovered)
    there = contents(recovered)
    has_it = [has_all(there.get(partition, []), partition) for partition in ROWS]
    assert there[OLD][: len(promise.before)] == list(promise.before)
    if promise.is_committed:
        assert has_it == [True, True]
    elif not all(has_it):
        found = {unplaced(one) for batches in there.values() for one in batches}
        assert not any(found.intersection(ours(partition)) for partition in ROWS), "some of it is there"
    commit(disk, stage(disk, "task-9"))
    again = contents(disk)
    assert again[OLD][: len(promise.before)] == list(promise.before)
    assert all(has_all(again[partition], partition) for partition in ROWS), "a record is not there once"
    require_settled(disk)
    assert commit(disk, stage(disk, "task-10")).was_done
    assert contents(disk) == again
    require_settled(disk)


def ours(partition: TopicPartition) -> list[bytes]:
    return [unplaced(one) for batches in rows_of(partition) for one in batches]


def has_all(there: list[bytes], partition: TopicPartition) -> bool:
    """Return True if the partition's batches are at the log's end, and once."""
    wanted = ours(partition)
    found = [unplaced(one) for one in there]
    return found[-len(wanted) :] == wanted and all(found.count(one) == 1 for one in wanted)


def contents(disk: SimulatedDisk) -> dict[TopicPartition, list[bytes]]:
    """Return all batches of each log as its owner would find them, from a copy of the disk."""
    directory = WritableDirectory(disk.after_crash(Kept()), HOME, clock=ManualClock(BASE_TIME), config=CONFIG)
    found = {}
    for name in disk.list_directories(HOME):
        log = directory.open_log(HOME / name).log
        found[TopicPartition.from_directory_name(name)] = [one.data for one in batches_of(log)]
    directory.close()
    return found


def require_settled(disk: SimulatedDisk) -> None:
    left = [name for name in disk.list_names(HOME) if name.startswith((PREFIX, INTENT_FILE))]
    assert left == []
