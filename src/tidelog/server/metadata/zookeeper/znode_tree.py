"""Znodes as they were read from a chroot: an immutable tree of paths. Pure.

Paths begin below the chroot. A tree need not be complete: a reader asks for some paths. A znode that is missing in
ZooKeeper is missing in the tree, and its parent does not name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Znode(NamedTuple):
    data: bytes = b""
    """The data; empty if the znode has none."""
    version: int = 0
    """The number of changes of the data. It is the partition epoch of a partition's state."""
    child_count: int = 0


@dataclass(frozen=True, slots=True)
class ZnodeTree:
    znodes: Mapping[str, Znode]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The sorted names of the children by path, if the reader listed them."""

    @classmethod
    def of(cls, znodes: Mapping[str, Znode]) -> ZnodeTree:
        """Return the tree of a complete mapping: every znode's parent is in it, or has no data."""
        names: dict[str, set[str]] = {}
        for path in znodes:
            for parent, name in _steps(path):
                names.setdefault(parent, set()).add(name)
        return cls(znodes, {parent: tuple(sorted(found)) for parent, found in names.items()})

    def data(self, path: str) -> bytes | None:
        """Return the data of a znode, or None if it is missing."""
        found = self.znodes.get(path)
        return None if found is None else found.data

    def children(self, path: str) -> tuple[str, ...]:
        return self.names.get(path, ())

    def items(self, path: str) -> Iterator[tuple[str, str, bytes]]:
        """Yield the name, path and data of each child that was read."""
        for name in self.children(path):
            child = join(path, name)
            if (data := self.data(child)) is not None:
                yield name, child, data


def join(path: str, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"


def _steps(path: str) -> Iterable[tuple[str, str]]:
    while path != "/":
        parent, _, name = path.rpartition("/")
        path = parent or "/"
        yield path, name
