"""A copy of a log directory that is there when it is whole: made beside its place, under another name.

=====================  =========================================================================
``TARGET.unfinished``  the copy is being made; a broker is not pointed at it by anybody
``TARGET``             it is finished: all is on the disk, and it got its name in one step
=====================  =========================================================================

A failure and a cancelled run remove the unfinished copy; a kill leaves it, and the next run begins anew in its place.
All but the source's ``.lock`` is copied, left-overs in partitions too: they say together what the next loading does.
Copies are copies: no file is shared with the source, as a broker goes on writing to the last segments.
Called by: ``compact_into``. Thread rule: ``copy_directory`` from any thread, a directory once.
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
    """A context: leaving it before ``finish`` removes what there is."""

    def __init__(self, fs: FileSystem, source: Path, target: Path, *, check: Callable[[], None]) -> None:
        """DirectoryError where ``target`` is there, or would lie in the source.

        ``check``: called for each chunk, ends the copy by raising.
        """
        if fs.exists(target):
            raise DirectoryError("there is something of that name already", path=target)
        if source.absolute() in target.absolute().parents:
            raise DirectoryError("a copy cannot lie in the directory that is copied", path=target)
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
        """Everything but the directories ``left_out``."""
        for name in self._fs.list_names(self._source):
            if name in left_out or name == LOCK_FILE:
                continue
            if self._fs.stat(self._source / name).is_dir:
                self.copy_directory(name)
            else:
                self._copy_file(self._source / name, self.path / name)

    def copy_directory(self, name: str) -> None:
        """With all that is in it. After a failure the copy cannot be finished."""
        try:
            self._copy_tree(name)
        except TidelogError as error:
            self._failure = error
            raise

    def finish(self) -> None:
        """Give the copy its name. What went wrong with a directory is raised again."""
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
        """With its time of change: of logs without timestamps, retention goes by it."""
        with self._fs.open(source) as reading, self._fs.open(target, create=True) as writing:
            position = 0
            while chunk := reading.pread(_CHUNK_BYTES, position):
                self._check()
                position += writing.pwrite(chunk, position)
            writing.sync()
        self._fs.set_mtime(target, self._fs.stat(source).mtime_ms)


def remove_tree(fs: FileSystem, path: Path) -> None:
    """A directory with all that is in it, if it is there."""
    if not fs.exists(path):
        return
    for name in fs.list_names(path):
        if fs.stat(path / name).is_dir:
            remove_tree(fs, path / name)
        else:
            fs.remove(path / name, missing_ok=True)
    fs.remove_dir(path)
