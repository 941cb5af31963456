"""The mirror of a cluster's znodes: the translated ones, and the requests to the controller. Pure.

``unit_of`` tells which part of the metadata depends on a path. Parts are small, so a changed znode is translated with
its unit alone:

==============================================  ======================================================================
unit                                            paths
==============================================  ======================================================================
``broker``, id                                  ``/brokers/ids/N``
``topic``, name                                 ``/brokers/topics/T`` with all states; ``/admin/delete_topics/T``
``settings``, path                              ``/config/topics/T``, ``/config/brokers/N``
``entity``, path                                the znodes of users, clients and addresses
``acls``, path                                  ``/kafka-acl/TYPE/NAME``, ``/kafka-acl-extended/prefixed/TYPE/NAME``
``producer_ids``, ""                            ``/latest_producer_id_block``
``controller``, ""                              ``/controller``
==============================================  ======================================================================

Thread rule: the event loop only.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import ReadZnode
from tidelog.server.metadata.zookeeper.znode_tree import Znode, ZnodeTree

MIRRORED: Final = (
    paths.CONTROLLER,
    paths.CONTROLLER_EPOCH,
    paths.PRODUCER_IDS,
    paths.FEATURE,
    paths.MIGRATION,
    paths.BROKER_IDS,
    paths.TOPICS,
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.CLIENT_CONFIGS,
    paths.USER_CONFIGS,
    paths.ADDRESS_CONFIGS,
    paths.LITERAL_ACLS,
    paths.EXTENDED_ACLS,
    paths.DELETED_TOPICS,
    paths.REASSIGNMENT,
    paths.PREFERRED_ELECTION,
)
"""The znodes that are mirrored with everything below them."""


class UnitKind(enum.IntEnum):
    """The parts of the metadata, in the sequence in which a change applies them."""

    CONTROLLER = enum.auto()
    BROKER = enum.auto()
    SETTINGS = enum.auto()
    ENTITY = enum.auto()
    ACLS = enum.auto()
    PRODUCER_IDS = enum.auto()
    TOPIC = enum.auto()


class Unit(NamedTuple):
    kind: UnitKind
    name: str
    """A topic's or broker's name, or the path of another znode."""


_CHILDREN: Final[Mapping[str, UnitKind]] = {
    paths.BROKER_IDS: UnitKind.BROKER,
    paths.DELETED_TOPICS: UnitKind.TOPIC,
}
_ENTITIES: Final = (paths.CLIENT_CONFIGS, paths.USER_CONFIGS, paths.ADDRESS_CONFIGS)
_SINGLE: Final = {
    paths.CONTROLLER: Unit(UnitKind.CONTROLLER, ""),
    paths.PRODUCER_IDS: Unit(UnitKind.PRODUCER_IDS, ""),
}
_ACL_STORES: Final = (paths.LITERAL_ACLS, paths.PREFIXED_ACLS)


def is_mirrored(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in MIRRORED)


def unit_of(path: str) -> Unit | None:
    """Return the part of the metadata that depends on a path, or None if the path only carries others."""
    if path in _SINGLE:
        return _SINGLE[path]
    if path.startswith(f"{paths.TOPICS}/"):
        return Unit(UnitKind.TOPIC, path.split("/")[3])
    parent, _, name = path.rpartition("/")
    if parent in _CHILDREN:
        return Unit(_CHILDREN[parent], name)
    if parent in (paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS):
        return Unit(UnitKind.SETTINGS, path)
    if parent in _ENTITIES or (path.startswith(f"{paths.USER_CONFIGS}/") and parent.endswith("/clients")):
        return Unit(UnitKind.ENTITY, path)
    if any(path.startswith(f"{store}/") and path.count("/") == store.count("/") + 2 for store in _ACL_STORES):
        return Unit(UnitKind.ACLS, path)
    return None


def units_of(path: str) -> Iterator[Unit]:
    """Yield the parts of the metadata that depend on a path. The settings of a topic leave the image with the topic, so
    they depend on the mark of its deletion, too."""
    unit = unit_of(path)
    if unit is not None:
        yield unit
        if path.startswith(f"{paths.DELETED_TOPICS}/"):
            yield Unit(UnitKind.SETTINGS, f"{paths.TOPIC_CONFIGS}/{unit.name}")


class ZnodeMirror(Mapping[str, ReadZnode]):
    """The mirrored znodes by path, and the names of their children."""

    def __init__(self, *, deletes_topics: bool = True) -> None:
        """``deletes_topics`` is False if requests to delete topics have no effect (``delete.topic.enable``)."""
        self.deletes_topics = deletes_topics
        self._znodes: dict[str, ReadZnode] = {}
        self._children: defaultdict[str, set[str]] = defaultdict(set)

    def __getitem__(self, path: str) -> ReadZnode:
        return self._znodes[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._znodes)

    def __len__(self) -> int:
        return len(self._znodes)

    def put(self, path: str, found: ReadZnode | None) -> bool:
        """Set or remove a znode. Return True if that changed the mirror."""
        before = self._znodes.get(path)
        parent, _, name = path.rpartition("/")
        if found is None:
            self._znodes.pop(path, None)
            self._children[parent].discard(name)
        else:
            self._znodes[path] = found
            self._children[parent].add(name)
        if before is None or found is None:
            return before is not found
        return _differ(before, found)

    def children(self, path: str) -> tuple[str, ...]:
        """Return the sorted names of the mirrored children."""
        return tuple(sorted(self._children.get(path, ())))

    def below(self, path: str) -> Iterator[str]:
        """Yield the paths below a znode, each before its children."""
        for name in self.children(path):
            child = f"{path}/{name}"
            yield child
            yield from self.below(child)

    def is_being_deleted(self, topic: str) -> bool:
        """Return True if the deletion of a topic is requested and not complete."""
        return self.deletes_topics and f"{paths.DELETED_TOPICS}/{topic}" in self._znodes

    def topic_tree(self, name: str) -> ZnodeTree:
        """Return the znodes of one topic as a tree that is translated."""
        root = paths.topic(name)
        return self._tree([root, *(path for path in self.below(root) if path.endswith("/state"))])

    def changes_to(self, other: Mapping[str, ReadZnode]) -> Iterator[str]:
        """Yield the paths of znodes that differ from those of another mirror."""
        for path in self.keys() | other.keys():
            mine, theirs = self.get(path), other.get(path)
            if mine is None or theirs is None or _differ(mine, theirs):
                yield path

    def _tree(self, wanted: Iterable[str]) -> ZnodeTree:
        found = {path: self._znodes[path] for path in wanted if path in self._znodes}
        return ZnodeTree({path: Znode(one.data, one.version, one.child_count) for path, one in found.items()})


def _differ(one: ReadZnode, other: ReadZnode) -> bool:
    """Compare without the number of children: the mirror has its own."""
    return one[:_COMPARED] != other[:_COMPARED]


_COMPARED: Final = ReadZnode._fields.index("child_count")
