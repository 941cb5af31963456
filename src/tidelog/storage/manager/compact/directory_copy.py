"""A copy of a log directory, made under a temporary name and renamed once it is complete.

Everything but the source's ``.lock`` is copied, including unfinished files in partitions, because the next loading
decides from all of them together. Files are never shared with the source by links, because a broker goes on writing to
the last segments; ``storage/manager/snapshot`` links the others. The names are those of ``UnfinishedDirectory``.
Thread rule: any thread may call ``copy_directory``, once per directory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from tidelog.model import TidelogError
from tidelog.storage.fs import FileSystem, copy_bytes
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.manager.directory.unfinished_directory import UnfinishedDirectory


class DirectoryCopy(UnfinishedDirectory):
    """A context manager. Leaving it before ``finish`` removes the copy."""

    def __init__(self, fs: FileSystem, source: Path, target: Path, *, check: Callable[[], None]) -> None:
        """The target must not exist or be inside the source, else DirectoryError.

        ``check`` runs for each chunk, and an exception from it ends the copy.
        """
        super().__init__(fs, target, source=source)
        self._source = source
        self._check = check
        self._failure: TidelogError | None = None

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
        super().finish()

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
            copy_bytes(reading, writing, reading.size, lambda _bytes: self._check())
            writing.sync()
        self._fs.set_mtime(target, self._fs.stat(source).mtime_ms)
