"""The broker's interface to the cluster metadata, whether this process or others keep it.

``image`` is for reading. An awaited change returns once it is on the disk, is part of the image, and every listener was
notified. Changes happen one after the other. Each becomes part of the image in one step of the event loop. The
implementation is ``kraft.embedded_metadata.EmbeddedMetadata``. Thread rule: the event loop only.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from tidelog.model import TopicPartition
from tidelog.server.authorization.acl import Acl, AclFilter
from tidelog.server.metadata.broker_registration import BrokerEndpoint
from tidelog.server.metadata.image import ConfigResource, MetadataChange, MetadataImage
from tidelog.server.metadata.requests import (
    AlteredPartition,
    ConfigChanges,
    ElectionType,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    Outcome,
    PartitionAlteration,
    QuotaChange,
    Reassignment,
    RemovedAcls,
    ScramDeletion,
    ScramUpsertion,
    TopicResult,
)

Listener = Callable[[MetadataChange], Awaitable[None] | None]
"""A callback for each change. Its awaitable is awaited before the request for the change gets its response. The next
change does not wait for it."""
Preparation = Callable[[MetadataChange], Awaitable[None]]
"""A callback with a change that is on the disk and not yet in the image. The next change waits for it."""


class ClusterMetadata(Protocol):
    """The requests to the cluster metadata. Results carry the errors of their parts; ApiError fails the request.

    ``timeout_ms``: the change must get its turn in that time, or it fails with REQUEST_TIMED_OUT; None waits forever.
    An empty request does not wait for its turn.
    """

    @property
    def image(self) -> MetadataImage:
        """The current image. Do not change it, and do not keep it over an ``await``."""
        ...

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, or -1 before it."""
        ...

    @property
    def applied_offset(self) -> int:
        """The offset of the last record in the image. Of two images, the newer has the greater offset."""
        ...

    @property
    def finalized_features(self) -> Mapping[str, int]:
        """The finalized levels by feature name, as clients see them."""
        ...

    def subscribe(self, listener: Listener, prepare: Preparation | None = None) -> Callable[[], None]:
        """Call ``prepare`` before each change becomes part of the image, and ``listener`` in the step that adds it.
        Both run on the event loop in the order of the changes. Their exceptions are logged. The returned function
        unsubscribes."""
        ...

    # --- topics ---

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[TopicResult]: ...

    async def delete_topics(
        self, topics: Sequence[str | uuid.UUID], *, timeout_ms: int | None = None
    ) -> list[TopicResult]:
        """Delete topics by name or id."""
        ...

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[TopicResult]: ...

    # --- settings ---

    async def alter_configs(
        self, changes: ConfigChanges, *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome]:
        """Alter configs key by key. One refused operation refuses all operations of its resource."""
        ...

    async def replace_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome]:
        """Replace configs, as old clients do with ``AlterConfigs``: keys that are not named are removed."""
        ...

    async def alter_client_quotas(
        self, changes: Sequence[QuotaChange], *, validate_only: bool = False
    ) -> list[Outcome]: ...

    async def alter_scram_users(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> dict[str, Outcome]:
        """Change SCRAM credentials, and return the outcomes by user."""
        ...

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> Outcome:
        """Update all features or none. The outcome is that of the first refused update."""
        ...

    # --- access control lists ---

    async def create_acls(self, acls: Sequence[Acl]) -> list[Outcome]:
        """Add ACLs. Adding an existing ACL is a no-op."""
        ...

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[RemovedAcls]:
        """Delete the ACLs that the filters match. A filter is refused if the request would then delete too many
        ACLs."""
        ...

    # --- producers ---

    async def allocate_producer_ids(self) -> range:
        """Return a block of 1,000 producer ids that no other producer gets."""
        ...

    # --- partitions ---

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration]) -> list[AlteredPartition]:
        """Change the in-sync replicas of partitions that this broker leads."""
        ...

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Outcome]:
        """Elect leaders. ``partitions`` None stands for all, and leaves out results that need no election."""
        ...

    async def alter_reassignments(
        self,
        reassignments: Sequence[Reassignment],
        *,
        may_change_factor: bool = True,
        timeout_ms: int | None = None,
    ) -> list[Outcome]:
        """Begin or cancel reassignments. ``may_change_factor`` allows another number of replicas."""
        ...

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> None:
        """Report the log directory of this broker's replicas, by topic id and partition number."""
        ...

    async def report_offline_directories(self, directories: Sequence[uuid.UUID]) -> None:
        """Report failed log directories of this broker. It no longer leads the partitions in them."""
        ...

    async def report_cordoned_directories(self, directories: Sequence[uuid.UUID]) -> None:
        """Record the log directories of this broker that get no new partitions; a no-op before the broker registers."""
        ...

    # --- this broker ---

    async def register_broker(
        self,
        endpoints: Sequence[BrokerEndpoint],
        directories: Sequence[uuid.UUID],
        *,
        cordoned: Sequence[uuid.UUID] = (),
        previous_epoch: int | None = None,
    ) -> None:
        """Register this broker, which then leads its partitions.

        ``cordoned``: the part of ``directories`` that gets no new partitions. ``previous_epoch``: the epoch of the
        previous run after a clean shutdown, from the log directories' markers.
        """
        ...

    async def shut_down_broker(self) -> None:
        """Hand over leadership and leave. A partition without another eligible leader has none until this broker is
        back."""
        ...
