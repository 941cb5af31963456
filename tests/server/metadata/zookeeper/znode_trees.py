"""Trees of znodes for tests: the captured one of Kafka 3.9, with changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from golden_sets import captured_znodes
from tidelog.server.metadata.zookeeper.znode_tree import Znode, ZnodeTree


def captured_mapping() -> dict[str, Znode]:
    """Return the znodes that a broker of Kafka 3.9 left."""
    return {path: Znode((one["data"] or "").encode(), one["version"]) for path, one in captured_znodes().items()}


def captured_tree(changes: Mapping[str, Any] | None = None) -> ZnodeTree:
    """Return them with changed data by path: bytes, a znode, a value for JSON, or None for
    a znode that is gone."""
    znodes = captured_mapping()
    for path, data in (changes or {}).items():
        if data is None:
            del znodes[path]
        else:
            raw = data if isinstance(data, bytes | Znode) else json.dumps(data).encode()
            znodes[path] = raw if isinstance(raw, Znode) else Znode(raw)
            for parent in parents(path):
                znodes.setdefault(parent, Znode())
    return tree_of(znodes)


def tree_of(znodes: Mapping[str, Znode]) -> ZnodeTree:
    """Return a complete tree, in which each znode has the number of its children."""
    names = ZnodeTree.of(znodes).names
    return ZnodeTree.of({path: found._replace(child_count=len(names.get(path, ()))) for path, found in znodes.items()})


def parents(path: str) -> list[str]:
    """Return the paths above a path, without the root."""
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[: count + 1]) for count in range(len(names))]


class MappingReader:
    """A reader of a complete mapping of znodes by path. It notes the paths that are read."""

    def __init__(self, znodes: Mapping[str, Znode]) -> None:
        self._tree = tree_of(znodes)
        self.paths: list[str] = []

    def read(self, paths: Sequence[str]) -> Iterator[Znode | None]:
        self.paths += paths
        yield from (self._tree.znodes.get(path) for path in paths)

    def list_children(self, paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
        yield from (self._tree.children(path) for path in paths)
