"""A power cut at any call of a snapshot, and of an owner that goes on: no byte of the source is lost or changed."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from crash.crash_walk import CrashWalk
from snapshot_checks import Seen, records, snapshot
from snapshot_source import T0, Source
from tidelog.model import LockedError, StorageError, TopicPartition
from tidelog.storage.fs import FileSystem
from tidelog.testing import DiskCall, DiskFault, SimulatedDisk

DATA, OTHER = TopicPartition("t", 0), TopicPartition("u", 0)
AT, COPY = Path("/data"), Path("/copy")
TIME = T0 + 31

Contents = dict[TopicPartition, list[Seen]]


@dataclass
class Story:
    disk: SimulatedDisk
    end: tuple[dict[Path, bytes], Contents]

    def promise(self) -> tuple[dict[Path, bytes], Contents]:
        return self.end


def make(fs: FileSystem) -> None:
    """Write two logs with several segments; an open transaction at the time."""
    source = Source(AT, fs)
    log = source.log("t-0")
    for number in range(0, 40, 4):
        log.append([T0 + number] * 4)
    log.append([T0 + 30, T0 + 31, T0 + 32], producer_id=3, transactional=True)
    log.end_transaction(3, committed=True, timestamp=T0 + 33)
    source.log("u-0").append([T0 + 1, T0 + 50], codec="gzip")
    source.finish()


def contents(disk: SimulatedDisk, path: Path) -> Contents:
    return {one: records(path, one, disk) for one in (DATA, OTHER)}


def story() -> Story:
    done, disk = SimulatedDisk(), SimulatedDisk()
    for one in (done, disk):
        make(one)
        one.sync_all()
    snapshot(AT, COPY, at_ms=TIME, fs=done)
    return Story(disk, (disk.files(AT), contents(done, COPY)))


def examine(found: SimulatedDisk, promise: tuple[dict[Path, bytes], Contents]) -> None:
    """The source is as before. The copy is complete, or does not have its name yet and can be made."""
    before, expected = promise
    assert found.files(AT) == before
    if not found.exists(COPY):
        snapshot(AT, COPY, at_ms=TIME, fs=found)
    assert found.exists(COPY / ".kafka_cleanshutdown")
    assert contents(found, COPY) == expected
    assert not found.exists(COPY.with_name("copy.unfinished"))
    assert found.files(AT) == before


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_the_power_gone_while_a_snapshot_is_taken(every: int) -> None:
    told = story()
    assert any(disk_call.name == "link" for disk_call in _calls(told))
    walk = CrashWalk[Story](states=3, every=every, examine=examine)
    walk.run(story(), lambda one: snapshot(AT, COPY, at_ms=TIME, fs=one.disk))
    assert walk.points > 50


def _calls(told: Story) -> Sequence[DiskCall]:
    snapshot(AT, COPY, at_ms=TIME, fs=told.disk)
    return told.disk.calls


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_the_power_gone_while_one_side_goes_on(every: int) -> None:
    """The other side keeps its records, although both have names for the same files."""
    told = story()
    snapshot(AT, COPY, at_ms=TIME, fs=told.disk)
    told.disk.sync_all()
    copied = told.disk.files(COPY)

    def go_on(one: Story) -> None:
        source = Source(AT, one.disk)
        log = source.log("t-0").log
        log.truncate_to(18)
        source.log("t-0").append([T0 + 99] * 4)
        source.finish()

    def is_whole(found: SimulatedDisk, _promise: object) -> None:
        assert found.files(COPY) == copied

    walk = CrashWalk[Story](states=3, every=every, examine=is_whole)
    walk.run(told, go_on)
    assert records(AT, DATA, told.disk)[-1].timestamp == T0 + 99


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    told = story()
    before = told.disk.files()
    told.disk.free_bytes = 2048
    with pytest.raises(StorageError, match="no space"):
        snapshot(AT, COPY, at_ms=TIME, fs=told.disk)
    assert told.disk.files() == before


def test_a_disk_without_links_gets_copies() -> None:
    told = story()
    told.disk.fail(DiskFault(errno=errno.EXDEV, calls={"link"}))
    result = snapshot(AT, COPY, at_ms=TIME, fs=told.disk)
    assert contents(told.disk, COPY) == told.end[1]
    (directory,) = result.directories
    assert directory.linked_bytes == 0
    assert sum(one.copy.linked for one in directory.partitions) == 0
    assert told.disk.files(AT) == told.end[0]


def test_another_process_is_not_disturbed() -> None:
    """The unfinished directory of the other process stays, with its lock."""
    told = story()
    unfinished = COPY.with_name("copy.unfinished")
    told.disk.make_dir(unfinished)
    told.disk.open(unfinished / ".lock", create=True).close()
    told.disk.lock_as(4711, unfinished / ".lock")
    with pytest.raises(LockedError, match="process 4711 is creating this directory"):
        snapshot(AT, COPY, at_ms=TIME, fs=told.disk)
    assert told.disk.exists(unfinished / ".lock")
