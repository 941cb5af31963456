"""Disks that run full, fail, are slow or disappear: the errors are those of a real disk."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.model import DirectoryError, FileMissingError, LockedError, StorageError
from tidelog.testing import DiskFault, ManualClock, SimulatedDisk
from tidelog.testing.disk import CHANGING_CALLS, SimulatedFile

HOME = Path("/disk")
FILE, OTHER = HOME / "file", HOME / "other"


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_dir(HOME)
    for path in (FILE, OTHER):
        with made.open(path, create=True) as file:
            file.pwrite(b"o" * 1000, 0)
    return made


def test_a_full_disk_takes_what_fits(disk: SimulatedDisk) -> None:
    disk.free_bytes = 1200
    with disk.open(FILE, write=True) as file:
        file.pwrite(b"n" * 100, 0)  # in place
        file.pwrite(b"n" * 24, 1000)  # the last sector has room for it
        assert disk.free_bytes == 1200
        with pytest.raises(StorageError, match=r"cannot write: no space left on the disk \(file /disk/file\)"):
            file.pwrite(b"n" * 2000, 1024)
        assert file.size == 1024 + 1024
        assert disk.free_bytes == 176
        with pytest.raises(StorageError, match="no space"):
            file.pwrite(b"n", 5000)
        assert file.size == 2048
        file.allocate(100_000)  # sparse
        file.truncate(512)
        assert disk.free_bytes == 176 + 3 * 512


def test_room_comes_back_when_a_file_goes(disk: SimulatedDisk) -> None:
    disk.free_bytes = 0
    with disk.open(FILE) as file:
        disk.remove(FILE)
        assert disk.free_bytes == 0
        assert file.pread(3, 0) == b"ooo"
    assert disk.free_bytes == 1024
    with disk.open(FILE, create=True) as file:
        file.pwrite(b"1", 0)
    disk.rename(OTHER, FILE)
    assert disk.free_bytes == 1024


def test_a_call_fails_by_its_number(disk: SimulatedDisk) -> None:
    number = len(disk.calls) + 1
    disk.fail(DiskFault(errno=errno.EIO, at_call=number))
    with disk.open(FILE, write=True) as file:
        file.pwrite(b"1", 0)
        with pytest.raises(StorageError, match="cannot sync: the disk reports an input/output error"):
            file.sync()
        file.sync()
    assert [call.name for call in disk.calls[number - 1 :]] == ["pwrite", "sync", "sync"]


def test_calls_fail_by_name_place_and_times(disk: SimulatedDisk) -> None:
    disk.make_dir(HOME / "sub")
    disk.fail(DiskFault(errno=errno.EIO, calls={"create"}, below=HOME / "sub", times=2))
    only = disk.fail(DiskFault(errno=errno.EACCES, calls={"open"}, pattern="*/oth*"))
    disk.open(HOME / "third", create=True).close()
    for _ in range(2):
        with pytest.raises(StorageError, match="cannot open: the disk reports"):
            disk.open(HOME / "sub" / "file", create=True)
    disk.open(HOME / "sub" / "file", create=True).close()
    disk.open(FILE).close()
    with pytest.raises(StorageError, match="cannot open: permission denied"):
        disk.open(OTHER)
    disk.heal(only)
    disk.open(OTHER).close()
    with pytest.raises(ValueError, match="no calls named write"):
        DiskFault(errno=errno.EIO, calls={"write"})


def test_a_disk_mounted_read_only_refuses_every_change(disk: SimulatedDisk) -> None:
    opened = disk.open(FILE, write=True)
    disk.remount_read_only(HOME)
    before = disk.files()
    for call in (
        lambda: opened.pwrite(b"1", 0),
        lambda: opened.truncate(0),
        lambda: opened.sync(),
        lambda: disk.open(FILE, write=True),
        lambda: disk.open(HOME / "new", create=True),
        lambda: disk.rename(FILE, OTHER),
        lambda: disk.remove(FILE),
        lambda: disk.make_dir(HOME / "new"),
        lambda: disk.lock(HOME / "new"),
        lambda: disk.sync_dir(HOME),
        lambda: disk.set_mtime(FILE, 0),
    ):
        with pytest.raises(StorageError, match="the file system is mounted read-only"):
            call()
    assert opened.pread(1, 0) == b"o"
    assert disk.open(FILE).pread(1, 0) == b"o"
    assert disk.list_names(HOME) == ["file", "other"]
    assert disk.files() == before
    disk.make_dir(Path("/elsewhere"))
    disk.heal()
    disk.remove(FILE)


def test_a_disk_that_went_away_has_no_names_and_its_files_fail(disk: SimulatedDisk) -> None:
    disk.make_dir(Path("/disk2"))
    opened = disk.open(FILE, write=True)
    faults = disk.vanish(HOME)
    assert not disk.exists(FILE)
    with pytest.raises(FileMissingError):
        disk.list_names(HOME)
    with pytest.raises(FileMissingError):
        disk.open(HOME / "new", create=True)
    with pytest.raises(StorageError, match="input/output error"):
        opened.pread(1, 0)
    disk.list_names(Path("/disk2"))
    disk.heal(*faults)
    assert opened.pread(1, 0) == b"o"


def test_directories_below_a_file_cannot_be_made_and_the_one_asked_for_is_named(disk: SimulatedDisk) -> None:
    with pytest.raises(DirectoryError) as refused:
        disk.make_dir(FILE / "below" / "deeper")
    assert refused.value.path == str(FILE / "below" / "deeper")


def test_slow_calls_move_the_clock() -> None:
    clock = ManualClock(1000)
    disk = SimulatedDisk(clock=clock)
    disk.fail(DiskFault(delay_ms=20, calls={"sync"}, times=2))
    with disk.open(Path("/file"), create=True) as file:
        file.pwrite(b"1", 0)
        assert clock.now == 1000
        file.sync()
        file.sync()
        file.sync()
    assert clock.now == 1040
    disk.fail(DiskFault(delay_ms=5, errno=errno.EIO))
    with pytest.raises(StorageError):
        disk.stat(Path("/file"))
    assert clock.now == 1045


def test_another_process_holds_a_lock(disk: SimulatedDisk) -> None:
    held = disk.lock_as(4711, FILE)
    assert disk.lock_holder(FILE) == 4711
    with pytest.raises(LockedError, match=r"process 4711 has locked it \(a broker, or tidelog, is running on it\)"):
        disk.lock(FILE)
    disk.open(FILE, write=True).close()
    held.release()
    assert disk.lock_holder(FILE) is None
    disk.lock(FILE).release()


def test_files_have_the_times_of_the_clock() -> None:
    clock = ManualClock(1000)
    disk = SimulatedDisk(clock=clock)
    with disk.open(Path("/file"), create=True) as file:
        clock.now += 5
        file.pwrite(b"1", 0)
        clock.now += 5
        file.pread(1, 0)
        file.sync()
    assert disk.stat(Path("/file")).mtime_ms == 1005
    assert disk.stat(Path("/")).mtime_ms == 1000


CALLS: dict[str, Callable[[SimulatedDisk, SimulatedFile], object]] = {
    "create": lambda disk, _: disk.open(HOME / "new", create=True),
    "pwrite": lambda _, file: file.pwrite(b"1", 0),
    "truncate": lambda _, file: file.truncate(5),
    "allocate": lambda _, file: file.allocate(5000),
    "sync": lambda _, file: file.sync(),
    "rename": lambda disk, _: disk.rename(FILE, OTHER),
    "link": lambda disk, _: disk.link(FILE, OTHER),
    "set_mtime": lambda disk, _: disk.set_mtime(FILE, 0),
    "remove": lambda disk, _: disk.remove(FILE),
    "make_dir": lambda disk, _: disk.make_dir(HOME / "new"),
    "remove_dir": lambda disk, _: disk.remove_dir(HOME / "sub"),
    "sync_dir": lambda disk, _: disk.sync_dir(HOME),
}


@pytest.mark.parametrize("name", sorted(CHANGING_CALLS))
def test_every_changing_call_can_fail_and_does_nothing_then(disk: SimulatedDisk, name: str) -> None:
    disk.make_dir(HOME / "sub")
    before = (disk.files(), disk.list_names(HOME), disk.stat(FILE))
    with disk.open(FILE, write=True) as file:
        disk.fail(DiskFault(errno=errno.EIO, calls={name}))
        with pytest.raises(StorageError, match="input/output error"):
            CALLS[name](disk, file)
    assert (disk.files(), disk.list_names(HOME), disk.stat(FILE)) == before
