"""The local file system of a process that may be killed at any moment.

After ``kill`` no call of any thread changes anything: it raises StorageError. Data that was written before stays,
flushed or not, because the process ends and not the machine. Files and locks can still be closed. For a loss of power
use ``SimulatedDisk``. Thread rule: any thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import StorageError
from tidelog.storage.fs.local import LocalFileSystem
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.fs.record_lock import RecordLock

if TYPE_CHECKING:
    from typing_extensions import Buffer


class KillableFiles(LocalFileSystem):
    """The file system, *alive* until ``kill``."""

    __slots__ = ("_is_killed",)

    def __init__(self) -> None:
        self._is_killed = False

    def kill(self) -> None:
        self._is_killed = True

    def require_alive(self, path: Path) -> None:
        """Raise StorageError after ``kill``."""
        if self._is_killed:
            raise StorageError("the process was killed", path=path)

    # --- changing calls ---

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> LocalFile:
        if not (write or create):
            return super().open(path)
        self.require_alive(path)
        with super().open(path, write=write, create=create) as opened:
            return KillableFile(path, os.dup(opened.fileno()), self)

    def rename(self, source: Path, target: Path) -> None:
        self.require_alive(source)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> bool:
        self.require_alive(source)
        return super().link(source, target)

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        self.require_alive(path)
        super().set_mtime(path, mtime_ms)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        self.require_alive(path)
        super().remove(path, missing_ok=missing_ok)

    def make_dir(self, path: Path) -> None:
        self.require_alive(path)
        super().make_dir(path)

    def remove_dir(self, path: Path) -> None:
        self.require_alive(path)
        super().remove_dir(path)

    def lock(self, path: Path) -> RecordLock:
        self.require_alive(path)
        return super().lock(path)


class KillableFile(LocalFile):
    """A file open for writing."""

    __slots__ = ("_files",)

    def __init__(self, path: Path, fd: int, files: KillableFiles) -> None:
        super().__init__(path, fd)
        self._files = files

    def pwrite(self, data: Buffer, position: int) -> int:
        self._files.require_alive(self._path)
        return super().pwrite(data, position)

    def pwrite_all(self, parts: Sequence[memoryview], position: int) -> None:
        self._files.require_alive(self._path)
        super().pwrite_all(parts, position)

    def truncate(self, size: int) -> None:
        self._files.require_alive(self._path)
        super().truncate(size)

    def allocate(self, size: int) -> None:
        self._files.require_alive(self._path)
        super().allocate(size)
