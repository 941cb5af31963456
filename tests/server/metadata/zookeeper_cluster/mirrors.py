"""Mirrors of znodes for tests of the rules: topics by their replicas, and states."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import ReadZnode
from tidelog.server.metadata.zookeeper.znodes import StateZnode, TopicZnode
from tidelog.server.metadata.zookeeper_cluster.mirror import ZnodeMirror

TOPIC_ID = uuid.UUID(int=1000)


def znode(data: bytes = b"", version: int = 0, *, owner: int = 0) -> ReadZnode:
    return ReadZnode(data, version, 1, owner, 0)


def mirror_of(
    replicas: Mapping[int, tuple[int, ...]],
    states: Mapping[int, StateZnode] | None = None,
    *,
    name: str = "t",
    topic_id: uuid.UUID | None = TOPIC_ID,
) -> ZnodeMirror:
    """Return a mirror with one topic. Partitions without a state have no znode of their own either."""
    mirror = ZnodeMirror()
    mirror.put(paths.TOPICS, znode())
    mirror.put(paths.topic(name), znode(TopicZnode(topic_id=topic_id, replicas=replicas).encode(), 7))
    mirror.put(f"{paths.TOPIC_CONFIGS}/{name}", znode(b'{"version":1,"config":{}}'))
    for number, state in (states or {}).items():
        path = paths.state(name, number)
        mirror.put(paths.partitions(name), znode())
        mirror.put(path.removesuffix("/state"), znode())
        mirror.put(path, znode(state.encode(), number))
    return mirror


def state_of(*isr: int, leader: int | None = None) -> StateZnode:
    return StateZnode(leader=isr[0] if leader is None else leader, leader_epoch=3, controller_epoch=2, isr=isr)
