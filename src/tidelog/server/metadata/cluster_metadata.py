"""What the broker asks of the cluster's metadata, whoever keeps it: this process, or others.

Reading is asking ``image``. A change is awaited: it returns when it is on the disk, is part of the image, and every
listener was told. Changes happen one after the other, and each becomes part of the image in one step of the loop.

Implementations: ``kraft.embedded_metadata.EmbeddedMetadata``. Thread rule: the loop only.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from tidelog.model import TopicPartition
from tidelog.server.authorization.acl import Acl
from tidelog.server.authorization.acl_filter import AclFilter
from tidelog.server.metadata.broker_registration import Endpoint
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
"""What it returns is awaited before whoever asked for the change gets an answer; the next change does not wait."""
Preparation = Callable[[MetadataChange], Awaitable[None]]
"""Called with a change that is on the disk and not yet part of the image. The next change waits for it."""


class ClusterMetadata(Protocol):
    """Refusals are in the answers; ApiError is raised where a request is refused as a whole.

    ``timeout_ms``: how long the change may wait for its turn, else REQUEST_TIMED_OUT; None: as long as it takes.
    A request for nothing waits for no turn.
    """

    @property
    def image(self) -> MetadataImage:
        """Not to be changed, nor kept over an ``await``."""
        ...

    @property
    def broker_epoch(self) -> int:
        """Of this broker's registration; -1 before it."""
        ...

    @property
    def applied_offset(self) -> int:
        """Of the last record that is part of the image: of two images the one with the greater is the newer."""
        ...

    @property
    def finalized_features(self) -> Mapping[str, int]:
        """Levels by name, as clients are told of them."""
        ...

    def subscribe(self, listener: Listener, prepare: Preparation | None = None) -> Callable[[], None]:
        """Call ``prepare`` before each change becomes part of the image, and ``listener`` in the step that does it.

        In the order of the changes, on the loop; what they raise is logged. The function returned ends it.
        """
        ...

    # --- topics ---

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[TopicResult]: ...

    async def delete_topics(
        self, topics: Sequence[str | uuid.UUID], *, timeout_ms: int | None = None
    ) -> list[TopicResult]:
        """By name, or by id."""
        ...

    async def create_partitions(
        self, requests: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[TopicResult]: ...

    # --- settings ---

    async def alter_configs(
        self, changes: ConfigChanges, *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome]:
        """One refused operation refuses all of its resource."""
        ...

    async def replace_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> dict[ConfigResource, Outcome]:
        """As ``AlterConfigs`` of old clients: what is not named is taken back."""
        ...

    async def alter_client_quotas(
        self, changes: Sequence[QuotaChange], *, validate_only: bool = False
    ) -> list[Outcome]: ...

    async def alter_scram_users(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> dict[str, Outcome]:
        """By user."""
        ...

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> Outcome:
        """All or none: the outcome is that of the first one refused."""
        ...

    # --- access control lists ---

    async def create_acls(self, acls: Sequence[Acl]) -> list[Outcome]:
        """One that is there already is none more."""
        ...

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[RemovedAcls]:
        """All or none: of too many at once nothing is removed."""
        ...

    # --- producers ---

    async def allocate_producer_ids(self) -> range:
        """1,000 ids that nobody else has."""
        ...

    # --- partitions ---

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration]) -> list[AlteredPartition]:
        """From this broker, as leader."""
        ...

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Outcome]:
        """None: of all partitions; those that need no election are left out then."""
        ...

    async def alter_reassignments(
        self,
        reassignments: Sequence[Reassignment],
        *,
        may_change_factor: bool = True,
        timeout_ms: int | None = None,
    ) -> list[Outcome]:
        """``may_change_factor``: to another number of replicas, too."""
        ...

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> None:
        """Tell in which directory this broker's replica of a partition lies, by topic id and number."""
        ...

    async def report_offline_directories(self, directories: Sequence[uuid.UUID]) -> None:
        """Directories of this broker that failed: it leads nothing that lies there any more."""
        ...

    async def report_cordoned_directories(self, directories: Sequence[uuid.UUID]) -> None:
        """Record which directories of this broker get no new partitions; a no-op before the broker registers."""
        ...

    # --- this broker ---

    async def register_broker(
        self,
        endpoints: Sequence[Endpoint],
        directories: Sequence[uuid.UUID],
        *,
        cordoned: Sequence[uuid.UUID] = (),
        previous_epoch: int | None = None,
    ) -> None:
        """Join the cluster, and lead what this broker has to lead from now on.

        ``cordoned``: those of ``directories`` that get no new partitions.
        ``previous_epoch``: of the run before, if it ended in order, as the markers of the log directories have it.
        """
        ...

    async def shut_down_broker(self) -> None:
        """Hand over what it leads and leave; what nobody else can lead stays without a leader until it is back."""
        ...
