"""Whole files: a small one (an index, a snapshot, a checkpoint) read into memory, any one synced.

Called by: every room of the engine.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.storage.fs.interface import FileSystem


def read_whole(fs: FileSystem, path: Path) -> bytes:
    """The bytes of ``path`` as of one moment's size; FileMissingError if it is not there."""
    with fs.open(path) as file:
        return file.pread(file.size, 0)


def sync_whole(fs: FileSystem, path: Path) -> None:
    """fsync the file; FileMissingError if it is not there."""
    with fs.open(path, write=True) as file:
        file.sync()
