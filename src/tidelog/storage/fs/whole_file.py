"""Helpers for whole files: read a small one (an index, a snapshot, a checkpoint) or sync any file."""

from __future__ import annotations

from pathlib import Path

from tidelog.storage.fs.interface import FileSystem


def read_whole(fs: FileSystem, path: Path) -> bytes:
    """Return the bytes of ``path``, up to its size at opening. Raise FileMissingError if the file is missing."""
    with fs.open(path) as file:
        return file.pread(file.size, 0)


def sync_whole(fs: FileSystem, path: Path) -> None:
    """Run fsync on the file. Raise FileMissingError if it is missing."""
    with fs.open(path, write=True) as file:
        file.sync()
