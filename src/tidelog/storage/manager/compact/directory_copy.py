"""A copy of a log directory, made under a temporary name and renamed once it is complete.

=====================  =========================================================================
``TARGET.unfinished``  the copy in progress; no broker is configured to use this name
``TARGET``             the finished copy: everything is synced, and one rename gave it its name
=====================  =========================================================================

An error or a cancelled run removes the unfinished copy. A kill leaves it, and the next run replaces it. Everything but
the source's ``.lock`` is copied, including unfinished files in partitions, because the next loading decides from all of
them together. Files are never shared with the source by links, because a broker goes on writing to the last segments.
Thread rule: any thread may call ``copy_directory``, once per directory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from tidelog.model import DirectoryError, TidelogError
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE

UNFINISHED_SUFFIX = ".unfinished"
_CHUNK_BYTES = 4 * 1024 * 1024


class DirectoryCopy:
    """A context manager. Leaving it before ``finish`` removes the copy."""

    def __init__(self, fs: FileSystem, source: Path, target: Path, *, check: Callable[[], None]) -> None:
        """The target must not exist or be inside the source, else DirectoryError.

        ``check`` runs for each chunk, and an exception from it ends the copy.
        """
        if fs.exists(target):
            raise DirectoryError("a file or directory with this name already exists", path=target)
        if source.absolute() in target.absolute().parents:
            raise DirectoryError("the output cannot be inside the source directory", path=target)
        self._fs = fs
        self._source = source
        self._target = target
        self._check = check
        self._failure: TidelogError | None = None
        self.path = target.with_name(target.name + UNFINISHED_SUFFIX)

    def __enter__(self) -> Self:
        remove_tree(self._fs, self.path)
        self._fs.make_dir(self.path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove_tree(self._fs, self.path)

    def copy_rest(self, left_out: Collection[str]) -> None:
        """Copy everything except the directories in ``left_out``."""
        for name in self._fs.list_names(self._source):
            if name in left_out or name == LOCK_FILE:
                continue
            if self._fs.stat(self._source / name).is_dir:
                self.copy_directory(name)
            else:
                self._copy_file(self._source / name, self.path / name)

    def copy_directory(self, name: str) -> None:
        """Copy a directory with its contents. After a failure the copy cannot be finished."""
        try:
            self._copy_tree(name)
        except TidelogError as error:
            self._failure = error
            raise

    def finish(self) -> None:
        """Rename the copy to its final name. A failure of ``copy_directory`` is raised again."""
        if self._failure is not None:
            raise self._failure
        self._fs.sync_dir(self.path)
        self._fs.rename(self.path, self._target)
        self._fs.sync_dir(self._target.absolute().parent)

    def _copy_tree(self, name: str) -> None:
        source, target = self._source / name, self.path / name
        self._fs.make_dir(target)
        for entry in self._fs.list_names(source):
            if self._fs.stat(source / entry).is_dir:
                self._copy_tree(f"{name}/{entry}")
            else:
                self._copy_file(source / entry, target / entry)
        self._fs.sync_dir(target)

    def _copy_file(self, source: Path, target: Path) -> None:
        """Copy a file with its modification time, which retention uses for logs without timestamps."""
        with self._fs.open(source) as reading, self._fs.open(target, create=True) as writing:
            position = 0
            while chunk := reading.pread(_CHUNK_BYTES, position):
                self._check()
                position += writing.pwrite(chunk, position)
            writing.sync()
        self._fs.set_mtime(target, self._fs.stat(source).mtime_ms)


def remove_tree(fs: FileSystem, path: Path) -> None:
    """Remove a directory with its contents, if it exists."""
    if not fs.exists(path):
        return
    for name in fs.list_names(path):
        if fs.stat(path / name).is_dir:
            remove_tree(fs, path / name)
        else:
            fs.remove(path / name, missing_ok=True)
    fs.remove_dir(path)
