"""A list of operations on znodes that fit together: each one finds the parents that the ones before it have left. Pure.

Each write has the version of the known znode, so it fails if another program was faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Create, Delete, Operation, ReadZnode, SetData

_ROOTS: Final = frozenset(
    {
        paths.TOPICS,
        paths.TOPIC_CONFIGS,
        paths.BROKER_CONFIGS,
        paths.CLIENT_CONFIGS,
        paths.USER_CONFIGS,
        paths.ADDRESS_CONFIGS,
        paths.DELETED_TOPICS,
        paths.LITERAL_ACLS,
        paths.PREFIXED_ACLS,
        "",
    }
)
"""The parents that every cluster has."""


class OperationList:
    def __init__(self, znodes: Mapping[str, ReadZnode]) -> None:
        self.znodes = znodes
        """The znodes before the operations, by path."""
        self.operations: list[Operation] = []
        self._created: dict[str, None] = {}
        self._deleted: set[str] = set()

    def write(self, path: str, data: bytes, *, version: int | None = None) -> None:
        """Set the data of a znode, or create it with its missing parents. ``version`` replaces the known version."""
        if not self._exists(path):
            self._create(path, data)
        else:
            self.operations.append(SetData(path, data, self.znodes[path].version if version is None else version))

    def create_missing(self, path: str) -> None:
        """Create a znode without data, if it is missing."""
        if not self._exists(path):
            self._create(path, b"")

    def delete(self, path: str) -> None:
        """Delete a znode, if it is there."""
        if self._exists(path):
            self.operations.append(Delete(path, self.znodes[path].version))
            self._deleted.add(path)

    def announce(self, path: str, data: bytes) -> None:
        """Create a sequential znode."""
        self.operations.append(Create(path, data, is_sequential=True))

    def has_children(self, path: str) -> bool:
        """Return True if a znode is left below ``path``. It reads all paths."""
        prefix = f"{path}/"
        return any(one.startswith(prefix) and self._exists(one) for one in (*self.znodes, *self._created))

    def _create(self, path: str, data: bytes) -> None:
        parent = path.rpartition("/")[0]
        if parent not in _ROOTS:
            self.create_missing(parent)
        self.operations.append(Create(path, data))
        self._created[path] = None

    def _exists(self, path: str) -> bool:
        return path in self._created or (path in self.znodes and path not in self._deleted)
