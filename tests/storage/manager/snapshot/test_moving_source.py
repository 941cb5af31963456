"""A log that rolls, or loses or replaces segments, while a snapshot is taken: at every call of the disk, once.

The owner of the source is this process. The disk of the snapshot pretends that another process holds the lock, and
lets the owner do its work just before one of the snapshot's calls in the partition's directory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from snapshot_checks import Seen, UnsyncedDisk, digests, records, snapshot, until
from snapshot_source import SMALL, T0, Source, SourceLog
from tidelog.kernel import OffsetMap
from tidelog.model import TidelogError, TopicPartition
from tidelog.storage.cleaner.clean.clean_log import clean_log
from tidelog.storage.fs import FileStat
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.testing import ManualClock

PARTITION = TopicPartition("t", 0)
AT_MS = T0 + 100
ANOTHER_PROCESS = 4242


class MovingDisk(UnsyncedDisk):
    """A disk that does ``work`` before the call number ``at`` about the partition's directory or its files."""

    __slots__ = ("_at", "_partition", "_work", "calls")

    def __init__(self, partition: Path, at: int, work: Callable[[], None]) -> None:
        self._partition = partition
        self._at = at
        self._work = work
        self.calls = 0

    def _count(self, path: Path) -> None:
        if self._partition in (path, path.parent):
            self.calls += 1
            if self.calls == self._at:
                self._work()

    def lock_holder(self, path: Path) -> int | None:
        is_source = path == self._partition.parent / LOCK_FILE
        return ANOTHER_PROCESS if is_source else super().lock_holder(path)

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> LocalFile:
        self._count(path)
        return super().open(path, write=write, create=create)

    def stat(self, path: Path) -> FileStat:
        self._count(path)
        return super().stat(path)

    def link(self, source: Path, target: Path) -> bool:
        self._count(source)
        return super().link(source, target)

    def list_sizes(self, directory: Path) -> dict[str, int]:
        self._count(directory)
        return super().list_sizes(directory)

    def list_names(self, directory: Path) -> list[str]:
        self._count(directory)
        return super().list_names(directory)


class Owner:
    """An open log with sealed segments and an active one, whose records up to ``AT_MS`` a snapshot must have."""

    def __init__(self, path: Path) -> None:
        self.source = Source(path)
        self.log: SourceLog = self.source.log(str(PARTITION), replace(SMALL, retention_bytes=700))
        for number in range(16):
            self.log.append([T0 + number] * 3, keys=[b"%d" % (number % 5), b"same", b"%d" % number])
        self.checkpoint()

    @property
    def directory(self) -> Path:
        return self.source.path / str(PARTITION)

    def checkpoint(self) -> None:
        owned = self.source.owned
        owned.high_watermarks[PARTITION] = self.log.end
        owned.recovery_points[PARTITION] = self.log.log.base_offsets[-1]
        owned.write("replication-offset-checkpoint", "recovery-point-offset-checkpoint")

    def roll(self) -> None:
        for number in range(8):
            self.log.append([AT_MS + 1 + number] * 3)
        self.checkpoint()

    def delete_oldest(self) -> None:
        self.log.log.delete_old_segments()

    def compact(self) -> None:
        log = self.log.log
        clean_log(
            log,
            first_dirty=0,
            first_uncleanable=log.base_offsets[-1],
            offset_map=OffsetMap(1 << 16, key=bytes(16)),
            clock=ManualClock(T0 + 10**9),
        )

    def do_all(self) -> None:
        self.compact()
        self.roll()
        self.delete_oldest()


WORK: dict[str, Callable[[Owner], None]] = {
    "roll": Owner.roll,
    "delete the oldest segments": Owner.delete_oldest,
    "compact": Owner.compact,
    "all": Owner.do_all,
}


def take(path: Path, work: Callable[[Owner], None], at: int) -> int:
    """Take a snapshot with the owner's work before one call, check it, and return the number of calls."""
    owner = Owner(path / "data")
    before = until(records(owner.source.path, PARTITION), AT_MS)
    states = [digests(owner.source.path)]

    def do_work() -> None:
        work(owner)
        states.append(digests(owner.source.path))

    disk = MovingDisk(owner.directory, at, do_work)
    try:
        snapshot(owner.source.path, path / "copy", at_ms=AT_MS, fs=disk)
    except TidelogError as error:
        raise AssertionError(f"the work before call {at} ended the snapshot: {error}") from error
    assert digests(owner.source.path) == states[-1], "the snapshot changed its source"
    after = until(records(owner.source.path, PARTITION), AT_MS)
    check(records(path / "copy", PARTITION), before, after)
    owner.source.finish(clean=False)
    return disk.calls


def check(found: list[Seen], before: list[Seen], after: list[Seen]) -> None:
    """Check that no record is missing that stayed, and that none is there that was not."""
    assert [one for one in after if one not in found] == []
    assert [one for one in found if one not in before] == []
    assert [one.offset for one in found] == sorted({one.offset for one in found})


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", WORK)
def test_a_snapshot_beside_the_owners_work(name: str, every: int, tmp_path: Path) -> None:
    calls = take(tmp_path / "calls", WORK[name], at=0)
    assert calls > 50
    for at in range(1, calls + 1, every):
        take(tmp_path / str(at), WORK[name], at)
