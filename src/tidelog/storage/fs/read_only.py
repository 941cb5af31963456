"""A file system that refuses every call that writes, creates or locks: the promise "reading never writes", enforced.

Owns nothing but the file system it stands before. Called by: log views, inspection, dry runs of recovery.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from tidelog.model import ReadOnlyError
from tidelog.storage.fs.interface import File, FileStat, FileSystem


class ReadOnlyFileSystem:
    """Reading calls go through to ``inner``; a File it opens has a read-only descriptor, so writing to it fails too."""

    __slots__ = ("_inner",)

    def __init__(self, inner: FileSystem) -> None:
        self._inner = inner

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        if write or create:
            _refuse("open for writing", path)
        return self._inner.open(path)

    def list_names(self, directory: Path) -> list[str]:
        return self._inner.list_names(directory)

    def list_directories(self, directory: Path) -> list[str]:
        return self._inner.list_directories(directory)

    def list_sizes(self, directory: Path) -> dict[str, int]:
        return self._inner.list_sizes(directory)

    def stat(self, path: Path) -> FileStat:
        return self._inner.stat(path)

    def exists(self, path: Path) -> bool:
        return self._inner.exists(path)

    def lock_holder(self, path: Path) -> int | None:
        return self._inner.lock_holder(path)

    def rename(self, source: Path, target: Path) -> None:
        _refuse(f"rename to {target.name}", source)

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        _refuse("set the time", path)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        _refuse("remove", path)

    def make_dir(self, path: Path) -> None:
        _refuse("make the directory", path)

    def remove_dir(self, path: Path) -> None:
        _refuse("remove the directory", path)

    def sync_dir(self, path: Path) -> None:
        _refuse("sync the directory", path)

    def lock(self, path: Path) -> NoReturn:
        _refuse("lock", path)


def _refuse(action: str, path: Path) -> NoReturn:
    raise ReadOnlyError(f"cannot {action}: opened for reading only", path=path)
