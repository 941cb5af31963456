"""The file system of this machine: thin calls of ``os`` with translated errors and no cache.

A crash leaves the data that the kernel had written back. Only ``sync`` and ``sync_dir`` guarantee more. Thread rule:
any thread, as in the FileSystem protocol.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import LockedError, StorageError
from tidelog.storage.fs import record_lock
from tidelog.storage.fs.interface import FileStat
from tidelog.storage.fs.limits import raise_open_file_limit
from tidelog.storage.fs.os_errors import CANNOT_LINK, SystemCall, storage_error
from tidelog.storage.fs.record_lock import RecordLock

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tidelog.storage.fs.local_file import LocalFile

_FILE_MODE = 0o644
_NO_FILE = -1
_WRITE_STEPS = ("", "open", "write", "truncate", "sync", "close", "rename to {name}", "sync the directory")
"""The steps of ``kernel.write_file`` and ``kernel.replace_file`` by number."""
_OPEN, _SYNC_DIRECTORY = 1, 7
_NOTHING_THERE = (errno.ENOENT, errno.ELOOP)
"""Errors of a link that dangles or leads to itself, or of a file that was just removed."""
# The flags do not block: opening a stray FIFO in the directory must fail, not wait for a writer.
_READ = os.O_RDONLY | os.O_NONBLOCK
_WRITE = os.O_RDWR | os.O_NONBLOCK


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
        from tidelog.storage.fs.local_file import LocalFile  # a process that opens no file loads no kernel

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
        self, directories: Sequence[Path], small_files: Sequence[str], *, index_ends: bool
    ) -> list[tuple[dict[str, int], dict[str, bytes], int, dict[str, bytes]] | None]:
        """Return the files of partition directories; see ``kernel.survey_directories``."""
        from tidelog.kernel import survey_directories

        return survey_directories(directories, small_files, record_lock.held(), index_ends)

    def read_file(self, path: Path, buffer: Buffer) -> int:
        """Read a file into ``buffer``; see ``kernel.read_file``."""
        from tidelog.kernel import read_file

        return read_file(os.fsencode(path), buffer, record_lock.held())

    def write_file(self, path: Path, data: Buffer) -> bool:
        """Write the whole contents of a file; see ``kernel.write_file``. Return False if it could not be opened."""
        from tidelog.kernel import write_file

        return _is_written(*write_file(os.fsencode(path), data, record_lock.held()), written=path)

    def replace_file(self, path: Path, data: Buffer, temporary: Path, *, syncs_name: bool) -> bool:
        """Replace a file; see ``kernel.replace_file``. Return False if ``temporary`` could not be opened."""
        from tidelog.kernel import replace_file

        directory = os.fsencode(path.parent) if syncs_name else None
        step, error = replace_file(os.fsencode(path), data, os.fsencode(temporary), directory, record_lock.held())
        return _is_written(step, error, written=temporary, target=path)

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


def _is_written(step: int, error: int, *, written: Path, target: Path | None = None) -> bool:
    """Return True after the last step, and False if the first one failed. Raise StorageError for any other."""
    if step <= _OPEN:
        return step < _OPEN
    cause = OSError(error, os.strerror(error))
    name = "" if target is None else target.name
    path = written.parent if step == _SYNC_DIRECTORY else written
    raise storage_error(cause, _WRITE_STEPS[step].format(name=name), path) from cause


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
        return False


LOCAL = LocalFileSystem()
