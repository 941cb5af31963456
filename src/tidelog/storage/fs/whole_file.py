"""Whole files: reading, writing, syncing, the atomic replacement of a small one, and the end of a file's sharing.

A crash during a replacement leaves the old or the new contents, never a mixture. The steps are: write ``NAME.tmp``,
sync it, rename it to NAME, sync the directory. A crash before the rename leaves the old file and a ``.tmp`` file.
Loading the directory removes the ``.tmp`` file, and the next write overwrites it. If ``NAME.tmp`` is a symbolic link,
it is removed first, so that no file outside the directory is written. Source: Kafka's ``CheckpointFile``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.storage.fs.interface import File, FileSystem
from tidelog.storage.fs.local import LOCAL
from tidelog.storage.fs.read_file import ReadFile

if TYPE_CHECKING:
    from typing_extensions import Buffer


TEMPORARY_SUFFIX = ".tmp"
_SMALL_BYTES = 256 * 1024
_CHUNK_BYTES = 4 * 1024 * 1024


def write_atomically(fs: FileSystem, path: Path, data: Buffer, *, syncs_name: bool = True) -> None:
    """Write ``data`` as the whole contents of ``path``, durable on return. Raise StorageError if a step fails.

    If ``syncs_name`` is False, the caller must sync the directory, and the change is durable only then.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    if fs is LOCAL and LOCAL.replace_file(path, data, temporary, syncs_name=syncs_name):
        return
    if temporary.is_symlink():  # only the local file system has links
        fs.remove(temporary)
    with fs.open(temporary, create=True) as file:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    fs.rename(temporary, path)
    if syncs_name:
        fs.sync_dir(path.parent)


def write_whole(fs: FileSystem, path: Path, data: Buffer) -> None:
    """Write ``data`` as the whole contents of ``path``, which is created if missing. Nothing is synced.

    Raise StorageError if a step fails. A crash may leave any mixture of old and new bytes.
    """
    if fs is LOCAL and LOCAL.write_file(path, data):
        return
    with fs.open(path, create=True) as file, memoryview(data) as view:
        if view.nbytes:
            file.pwrite(view, 0)
        file.truncate(view.nbytes)


def read_small(fs: FileSystem, path: Path, size: int) -> ReadFile | None:
    """Read a file of ``size`` bytes with one call.

    Return None if it is large, has another size, is not on this machine, or cannot be read: then it must be opened.
    """
    if fs is not LOCAL or not 0 <= size <= _SMALL_BYTES:
        return None
    from tidelog.kernel import take_buffer  # a process that opens no file loads no kernel

    buffer = take_buffer(size + 1)
    return ReadFile(path, buffer[:size]) if LOCAL.read_file(path, buffer) == size else None


def read_whole(fs: FileSystem, path: Path) -> bytes:
    """Return the bytes of ``path``, up to its size at opening. Raise FileMissingError if the file is missing."""
    with fs.open(path) as file:
        return file.pread(file.size, 0)


def end_sharing(fs: FileSystem, path: Path, size: int) -> bool:
    """Replace a file that has other names by a private copy of its first ``size`` bytes, durable on return.

    Return False, with nothing changed, if ``path`` is its only name. A snapshot shares files with its log
    directory by names, and a file must not be truncated or appended to while others use it.
    """
    if fs.stat(path).links < 2:
        return False
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    fs.remove(temporary, missing_ok=True)
    with fs.open(path) as source, fs.open(temporary, create=True) as file:
        copy_bytes(source, file, size)
        file.sync()
    fs.rename(temporary, path)
    fs.sync_dir(path.parent)
    return True


def copy_bytes(source: File, target: File, size: int, check: Callable[[int], None] = lambda _bytes: None) -> int:
    """Copy the first ``size`` bytes, or fewer if the source ends before, and return their number.

    ``check`` gets the size of each piece after it was copied.
    """
    position = 0
    while position < size:
        piece = source.pread(min(_CHUNK_BYTES, size - position), position)
        if not piece:
            break
        position += target.pwrite(piece, position)
        check(len(piece))
    return position


def sync_whole(fs: FileSystem, path: Path) -> None:
    """Run fsync on the file. Raise FileMissingError if it is missing."""
    with fs.open(path, write=True) as file:
        file.sync()
