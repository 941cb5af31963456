"""The local file system of a process that may be killed at any moment.

After ``sever`` no call of any thread changes anything: it raises StorageError. Data that was written before stays,
flushed or not, because the process ends and not the machine. Files and locks can still be closed. For a loss of power
use ``SimulatedDisk``. Thread rule: any thread.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import StorageError
from tidelog.storage.fs.local import LocalFile, LocalFileSystem
from tidelog.storage.fs.record_lock import RecordLock

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SeverableFiles(LocalFileSystem):
    """The file system, *whole* until ``sever``."""

    __slots__ = ("_is_severed",)

    def __init__(self) -> None:
        self._is_severed = False

    def sever(self) -> None:
        self._is_severed = True

    def require_whole(self, path: Path) -> None:
        """Raise StorageError after ``sever``."""
        if self._is_severed:
            raise StorageError("the process was killed", path=path)

    # --- changing calls ---

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> LocalFile:
        if not (write or create):
            return super().open(path)
        self.require_whole(path)
        with super().open(path, write=write, create=create) as opened:
            return SeverableFile(path, os.dup(opened.fileno()), self)

    def rename(self, source: Path, target: Path) -> None:
        self.require_whole(source)
        super().rename(source, target)

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        self.require_whole(path)
        super().set_mtime(path, mtime_ms)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        self.require_whole(path)
        super().remove(path, missing_ok=missing_ok)

    def make_dir(self, path: Path) -> None:
        self.require_whole(path)
        super().make_dir(path)

    def remove_dir(self, path: Path) -> None:
        self.require_whole(path)
        super().remove_dir(path)

    def lock(self, path: Path) -> RecordLock:
        self.require_whole(path)
        return super().lock(path)


class SeverableFile(LocalFile):
    """A file open for writing."""

    __slots__ = ("_files",)

    def __init__(self, path: Path, fd: int, files: SeverableFiles) -> None:
        super().__init__(path, fd)
        self._files = files

    def pwrite(self, data: Buffer, position: int) -> int:
        self._files.require_whole(self._path)
        return super().pwrite(data, position)

    def truncate(self, size: int) -> None:
        self._files.require_whole(self._path)
        super().truncate(size)

    def allocate(self, size: int) -> None:
        self._files.require_whole(self._path)
        super().allocate(size)
