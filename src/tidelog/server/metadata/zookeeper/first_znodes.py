"""The znodes that every cluster has from its first start. Kafka 3.9 creates the missing ones at each start.

The znodes of access control follow only if the broker has an authorizer. Thread rule: the event loop.
Source: Kafka's ``ZkData.PersistentZkPaths``, ``KafkaZkClient.createTopLevelPaths``, ``createAclPaths`` and
``createOrGetClusterId``; for ``/feature`` ``KafkaController.maybeSetupFeatureVersioning``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from tidelog.model import ZooKeeperError
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Create, Operation, ReadZnode, ZnodeConflictError
from tidelog.server.metadata.zookeeper.znodes import ClusterIdZnode, FeatureZnode
from tidelog.storage.checkpoint import random_uuid, uuid_to_text

_PATHS: Final = (
    paths.OLD_CONSUMERS,
    paths.BROKER_IDS,
    paths.TOPICS,
    "/config/changes",
    paths.DELETED_TOPICS,
    "/brokers/seqid",
    "/isr_change_notification",
    paths.PRODUCER_IDS,
    "/log_dir_event_notification",
    paths.TOPIC_CONFIGS,
    paths.CLIENT_CONFIGS,
    paths.USER_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.ADDRESS_CONFIGS,
)
_RESOURCES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
_ACL_PATHS: Final = (
    *(f"{store}/{kind}" for store in (paths.LITERAL_ACLS, paths.PREFIXED_ACLS) for kind in _RESOURCES),
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
)


class CreatingSession(Protocol):
    """The part of a session that creates znodes."""

    async def sync(self) -> None: ...

    async def read(self, paths: Sequence[str], /) -> Sequence[ReadZnode | None]: ...

    async def commit(self, operations: Sequence[Operation], /) -> Sequence[str | None]: ...


def first_znodes(cluster_id: str, *, has_authorizer: bool) -> list[Create]:
    """Return the znodes of a new cluster, each after its parent."""
    data = {
        paths.CLUSTER_ID: ClusterIdZnode(cluster_id).encode(),
        paths.FEATURE: FeatureZnode(is_enabled=True, levels={}).encode(),
    }
    wanted = [*_PATHS, *(_ACL_PATHS if has_authorizer else ()), *data]
    return [Create(path, data.get(path, b"")) for path in _with_parents(wanted)]


async def make_first_znodes(session: CreatingSession, *, has_authorizer: bool = False) -> str:
    """Create the missing znodes. Return the id of the cluster, which is a new one if there was none.

    Raise ZooKeeperError if that fails, and ZnodeError if the cluster's id is not valid.
    """
    await _create_missing(session, first_znodes(uuid_to_text(random_uuid()), has_authorizer=has_authorizer))
    (found,) = await session.read([paths.CLUSTER_ID])
    if found is None:
        raise ZooKeeperError(f"znode {paths.CLUSTER_ID} has gone: another program deletes the cluster's metadata")
    return ClusterIdZnode.decode(paths.CLUSTER_ID, found.data).cluster_id


async def _create_missing(session: CreatingSession, wanted: Sequence[Create]) -> None:
    """Create missing znodes at once. Brokers that start together try again until one of them has created all."""
    while True:
        await session.sync()
        found = await session.read([one.path for one in wanted])
        try:
            await session.commit([one for one, znode in zip(wanted, found, strict=True) if znode is None])
        except ZnodeConflictError as conflict:
            if conflict.reason != "NodeExistsError":
                raise
        else:
            return


def _with_parents(wanted: Iterable[str]) -> Iterator[str]:
    """Yield each path after its parents, and each only once."""
    seen: set[str] = set()
    for path in wanted:
        names = path.split("/")
        for depth in range(2, len(names) + 1):
            part = "/".join(names[:depth])
            if part not in seen:
                seen.add(part)
                yield part
