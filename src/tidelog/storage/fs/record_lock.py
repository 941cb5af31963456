"""POSIX record locks (``fcntl`` F_SETLK over the whole file), the kind Java's FileLock takes on Linux.

A live Kafka broker and tidelog therefore exclude each other on a log directory's ``.lock``. This kind of lock has two
traps:

- The lock belongs to the process, so a second request in the same process succeeds. A registry of the files that this
  process has locked, by device and inode, refuses the second request.
- Closing *any* descriptor of the file in the process drops the lock. So the file system passes every file it opens to
  ``keep_if_held``. For a locked file, that call keeps the second descriptor until the release, and the open fails. This
  module checks the registry before it opens anything.

A forked child inherits the descriptors but not the locks, so its registry is emptied. A crash of the process drops the
lock, and the file stays. Thread rule: any thread, because the registry has its own lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from pathlib import Path

from tidelog.model import LockedError
from tidelog.storage.fs.os_errors import SystemCall

_FLOCK = struct.Struct("@hhqqi4x")
"""Linux's ``struct flock`` on 64-bit machines: type, whence, start, length (0: to the end), pid."""

_registry_lock = threading.Lock()
_held: dict[tuple[int, int], RecordLock] = {}


class RecordLock:
    """A held lock. ``release`` is idempotent."""

    __slots__ = ("_fd", "_identity", "_path", "_seconds")

    def __init__(self, path: Path, fd: int, identity: tuple[int, int]) -> None:
        self._path = path
        self._fd = fd
        self._identity = identity
        self._seconds: list[int] = []
        """Further descriptors of the file, closed with the lock."""

    @property
    def path(self) -> Path:
        return self._path

    def release(self) -> None:
        with _registry_lock:
            if self._fd >= 0:
                for fd in (self._fd, *self._seconds):
                    os.close(fd)
                self._fd = -1
                if _held.get(self._identity) is self:
                    del _held[self._identity]


def acquire(path: Path) -> RecordLock:
    """Lock ``path`` and create a missing file. Raise LockedError if this or another process holds the lock."""
    with _registry_lock, SystemCall("lock", path):
        if is_held(path):
            raise LockedError("this process has already locked it", path=path)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(fd)
        except (BlockingIOError, PermissionError):
            # POSIX lets F_SETLK fail with EAGAIN or EACCES.
            holder = _holder(fd)
            os.close(fd)
            by = "another process" if holder is None else f"process {holder}"
            raise LockedError(f"{by} has locked it (a broker, or tidelog, is running on it)", path=path) from None
        except BaseException:
            os.close(fd)
            raise
        lock = RecordLock(path, fd, (status.st_dev, status.st_ino))
        _held[lock._identity] = lock
        return lock


def is_held(path: Path) -> bool:
    """Return True if this process holds the lock on that file."""
    if not _held:
        return False
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in _held


def held() -> list[tuple[int, int]]:
    """Return device and inode of each file that this process has locked."""
    with _registry_lock:
        return list(_held)


def keep_if_held(fd: int, status: os.stat_result) -> bool:
    """Return True if this process has locked the file that was just opened. The registry then owns ``fd``."""
    if not _held:
        return False
    with _registry_lock:
        lock = _held.get((status.st_dev, status.st_ino))
        if lock is not None:
            lock._seconds.append(fd)
        return lock is not None


def holder(path: Path) -> int | None:
    """Return the process id of the holder, or None if the lock is free or the file is missing."""
    with _registry_lock, SystemCall("look for the lock's holder", path):
        if is_held(path):
            return os.getpid()
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return _holder(fd)
        finally:
            os.close(fd)


def _holder(fd: int) -> int | None:
    question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _forget_in_child() -> None:
    global _registry_lock
    _registry_lock = threading.Lock()
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
