"""Directories of a simulated disk, and their changes of names that are not safe yet.

``names`` is the programs' view. Each creation, rename, link and removal is a ``NameChange``, kept until ``sync_dir`` of
a directory that it changes. A power loss keeps or undoes each change by itself, in any sequence, with three limits. A
change is atomic: a rename never leaves both names or none. All names of one file show the same file afterwards. Changes
of one name keep their sequence: an earlier change of the name is kept, too. The contents of a lost directory are lost.
Thread rule: the caller holds the disk's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.testing.disk.file_node import FileNode
from tidelog.testing.disk.survival import Chooser


class DirectoryNode:
    """An inode."""

    __slots__ = ("mtime_ms", "names", "synced")

    def __init__(self, mtime_ms: int) -> None:
        self.names: dict[str, Node] = {}
        self.synced: dict[str, Node] = {}
        self.mtime_ms = mtime_ms


Node = FileNode | DirectoryNode


@dataclass(frozen=True, slots=True, eq=False)
class NameChange:
    """A change in ``steps``: (directory, name, and the node that it names afterwards or None)."""

    steps: tuple[tuple[DirectoryNode, str, Node | None], ...]

    @property
    def entries(self) -> set[tuple[int, str]]:
        return {(id(directory), name) for directory, name, _ in self.steps}

    def apply(self, names: dict[int, dict[str, Node]]) -> None:
        """Apply the steps to ``names``, by the directory's id."""
        for directory, name, node in self.steps:
            if node is None:
                names[id(directory)].pop(name, None)
            else:
                names[id(directory)][name] = node


class NameJournal:
    """The changes of names that are not safe yet, oldest first."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: list[NameChange] = []

    def __len__(self) -> int:
        return len(self._changes)

    def make(self, *steps: tuple[DirectoryNode, str, Node | None], now_ms: int) -> None:
        change = NameChange(steps)
        change.apply({id(directory): directory.names for directory, _, _ in steps})
        for directory, _, _ in steps:
            directory.mtime_ms = now_ms
        self._changes.append(change)

    def sync(self, directory: DirectoryNode) -> None:
        """Make all changes of ``directory`` safe, with the earlier changes that they depend on."""
        wanted: set[tuple[int, str]] = set()
        safe = []
        for change in reversed(self._changes):
            entries = change.entries
            if any(one is directory for one, _, _ in change.steps) or entries & wanted:
                wanted |= entries
                safe.append(change)
        for change in reversed(safe):
            change.apply({id(one): one.synced for one, _, _ in change.steps})
        self._changes = [change for change in self._changes if change not in safe]

    def sync_all(self) -> None:
        for change in self._changes:
            change.apply({id(one): one.synced for one, _, _ in change.steps})
        self._changes = []

    def survivor(self, root: DirectoryNode, chooser: Chooser) -> DirectoryNode:
        """Return the tree below ``root`` after a power loss, as ``chooser`` decides. Its nodes are new and synced."""
        chooser.begin()
        found = _SurvivingNames()
        lost: set[tuple[int, str]] = set()
        for change in self._changes:
            entries = change.entries
            if not entries & lost and chooser.pick(2):
                change.apply(found.of(one for one, _, _ in change.steps))
            else:
                lost |= entries
        return _copied(root, found, chooser, {})


class _SurvivingNames:
    """The names in each directory: a copy of the synced ones, made on first use."""

    def __init__(self) -> None:
        self._names: dict[int, dict[str, Node]] = {}

    def of(self, directories: Iterable[DirectoryNode]) -> dict[int, dict[str, Node]]:
        for directory in directories:
            if id(directory) not in self._names:
                self._names[id(directory)] = dict(directory.synced)
        return self._names


def _copied(
    directory: DirectoryNode, found: _SurvivingNames, chooser: Chooser, files: dict[FileNode, FileNode]
) -> DirectoryNode:
    """Return the copy of a directory. ``files`` has the files that were copied under another name already."""
    made = DirectoryNode(directory.mtime_ms)
    for name, node in sorted(found.of([directory])[id(directory)].items()):
        if not isinstance(node, FileNode):
            made.synced[name] = _copied(node, found, chooser, files)
        elif node in files:
            made.synced[name] = files[node]
            files[node].links += 1
        else:
            made.synced[name] = files[node] = node.survivor(chooser)
    made.names = dict(made.synced)
    return made
