"""A file system in memory with the results of a local one, and its error messages.

It owns the tree of names and files, the journal of names that are not safe yet, and the locks. Every path starts at the
root, absolute or not. A file may have several names (``link``). There are no symbolic links, permissions or other
processes, except a process that holds a lock (``lock_as``). Thread rule: any thread.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tidelog.model import LockedError, StorageError
from tidelog.runtime import Clock
from tidelog.storage.fs import FileStat
from tidelog.storage.fs.os_errors import CANNOT_LINK
from tidelog.testing.disk.directory_node import DirectoryNode, NameJournal, Node
from tidelog.testing.disk.disk_gate import DiskGate, os_error
from tidelog.testing.disk.file_node import FileNode
from tidelog.testing.disk.simulated_file import SimulatedFile
from tidelog.testing.disk.simulated_lock import SimulatedLock
from tidelog.testing.manual_clock import ManualClock

_BEGIN_MS = 1_700_000_000_000
_NAME_BYTES = 255
_SHORT_NAME = _NAME_BYTES // 4
"""A character takes at most four bytes, so shorter names need not be encoded."""


class SimulatedFileSystem:
    """``clock`` gives files their times, and waits for a slow disk.

    ``free_bytes`` is the space for new sectors, None for no limit but memory.
    """

    def __init__(self, *, clock: Clock | None = None, free_bytes: int | None = None) -> None:
        self._gate = DiskGate(ManualClock(_BEGIN_MS) if clock is None else clock, free_bytes)
        self._root = DirectoryNode(self._gate.clock.now_ms())
        self._journal = NameJournal()
        self._locks: dict[FileNode, int] = {}
        """The process that holds each lock."""

    @property
    def clock(self) -> Clock:
        return self._gate.clock

    # --- the protocol ---

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> SimulatedFile:
        is_writable = write or create
        with self._gate.call("open_to_write" if is_writable else "open", path, "open"):
            parent, name, node = self._look_up(path)
            if isinstance(node, DirectoryNode):
                raise os_error(errno.EISDIR)
            if node is None:
                if not create:
                    raise os_error(errno.ENOENT)
                node = self._create(parent, name, path, "open")
            elif node in self._locks and self._locks[node] == os.getpid():
                raise LockedError(
                    "this process holds its lock, and opening and closing the file would release it", path=path
                )
            return SimulatedFile(self._gate, path, node, is_writable=is_writable)

    def list_names(self, directory: Path) -> list[str]:
        with self._gate.call("list_names", directory, "list the directory"):
            return sorted(self._require_directory(directory).names)

    def list_directories(self, directory: Path) -> list[str]:
        with self._gate.call("list_directories", directory, "list the directory"):
            names = self._require_directory(directory).names
            return sorted(name for name, node in names.items() if isinstance(node, DirectoryNode))

    def list_sizes(self, directory: Path) -> dict[str, int]:
        with self._gate.call("list_sizes", directory, "list the directory"):
            found = self._require_directory(directory)
            nodes = {name: found.names[name] for name in sorted(found.names)}
            return {name: node.cached.size if isinstance(node, FileNode) else -1 for name, node in nodes.items()}

    def stat(self, path: Path) -> FileStat:
        with self._gate.call("stat", path, "stat"):
            node = self._require(path)
            size = node.cached.size if isinstance(node, FileNode) else 0
            links = node.links if isinstance(node, FileNode) else 1
            return FileStat(
                size=size,
                mtime_ms=node.mtime_ms,
                is_dir=isinstance(node, DirectoryNode),
                file_id=id(node),
                links=links,
            )

    def exists(self, path: Path) -> bool:
        try:
            with self._gate.call("exists", path, "stat"):
                return self._look_up(path)[2] is not None
        except StorageError:
            return False

    def rename(self, source: Path, target: Path) -> None:
        with self._gate.call("rename", source, f"rename to {target.name}", changes=self._is_there(source)):
            from_directory, from_name, node = self._look_up(source)
            to_directory, to_name, replaced = self._look_up(target)
            if node is None:
                raise os_error(errno.ENOENT)
            if node is replaced:
                return
            self._require_replaceable(node, from_directory, to_directory, replaced)
            steps = (from_directory, from_name, None), (to_directory, to_name, node)
            self._journal.make(*steps, now_ms=self._now_ms)
            self._unlinked(replaced)

    def link(self, source: Path, target: Path) -> bool:
        try:
            with self._gate.call("link", source, f"link as {target.name}", changes=self._is_there(source)):
                node = self._require(source)
                directory, name, existing = self._look_up(target)
                if existing is not None:
                    raise os_error(errno.EEXIST)
                if isinstance(node, DirectoryNode):
                    raise os_error(errno.EPERM)
                self._journal.make((directory, name, node), now_ms=self._now_ms)
                node.links += 1
        except StorageError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in CANNOT_LINK:
                return False
            raise
        return True

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        with self._gate.call("set_mtime", path, "set the time", changes=self._is_there(path)):
            node = self._require(path)
            if isinstance(node, FileNode):
                node.set_mtime(mtime_ms)
            else:
                node.mtime_ms = mtime_ms

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        with self._gate.call("remove", path, "remove", changes=self._is_there(path)):
            try:
                directory, name, node = self._look_up(path)
                if node is None:
                    raise os_error(errno.ENOENT)
            except FileNotFoundError:
                if not missing_ok:
                    raise
                return
            if isinstance(node, DirectoryNode):
                raise os_error(errno.EISDIR)
            self._journal.make((directory, name, None), now_ms=self._now_ms)
            self._unlinked(node)

    def make_dir(self, path: Path) -> None:
        missing = [one for one in (path, *path.parents) if not self._is_there(one)]
        for one in reversed(missing[1:]):
            self._make_dir(one, asked=path)
        self._make_dir(path, asked=path)

    def remove_dir(self, path: Path) -> None:
        with self._gate.call("remove_dir", path, "remove the directory", changes=self._is_there(path)):
            directory, name, _ = self._look_up(path)
            removed = self._require_directory(path)
            if removed.names:
                raise os_error(errno.ENOTEMPTY)
            if removed is self._root:
                raise os_error(errno.EBUSY)
            self._journal.make((directory, name, None), now_ms=self._now_ms)

    def sync_dir(self, path: Path) -> None:
        with self._gate.call("sync_dir", path, "sync the directory", changes=self._is_there(path)):
            self._journal.sync(self._require_directory(path))

    def lock(self, path: Path) -> SimulatedLock:
        with self._gate.call("lock", path, "lock"):
            directory, name, node = self._look_up(path)
            if isinstance(node, DirectoryNode):
                raise os_error(errno.EISDIR)
            if node is None:
                node = self._create(directory, name, path, "lock")
            holder = self._locks.get(node)
            if holder == os.getpid():
                raise LockedError("this process has already locked it", path=path)
            if holder is not None:
                raise LockedError(f"process {holder} has locked it (a broker, or tidelog, is running on it)", path=path)
            return self._hold(node, path, os.getpid())

    def lock_holder(self, path: Path) -> int | None:
        with self._gate.call("lock_holder", path, "look for the lock's holder"):
            try:
                node = self._look_up(path)[2]
            except FileNotFoundError:
                return None
            return self._locks.get(node) if isinstance(node, FileNode) else None

    # --- for tests only ---

    def lock_as(self, process: int, path: Path) -> SimulatedLock:
        """Hold the lock on an existing file as another process."""
        with self._gate.lock:
            node = self._look_up(path)[2]
            if not isinstance(node, FileNode):
                raise ValueError(f"{path} is no file of the disk")
            return self._hold(node, path, process)

    # --- inside ---

    @property
    def _now_ms(self) -> int:
        return self._gate.clock.now_ms()

    def _look_up(self, path: Path) -> tuple[DirectoryNode, str, Node | None]:
        """Return the directory of a name, the name, and its node. Raise OSError if the directory is missing."""
        parts = _parts(path)
        if not parts:
            return self._root, "", self._root
        directory = self._root
        for part in parts[:-1]:
            found = directory.names.get(part)
            if found is None:
                raise os_error(errno.ENOENT)
            if isinstance(found, FileNode):
                raise os_error(errno.ENOTDIR)
            directory = found
        name = parts[-1]
        if len(name) > _SHORT_NAME and len(os.fsencode(name)) > _NAME_BYTES:
            raise os_error(errno.ENAMETOOLONG)
        return directory, name, directory.names.get(name)

    def _is_there(self, path: Path) -> bool:
        with self._gate.lock:
            try:
                return self._look_up(path)[2] is not None
            except OSError:
                return False

    def _require(self, path: Path) -> Node:
        node = self._look_up(path)[2]
        if node is None:
            raise os_error(errno.ENOENT)
        return node

    def _require_directory(self, path: Path) -> DirectoryNode:
        node = self._require(path)
        if isinstance(node, FileNode):
            raise os_error(errno.ENOTDIR)
        return node

    def _require_replaceable(
        self, node: Node, from_directory: DirectoryNode, to_directory: DirectoryNode, replaced: Node | None
    ) -> None:
        """Raise OSError if ``node`` cannot be renamed from one directory into the other, over ``replaced``."""
        if isinstance(node, DirectoryNode):
            if _holds(node, to_directory):
                raise os_error(errno.EINVAL)
            if isinstance(replaced, FileNode):
                raise os_error(errno.ENOTDIR)
        if isinstance(replaced, DirectoryNode):
            if replaced.names and (isinstance(node, DirectoryNode) or _holds(replaced, from_directory)):
                raise os_error(errno.ENOTEMPTY)
            if isinstance(node, FileNode):
                raise os_error(errno.EISDIR)

    def _create(self, directory: DirectoryNode, name: str, path: Path, action: str) -> FileNode:
        with self._gate.call("create", path, action):
            node = FileNode(self._now_ms)
            self._journal.make((directory, name, node), now_ms=self._now_ms)
            return node

    def _make_dir(self, path: Path, *, asked: Path) -> DirectoryNode:
        """Make a directory. ``asked`` is the path in an error's message: ``path`` or a directory below it."""
        is_there = self._is_there(path)
        with self._gate.call("make_dir", path, "make the directory", changes=not is_there, about=asked):
            directory, name, node = self._look_up(path)
            if isinstance(node, FileNode):
                raise os_error(errno.EEXIST)
            if node is None:
                node = DirectoryNode(self._now_ms)
                self._journal.make((directory, name, node), now_ms=self._now_ms)
            return node

    def _unlinked(self, node: Node | None) -> None:
        """Free the space of a file without a name, at once or when it is closed."""
        if isinstance(node, FileNode):
            node.links -= 1
            if not node.links and not node.openings:
                self._gate.give_back(node.cached.allocated)

    def _hold(self, node: FileNode, path: Path, process: int) -> SimulatedLock:
        self._locks[node] = process

        def release() -> None:
            with self._gate.lock:
                self._locks.pop(node, None)

        return SimulatedLock(path, release)


def _parts(path: Path) -> tuple[str, ...]:
    parts = path.parts
    return parts[1:] if path.root else parts


def _holds(directory: DirectoryNode, wanted: Node) -> bool:
    """Return True if ``wanted`` is ``directory`` or lies below it."""
    if directory is wanted or wanted in directory.names.values():
        return True
    return any(_holds(node, wanted) for node in directory.names.values() if isinstance(node, DirectoryNode))
