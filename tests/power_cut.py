"""A file system that loses its power: it lets so many changes of the disk through, then every further one fails.

Changes are removals, renames, openings for writing, and writes, cuts and syncs of what was opened. Nothing is really
synced: a test that stops it a hundred times would wait for the disk.
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
    """Counts the calls that change the file."""

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
