"""The cluster metadata as a broker's parts use it, wherever the controller is.

=======================  ==============================================================================================
implementation           changes are made by
=======================  ==============================================================================================
``ClusterMetadata``      the controller in this process
``ObservedMetadata``     the active controller of the cluster, over the network
``ZooKeeperMetadata``    this broker, in ZooKeeper
=======================  ==============================================================================================

The calls of a broker's life are::

    format       new directories get their files, or the directories are checked
    load         in a background thread, after the log directories are locked and before their logs are loaded
    start        the image follows the committed changes from now on, or the controller in this process begins
    join         partitions get this broker as their leader
    hand_over    the leaderships move to other brokers, while clients are still served
    leave        the controller learns that this broker stops
    close

Thread rule: the event loop only, but for ``format`` and ``load``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.model import TidelogError, TopicPartition
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.published_metadata import Listener, Preparation
from tidelog.server.metadata.requests import AlteredPartition, NewTopic, PartitionAlteration, TopicResult


class StartGivenUpError(TidelogError):
    """The start of a broker ended while it waited for other nodes, because the broker is to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRegistration:
    """This broker, as it registers with the cluster."""

    endpoints: Sequence[BrokerEndpoint]
    directories: Sequence[uuid.UUID]
    """The ids of the online log directories."""
    cordoned: Sequence[uuid.UUID] = ()
    """The part of ``directories`` that gets no new partitions."""
    previous_epoch: int | None = None
    """The epoch of the previous run after a clean shutdown, from the log directories' markers."""


class BrokerMetadata(Protocol):
    # --- start and end ---

    def format(self) -> None: ...
    def load(self) -> None: ...
    async def start(self) -> None: ...
    async def join(self, own: OwnRegistration) -> None: ...
    def give_up_start(self) -> None:
        """Let ``load`` and ``join`` raise StartGivenUpError instead of waiting for other nodes."""
        ...

    async def hand_over(self) -> None: ...
    async def leave(self) -> None: ...
    async def close(self) -> None: ...

    # --- queries ---

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
        """The finalized levels as clients see them, with the quorum's ``kraft.version``."""
        ...

    def committed_settings(self, topic: str) -> Mapping[str, str]:
        """Return a topic's configs as last written. Its logs are created before ``image`` has the topic."""
        ...

    def subscribe(self, listener: Listener, prepare: Preparation | None = None) -> Callable[[], None]:
        """Follow the published changes; see ``PublishedMetadata.subscribe``."""
        ...

    # --- changes, with the errors of their parts in the results; ApiError fails a request ---

    async def create_topics(self, topics_: Sequence[NewTopic], /) -> list[TopicResult]:
        """Create automatic and internal topics."""
        ...

    async def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that no other producer gets."""
        ...

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration], /) -> list[AlteredPartition]:
        """Change the in-sync replicas of partitions that this broker leads."""
        ...

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID], /) -> None:
        """Report the log directory of this broker's replicas, by topic id and partition number."""
        ...

    async def report_offline_directories(self, directories: Sequence[uuid.UUID], /) -> None:
        """Report failed log directories of this broker."""
        ...

    async def report_cordoned_directories(self, directories: Sequence[uuid.UUID], /) -> None:
        """Report the log directories of this broker that get no new partitions."""
        ...

    async def report_offline_replicas(self, partitions: Sequence[TopicPartition], /) -> None:
        """Report the partitions whose replicas here are offline. Metadata in ZooKeeper has no log directories."""
        ...
