"""A new directory with the temporary name ``TARGET.unfinished``, which is renamed once it is complete.

=====================  =========================================================================
``TARGET.unfinished``  the directory in progress; no broker is configured to use this name
``TARGET``             the finished directory: everything is synced, and one rename gave it its name
=====================  =========================================================================

An error or a cancelled run removes the unfinished directory. A kill leaves it, and the next run replaces it. Thread
rule: one thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tidelog.model import DirectoryError, LockedError
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE

UNFINISHED_SUFFIX = ".unfinished"


def unfinished_path(target: Path) -> Path:
    return target.with_name(target.name + UNFINISHED_SUFFIX)


class UnfinishedDirectory:
    """A context manager. Leaving it before ``finish`` removes the directory."""

    def __init__(self, fs: FileSystem, target: Path, *, source: Path) -> None:
        """The target must not exist or be inside the source, else DirectoryError."""
        require_new(fs, target, source=source)
        self._fs = fs
        self._target = target
        self._is_own = False
        """False until ``create``: the directory may be another process's."""
        self.path = unfinished_path(target)

    def __enter__(self) -> Self:
        self.create()
        return self

    def create(self) -> None:
        """Create the directory. Raise LockedError if another process is creating it."""
        holder = self._fs.lock_holder(self.path / LOCK_FILE)
        if holder is not None:
            raise LockedError(f"process {holder} is creating this directory", path=self.path)
        self._is_own = True
        remove_tree(self._fs, self.path)
        self._fs.make_dir(self.path)

    def __exit__(self, *_: object) -> None:
        if self._is_own:
            remove_tree(self._fs, self.path)

    def finish(self) -> None:
        """Rename the directory to its final name. The call is durable on return; the files were synced before."""
        self._fs.sync_dir(self.path)
        self._fs.rename(self.path, self._target)
        self._fs.sync_dir(self._target.absolute().parent)


def require_new(fs: FileSystem, target: Path, *, source: Path) -> None:
    """Raise DirectoryError if the target exists or lies inside the source."""
    if fs.exists(target):
        raise DirectoryError("a file or directory with this name already exists", path=target)
    if source.absolute() in target.absolute().parents:
        raise DirectoryError("the output cannot be inside the source directory", path=target)


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
