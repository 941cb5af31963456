"""Whole files: reading, syncing, and the atomic replacement of a small one.

A crash during a replacement leaves the old or the new contents, never a mixture. The steps are: write ``NAME.tmp``,
sync it, rename it to NAME, sync the directory. A crash before the rename leaves the old file and a ``.tmp`` file.
Loading the directory removes the ``.tmp`` file, and the next write overwrites it. If ``NAME.tmp`` is a symbolic link,
it is removed first, so that no file outside the directory is written. Source: Kafka's ``CheckpointFile``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.storage.fs.interface import FileSystem

if TYPE_CHECKING:
    from typing_extensions import Buffer


TEMPORARY_SUFFIX = ".tmp"


def write_atomically(fs: FileSystem, path: Path, data: Buffer, *, syncs_name: bool = True) -> None:
    """Write ``data`` as the whole contents of ``path``, durable on return. Raise StorageError if a step fails.

    If ``syncs_name`` is False, the caller must sync the directory, and the change is durable only then.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    if temporary.is_symlink():  # only the local file system has links
        fs.remove(temporary)
    with fs.open(temporary, create=True) as file:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    fs.rename(temporary, path)
    if syncs_name:
        fs.sync_dir(path.parent)


def read_whole(fs: FileSystem, path: Path) -> bytes:
    """Return the bytes of ``path``, up to its size at opening. Raise FileMissingError if the file is missing."""
    with fs.open(path) as file:
        return file.pread(file.size, 0)


def sync_whole(fs: FileSystem, path: Path) -> None:
    """Run fsync on the file. Raise FileMissingError if it is missing."""
    with fs.open(path, write=True) as file:
        file.sync()
