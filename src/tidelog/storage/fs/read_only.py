"""A file system that refuses all calls that write, create or lock, so that reading never writes.

It owns only its reference to the inner file system.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, NoReturn

from tidelog.model import ReadOnlyError
from tidelog.storage.fs.interface import File, FileStat, FileSystem


class RefusingWrites:
    """The base class of read-only file systems. Every call that is not a read raises ReadOnlyError."""

    __slots__ = ()

    REASON: ClassVar[str]

    def rename(self, source: Path, target: Path) -> None:
        refuse(f"rename to {target.name}", source, self.REASON)

    def link(self, source: Path, target: Path) -> NoReturn:
        refuse(f"link as {target.name}", source, self.REASON)

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        refuse("set the time", path, self.REASON)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        refuse("remove", path, self.REASON)

    def make_dir(self, path: Path) -> None:
        refuse("make the directory", path, self.REASON)

    def remove_dir(self, path: Path) -> None:
        refuse("remove the directory", path, self.REASON)

    def sync_dir(self, path: Path) -> None:
        refuse("sync the directory", path, self.REASON)

    def lock(self, path: Path) -> NoReturn:
        refuse("lock", path, self.REASON)


class ReadOnlyFileSystem(RefusingWrites):
    """A read-only wrapper: reads go to ``inner``. Its files have read-only descriptors, so writing to one fails too."""

    __slots__ = ("_inner",)

    REASON = "opened for reading only"

    def __init__(self, inner: FileSystem) -> None:
        self._inner: FileSystem = inner._inner if isinstance(inner, ReadOnlyFileSystem) else inner

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        if write or create:
            refuse("open for writing", path, self.REASON)
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


def refuse(action: str, path: Path, reason: str) -> NoReturn:
    raise ReadOnlyError(f"cannot {action}: {reason}", path=path)
