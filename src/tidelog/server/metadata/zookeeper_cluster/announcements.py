"""The announcements of changes: sequential znodes by which Kafka's brokers learn of settings and ACLs.

Brokers of tidelog follow the znodes themselves. They write announcements for Kafka, which may start in their place, and
the controller deletes announcements older than 15 minutes, as Kafka does.
Thread rule: the event loop only. Source: Kafka's ``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Protocol

from tidelog.server.metadata.zookeeper.operations import Delete, Operation, ReadZnode, ZnodeConflictError
from tidelog.server.metadata.zookeeper.znode_tree import join

ANNOUNCEMENTS_MS: Final = 15 * 60 * 1000
"""The age from which on an announcement is deleted, and the interval of the check."""
_PARENTS: Final = ("/config/changes", "/kafka-acl-changes", "/kafka-acl-extended-changes")
_AT_ONCE: Final = 500
"""The announcements of one commit."""
_log: Final = logging.getLogger(__name__)


class AnnouncementSession(Protocol):
    """The part of a session that deletes announcements."""

    async def read(self, paths: Sequence[str], /) -> Sequence[ReadZnode | None]: ...
    async def list_children(self, paths: Sequence[str], /) -> Sequence[tuple[str, ...] | None]: ...
    async def commit(self, operations: Sequence[Operation], /) -> Sequence[str | None]: ...


async def delete_announcements(session: AnnouncementSession, now_ms: int) -> None:
    """Delete the old announcements. Raise ZooKeeperError."""
    listed = await session.list_children(_PARENTS)
    paths = [join(parent, name) for parent, names in zip(_PARENTS, listed, strict=True) for name in names or ()]
    znodes = await session.read(paths)
    old = [
        path
        for path, znode in zip(paths, znodes, strict=True)
        if znode is not None and znode.created_ms < now_ms - ANNOUNCEMENTS_MS
    ]
    for at in range(0, len(old), _AT_ONCE):
        try:
            await session.commit([Delete(path) for path in old[at : at + _AT_ONCE]])
        except ZnodeConflictError as error:
            _log.debug("Another program deletes announcements at the same time: %s", error)
