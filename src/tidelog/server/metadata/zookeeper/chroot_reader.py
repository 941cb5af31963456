"""Reads a cluster's znodes below its chroot: all that are translated, and the names of the others.

The reads go level by level, each level in one pipeline. Znodes that announce changes (``/config/changes`` and others)
repeat the data of other znodes, so they are not read. Tokens and old consumers are only named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.model import ZnodeError
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.kazoo_client import MAX_CHILDREN, ZnodeReader
from tidelog.server.metadata.zookeeper.znode_tree import Znode, ZnodeTree, join
from tidelog.server.metadata.zookeeper.znodes import TopicZnode

_SINGLE: Final = (
    paths.CLUSTER_ID,
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    paths.PRODUCER_IDS,
    paths.FEATURE,
    paths.MIGRATION,
    paths.REASSIGNMENT,
    paths.PREFERRED_ELECTION,
)
"""The znodes that are read without their children."""
_NAMED: Final = ("/", paths.DELETED_TOPICS, paths.DELEGATION_TOKENS, paths.OLD_CONSUMERS)
"""The znodes whose children are only named."""
_SETTINGS: Final = (paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS)
_ENTITIES: Final = (paths.CLIENT_CONFIGS, paths.USER_CONFIGS, paths.ADDRESS_CONFIGS)


def read_chroot(reader: ZnodeReader) -> ZnodeTree:
    """Read a cluster's metadata. Raise ZooKeeperError if a read fails, and ZnodeError if a topic's znode or a list of
    children is not valid."""
    reading = _Reading(reader)
    reading.values(_SINGLE)
    reading.list(_NAMED)
    reading.with_children((paths.CONFIG, paths.BROKER_IDS, *_SETTINGS, *_ENTITIES))
    _read_topics(reading)
    users = [join(paths.USER_CONFIGS, name) for name in reading.names[paths.USER_CONFIGS]]
    reading.with_children([paths.user_clients(user) for user in users if reading.has_children(user)])
    stores = (paths.LITERAL_ACLS, paths.PREFIXED_ACLS)
    reading.list(stores)
    reading.with_children([join(store, kind) for store in stores for kind in reading.names[store]])
    return reading.tree()


def read_settings(reader: ZnodeReader) -> ZnodeTree:
    """Read the settings of topics and brokers. Raise as ``read_chroot`` does."""
    reading = _Reading(reader)
    reading.values([paths.CLUSTER_ID])
    reading.with_children(_SETTINGS)
    return reading.tree()


def _read_topics(reading: _Reading) -> None:
    reading.with_children([paths.TOPICS])
    states: list[str] = []
    for name in reading.names[paths.TOPICS]:
        path = paths.topic(name)
        found = reading.znodes.get(path)
        if found is not None:
            states += (paths.state(name, number) for number in TopicZnode.decode(path, found.data).replicas)
        if len(states) > MAX_CHILDREN:
            raise ZnodeError(
                f"znode {path}: the topics up to this one have {len(states):,} partitions, and at most"
                f" {MAX_CHILDREN:,} are read: Kafka did not write them"
            )
    reading.values(states)


@dataclass(slots=True)
class _Reading:
    reader: ZnodeReader
    znodes: dict[str, Znode] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def values(self, wanted: Sequence[str]) -> None:
        for path, found in zip(wanted, self.reader.read(wanted), strict=True):
            if found is not None:
                self.znodes[path] = found

    def list(self, wanted: Iterable[str]) -> None:
        listed = tuple(wanted)
        self.names.update(zip(listed, self.reader.list_children(listed), strict=True))

    def with_children(self, wanted: Iterable[str]) -> None:
        listed = tuple(wanted)
        self.list(listed)
        self.values([join(path, name) for path in listed for name in self.names[path]])

    def has_children(self, path: str) -> bool:
        return path in self.znodes and self.znodes[path].child_count > 0

    def tree(self) -> ZnodeTree:
        return ZnodeTree(self.znodes, self.names)
