"""The file system of this machine: thin calls of ``os`` with translated errors and no cache.

A crash leaves the data that the kernel had written back. Only ``sync`` and ``sync_dir`` guarantee more. Thread rule:
any thread, as in the FileSystem protocol.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat as stat_bits
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidelog.kernel import OpenFile, survey_directories
from tidelog.model import ClosedError, LockedError, StorageError
from tidelog.storage.fs import record_lock
from tidelog.storage.fs.interface import FileStat
from tidelog.storage.fs.limits import raise_open_file_limit
from tidelog.storage.fs.os_errors import CANNOT_LINK, MAP, SystemCall, storage_error
from tidelog.storage.fs.record_lock import RecordLock

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FILE_MODE = 0o644
_NO_FILE = -1
_NOTHING_THERE = (errno.ENOENT, errno.ELOOP)
"""Errors of a link that dangles or leads to itself, or of a file that was just removed."""
_MAP_OPTIONS: dict[str, bool] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
"""Mappings keep no descriptor of their own (Python 3.13 and later), because they would exhaust the limit."""
# The flags do not block: opening a stray FIFO in the directory must fail, not wait for a writer.
_READ = os.O_RDONLY | os.O_NONBLOCK
_WRITE = os.O_RDWR | os.O_NONBLOCK


class LocalFile(OpenFile):
    """A descriptor and its path. The hottest calls avoid ``SystemCall`` for speed."""

    __slots__ = ()

    _path: Path

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
            self.fileno()  # fails if the file was closed meanwhile: its number may now be another file's
            if len(data) == length or not data:
                return data
            # A read is short at the end of the file, after a signal, or at the kernel's limit of 2 GiB per call.
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

    def _write_slowly(self, data: Buffer, position: int) -> int:
        try:
            done = os.pwrite(self.fileno(), data, position)
            with memoryview(data) as view:
                size = view.nbytes
                if done < size:  # after a signal, or at the kernel's limit of 2 GiB per call
                    rest = view.cast("B")
                    while done < size:
                        done += os.pwrite(self.fileno(), rest[done:], position + done)
            return done
        except OSError as error:
            raise storage_error(error, "write", self._path) from error

    def pwrite_all(self, parts: Sequence[memoryview], position: int) -> None:
        with SystemCall("write", self._path):
            done = os.pwritev(self.fileno(), parts, position)
        if done < sum(map(len, parts)):
            self.pwrite(b"".join(parts)[done:], position + done)

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
        except ValueError as error:  # only mmap can detect it: the file may shrink before the call
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class LocalFileSystem:
    """The stateless implementation of FileSystem. ``LOCAL`` is its only instance."""

    __slots__ = ()

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> LocalFile:
        flags = _WRITE if write or create else _READ
        try:
            fd = os.open(path, flags | os.O_CREAT if create else flags, _FILE_MODE)
            status = os.fstat(fd)
        except OSError as error:
            raise storage_error(error, "open", path) from error
        if record_lock.keep_if_held(fd, status):
            raise LockedError(
                "this process holds its lock, and opening and closing the file would release it", path=path
            )
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
            return sorted([entry.name for entry in entries if _is_directory(entry)])

    def list_sizes(self, directory: Path) -> dict[str, int]:
        sizes = {}
        with SystemCall("list the directory", directory), os.scandir(directory) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                    sizes[entry.name] = status.st_size if stat_bits.S_ISREG(status.st_mode) else _NO_FILE
                except OSError as error:
                    if error.errno not in _NOTHING_THERE:
                        raise
                    sizes[entry.name] = _NO_FILE
        return dict(sorted(sizes.items()))

    def survey(
        self, directories: Sequence[Path], small_files: Sequence[str]
    ) -> list[tuple[dict[str, int], dict[str, bytes], int] | None]:
        """Return the files of partition directories; see ``kernel.survey_directories``."""
        return survey_directories(directories, small_files, record_lock.held())

    def stat(self, path: Path) -> FileStat:
        try:
            status = os.stat(path)
        except OSError as error:
            raise storage_error(error, "stat", path) from error
        return FileStat(
            size=status.st_size,
            mtime_ms=status.st_mtime_ns // 1_000_000,
            is_dir=stat_bits.S_ISDIR(status.st_mode),
            file_id=status.st_ino,
            disk=status.st_dev,
            links=status.st_nlink,
        )

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def rename(self, source: Path, target: Path) -> None:
        with SystemCall(f"rename to {target.name}", source):
            os.replace(source, target)

    def link(self, source: Path, target: Path) -> bool:
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno in CANNOT_LINK:
                return False
            raise storage_error(error, f"link as {target.name}", source) from error
        return True

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
        """Lock a file and raise the limit of open files, since opening a log directory may open thousands of files."""
        lock = record_lock.acquire(path)
        raise_open_file_limit()
        return lock

    def lock_holder(self, path: Path) -> int | None:
        return record_lock.holder(path)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
        return False


LOCAL = LocalFileSystem()
