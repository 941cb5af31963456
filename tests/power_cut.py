"""A file system that loses its power: it allows a number of changes, then every further change fails.

Removals, renames, openings for writing, writes, truncations and syncs count as changes. It does not really sync,
because a test that stops it a hundred times would wait for the disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidelog.model import StorageError
from tidelog.storage.fs import LocalFileSystem


class PowerCut(LocalFileSystem):
    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def step(self) -> None:
        if self.left == 0:
            raise StorageError("the power is gone")
        self.left -= 1

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        self.step()
        super().remove(path, missing_ok=missing_ok)

    def rename(self, source: Path, target: Path) -> None:
        self.step()
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> bool:
        self.step()
        return super().link(source, target)

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        self.step()
        super().set_mtime(path, mtime_ms)

    def sync_dir(self, path: Path) -> None:
        self.step()

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> Any:
        if not (write or create):
            return super().open(path)
        self.step()
        return _File(super().open(path, write=write, create=create), self)


class _File:
    """A file that counts the calls that change it."""

    def __init__(self, file: Any, power: PowerCut) -> None:
        self._file = file
        self._power = power

    def __getattr__(self, name: str) -> Any:
        if name in ("pwrite", "truncate", "allocate"):
            self._power.step()
        return getattr(self._file, name)

    def sync(self) -> None:
        self._power.step()

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
