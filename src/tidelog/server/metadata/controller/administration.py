"""The changes that administrators and brokers ask for, over any keeper of the cluster metadata.

Each method runs one rule of the controller by ``_change``. A subclass says how a decision becomes durable:

=====================  ===============================================================================================
subclass               a decision is written to
=====================  ===============================================================================================
``ClusterMetadata``    the metadata log of this process
``ZooKeeperMetadata``  ZooKeeper's znodes, with their versions checked
=====================  ===============================================================================================

Thread rule: the event loop only. Source: Kafka's ``Controller``.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tidelog.model import TopicPartition
from tidelog.server.authorization.acl import Acl, AclFilter
from tidelog.server.metadata.controller import (
    acls,
    brokers,
    configs,
    feature_updates,
    leaders,
    periodic_elections,
    quotas,
    reassignments,
    scram_users,
    topics,
)
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.image import ConfigResource, MetadataImage
from tidelog.server.metadata.requests import (
    ConfigChanges,
    ElectionType,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    Outcome,
    QuotaChange,
    Reassignment,
    RemovedAcls,
    ScramDeletion,
    ScramUpsertion,
    TopicResult,
)

T = TypeVar("T")


class Administration(ABC):
    """Changes of the cluster metadata. Results carry the errors of their parts; ApiError fails the request.

    ``timeout_ms``: the change must get its turn in that time, or it fails with REQUEST_TIMED_OUT; None waits forever.
    An empty request does not wait for its turn.
    """

    _settings: ControllerSettings

    @property
    @abstractmethod
    def image(self) -> MetadataImage:
        """The current image. Do not change it, and do not keep it over an ``await``."""

    @property
    @abstractmethod
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, or -1 before it."""

    @abstractmethod
    async def _change(
        self,
        decide: Callable[[MetadataImage], Decision[T]],
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> T:
        """Decide on the newest image, and return the result once the records are durable and in ``image``.

        ``validate_only`` writes no records. ``decide`` is pure and may be called more than once.
        """

    # --- topics ---

    async def create_topics(
        self, topics_: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[TopicResult]:
        if not topics_:
            return []
        return await self._change(
            lambda image: topics.create_topics(image, self._settings, topics_), validate_only, timeout_ms
        )

    async def delete_topics(
        self, topics_: Sequence[str | uuid.UUID], *, timeout_ms: int | None = None
    ) -> list[TopicResult]:
        """Delete topics by name or id."""
        if not topics_:
            return []
        return await self._change(lambda image: topics.delete_topics(image, topics_), timeout_ms=timeout_ms)

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[TopicResult]:
        if not requests:
            return []
        return await self._change(
            lambda image: topics.create_partitions(image, self._settings, requests), validate_only, timeout_ms
        )

    # --- settings ---

    async def alter_configs(
        self, changes: ConfigChanges, *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome]:
        """Alter configs key by key. One refused operation refuses all operations of its resource."""
        return await self._change(lambda image: configs.alter_configs(image, self._settings, changes), validate_only)

    async def replace_configs(
        self, configs_: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome]:
        """Replace configs, as old clients do with ``AlterConfigs``: keys that are not named are removed."""
        return await self._change(lambda image: configs.replace_configs(image, self._settings, configs_), validate_only)

    async def alter_client_quotas(
        self, changes: Sequence[QuotaChange], *, validate_only: bool = False
    ) -> list[Outcome]:
        return await self._change(lambda image: quotas.alter_client_quotas(image, changes), validate_only)

    async def alter_scram_users(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> dict[str, Outcome]:
        """Change SCRAM credentials, and return the outcomes by user."""
        return await self._change(lambda image: scram_users.alter_scram_users(image, deletions, upsertions))

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> Outcome:
        """Update all features or none. The outcome is that of the first refused update."""
        return await self._change(
            lambda image: feature_updates.update_features(image, self._settings, updates), validate_only
        )

    # --- access control lists ---

    async def create_acls(self, acls_: Sequence[Acl]) -> list[Outcome]:
        """Add ACLs. Adding an existing ACL is a no-op."""
        return await self._change(lambda image: acls.create_acls(image, acls_))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[RemovedAcls]:
        """Delete the ACLs that the filters match. A filter is refused if the request would then delete too many
        ACLs."""
        return await self._change(lambda image: acls.delete_acls(image, filters))

    # --- producers ---

    async def allocate_producer_ids(self) -> range:
        """Return a block of 1,000 producer ids that no other producer gets."""
        return await self._change(
            lambda image: brokers.allocate_producer_ids(image, self._settings.node_id, self.broker_epoch)
        )

    # --- partitions ---

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Outcome]:
        """Elect leaders. ``partitions`` None stands for all, and leaves out results that need no election."""
        return await self._change(
            lambda image: leaders.elect_leaders(image, self._settings, kind, partitions), timeout_ms=timeout_ms
        )

    async def balance_leaders(self) -> bool:
        """Give leaderships back to preferred replicas, and return True if there may be more to do."""
        return await self._change(lambda image: periodic_elections.balance_leaders(image, self._settings))

    async def elect_leaderless(self) -> bool:
        """Elect leaders uncleanly where topics allow it, and return True if there may be more to do."""
        return await self._change(lambda image: periodic_elections.elect_leaderless(image, self._settings))

    async def bump_leader_epoch(self, partition: TopicPartition) -> Outcome:
        """Keep the leader and begin a new leader epoch, for tests."""
        return await self._change(lambda image: leaders.bump_leader_epoch(image, partition))

    async def alter_reassignments(
        self,
        reassignments_: Sequence[Reassignment],
        *,
        may_change_factor: bool = True,
        timeout_ms: int | None = None,
    ) -> list[Outcome]:
        """Begin or cancel reassignments. ``may_change_factor`` allows another number of replicas."""
        if not reassignments_:
            return []
        return await self._change(
            lambda image: reassignments.alter_reassignments(
                image, self._settings, reassignments_, may_change_factor=may_change_factor
            ),
            timeout_ms=timeout_ms,
        )
