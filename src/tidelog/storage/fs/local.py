"""The file system of this machine: thin calls of ``os``, errors translated, nothing cached.

A crash leaves what the kernel had written back; only ``sync`` and ``sync_dir`` promise more.
Called by: every room of the engine, through the FileSystem protocol. Thread rule: as the protocol says.
"""

from __future__ import annotations

import mmap
import os
import stat as stat_bits
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidelog.model import ClosedError, LockedError, StorageError
from tidelog.storage.fs import record_lock
from tidelog.storage.fs.interface import FileStat
from tidelog.storage.fs.limits import raise_open_file_limit
from tidelog.storage.fs.os_errors import MAP, SystemCall, storage_error
from tidelog.storage.fs.record_lock import RecordLock

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FILE_MODE = 0o644
_NO_FILE = -1
_MAP_OPTIONS: dict[str, bool] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
"""Without a descriptor of its own, of which a log with many segments has few."""
# Not blocking: opening a FIFO that strayed into the directory must fail, not wait for a writer.
_READ = os.O_RDONLY | os.O_NONBLOCK
_WRITE = os.O_RDWR | os.O_NONBLOCK


class LocalFile:
    """A descriptor and its path. The calls that are made a thousand times a second do without ``SystemCall``."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    @property
    def path(self) -> Path:
        return self._path

    @property
    def size(self) -> int:
        try:
            return os.fstat(self.fileno()).st_size
        except OSError as error:
            raise storage_error(error, "stat", self._path) from error

    def pread(self, length: int, position: int) -> bytes:
        try:
            data = os.pread(self.fileno(), length, position)
            self.fileno()  # closed meanwhile, and the number another file's: these may be that one's bytes
            if len(data) == length or not data:
                return data
            # A short read is the end of the file, a signal, or the kernel's limit of 2 GiB a call.
            parts = [data]
            done = len(data)
            while done < length:
                data = os.pread(self.fileno(), length - done, position + done)
                if not data:
                    break
                parts.append(data)
                done += len(data)
            self.fileno()
            return b"".join(parts) if len(parts) > 1 else parts[0]
        except OSError as error:
            raise storage_error(error, "read", self._path) from error

    def pread_into(self, buffer: Buffer, position: int) -> int:
        with SystemCall("read", self._path), memoryview(buffer).cast("B") as view:
            done = 0
            while done < len(view):
                count = os.preadv(self.fileno(), [view[done:]], position + done)
                if count == 0:
                    break
                done += count
            self.fileno()
            return done

    def pwrite(self, data: Buffer, position: int) -> int:
        try:
            done = os.pwrite(self.fileno(), data, position)
            if type(data) is bytearray and done == len(data):  # nearly always: a batch on its way into a log
                return done
            with memoryview(data) as view:
                size = view.nbytes
                if done < size:  # a signal, or the kernel's limit of 2 GiB a call
                    rest = view.cast("B")
                    while done < size:
                        done += os.pwrite(self.fileno(), rest[done:], position + done)
            return done
        except OSError as error:
            raise storage_error(error, "write", self._path) from error

    def truncate(self, size: int) -> None:
        with SystemCall(f"truncate to {size} bytes", self._path):
            os.ftruncate(self.fileno(), size)

    def allocate(self, size: int) -> None:
        if self.size < size:
            with SystemCall(f"allocate {size} bytes", self._path):
                os.ftruncate(self.fileno(), size)

    def sync(self) -> None:
        with SystemCall("sync", self._path):
            os.fsync(self.fileno())

    def map(self, size: int) -> mmap.mmap:
        if size <= 0:
            raise ValueError(f"a mapping of {size} bytes: the operating system refuses empty ones")
        try:
            with SystemCall(MAP, self._path):
                return mmap.mmap(self.fileno(), size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, **_MAP_OPTIONS)
        except ValueError as error:  # found by mmap itself: a file may be cut between any question and the mapping
            raise StorageError(f"cannot map {size} bytes of a file of {self.size}", path=self._path) from error

    def fileno(self) -> int:
        if self._fd < 0:
            raise ClosedError("the file is closed", path=self._path)
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                os.close(fd)
            except OSError as error:
                raise storage_error(error, "close", self._path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class LocalFileSystem:
    """Stateless; ``LOCAL`` is the one instance needed."""

    __slots__ = ()

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> LocalFile:
        flags = _WRITE if write or create else _READ
        try:
            fd = os.open(path, flags | os.O_CREAT if create else flags, _FILE_MODE)
            status = os.fstat(fd)
        except OSError as error:
            raise storage_error(error, "open", path) from error
        if record_lock.keep_if_held(fd, status):
            raise LockedError("it is this process's lock; opening and closing it again would drop the lock", path=path)
        mode = status.st_mode
        if not stat_bits.S_ISREG(mode):
            os.close(fd)
            kind = "a directory" if stat_bits.S_ISDIR(mode) else "not a regular file"
            raise StorageError(f"cannot open: it is {kind}, a file was expected", path=path)
        return LocalFile(path, fd)

    def list_names(self, directory: Path) -> list[str]:
        with SystemCall("list the directory", directory):
            return sorted(os.listdir(directory))

    def list_directories(self, directory: Path) -> list[str]:
        with SystemCall("list the directory", directory), os.scandir(directory) as entries:
            return sorted([entry.name for entry in entries if entry.is_dir()])

    def list_sizes(self, directory: Path) -> dict[str, int]:
        sizes = {}
        with SystemCall("list the directory", directory), os.scandir(directory) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                    sizes[entry.name] = status.st_size if stat_bits.S_ISREG(status.st_mode) else _NO_FILE
                except FileNotFoundError:  # a link to nothing, or it was removed this moment
                    sizes[entry.name] = _NO_FILE
        return dict(sorted(sizes.items()))

    def stat(self, path: Path) -> FileStat:
        try:
            status = os.stat(path)
        except OSError as error:
            raise storage_error(error, "stat", path) from error
        return FileStat(
            size=status.st_size, mtime_ms=status.st_mtime_ns // 1_000_000, is_dir=stat_bits.S_ISDIR(status.st_mode)
        )

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def rename(self, source: Path, target: Path) -> None:
        with SystemCall(f"rename to {target.name}", source):
            os.replace(source, target)

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        with SystemCall("set the time", path):
            os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        with SystemCall("remove", path):
            try:
                os.unlink(path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def make_dir(self, path: Path) -> None:
        with SystemCall("make the directory", path):
            os.makedirs(path, exist_ok=True)

    def remove_dir(self, path: Path) -> None:
        with SystemCall("remove the directory", path):
            os.rmdir(path)

    def sync_dir(self, path: Path) -> None:
        with SystemCall("sync the directory", path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def lock(self, path: Path) -> RecordLock:
        """Whoever locks a log directory may be about to open thousands of files: it is allowed to from here on."""
        lock = record_lock.acquire(path)
        raise_open_file_limit()
        return lock

    def lock_holder(self, path: Path) -> int | None:
        return record_lock.holder(path)


LOCAL = LocalFileSystem()
