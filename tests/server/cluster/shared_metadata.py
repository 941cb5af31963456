"""The metadata of a broker whose controller is in the same process: a test's cluster needs no network for it.

Changes go to the controller's own rules, and all brokers see them in the same step.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tidelog.model import TopicPartition
from tidelog.server.metadata.broker_metadata import OwnRegistration
from tidelog.server.metadata.controller import brokers, leaders
from tidelog.server.metadata.controller.decision import Decision
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata
from tidelog.server.metadata.published_metadata import Listener, Preparation
from tidelog.server.metadata.requests import AlteredPartition, NewTopic, PartitionAlteration, TopicResult

Result = TypeVar("Result")


class SharedMetadata:
    def __init__(
        self, controller: ClusterMetadata, node_id: int, rack: str | None, own: Callable[[], OwnRegistration]
    ) -> None:
        self.controller = controller
        self.broker_epoch = -1
        self.alterations: list[PartitionAlteration] = []
        """The requests for other in-sync replicas, oldest first."""
        self._node_id = node_id
        self._rack = rack
        self._own = own
        self._incarnation_id = uuid.uuid4()

    # --- start and end ---

    def format(self) -> None:
        """Do nothing: the cluster has formatted the directories."""

    def load(self) -> None:
        """Do nothing: the image is the controller's."""

    async def start(self) -> None:
        """Register, as a broker of other controllers does before it follows any leader."""
        own = self._own()
        new = brokers.NewRegistration(
            broker_id=self._node_id,
            incarnation_id=self._incarnation_id,
            endpoints=own.endpoints,
            directories=own.directories,
            rack=self._rack,
            previous_epoch=own.previous_epoch,
        )
        store = self.controller._store
        self.broker_epoch = await self._change(
            lambda image: brokers.register_broker(image, self._settings, new, store.log.end_offset)
        )

    async def join(self, own: OwnRegistration) -> None:
        await self._change(lambda image: brokers.unfence_broker(image, self._settings, self._node_id, own.cordoned))

    def give_up_start(self) -> None:
        """Do nothing: the controller is in this process."""

    async def hand_over(self) -> None:
        await self._change(lambda image: brokers.begin_shutdown(image, self._settings, self._node_id))

    async def leave(self) -> None:
        await self.fence()

    async def close(self) -> None:
        """Do nothing: the controller closes its own store."""

    async def fence(self) -> None:
        """Let the controller notice that this broker does not live."""
        if self._node_id in self.image.brokers and not self.image.brokers[self._node_id].is_fenced:
            await self._change(lambda image: brokers.fence_broker(image, self._settings, self._node_id))

    async def unfence(self) -> None:
        await self._change(lambda image: brokers.unfence_broker(image, self._settings, self._node_id, ()))

    # --- queries ---

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    @property
    def applied_offset(self) -> int:
        return self.controller.applied_offset

    @property
    def finalized_features(self) -> Mapping[str, int]:
        return self.controller.finalized_features

    def committed_settings(self, topic: str) -> Mapping[str, str]:
        return self.controller.committed_settings(topic)

    def subscribe(self, listener: Listener, prepare: Preparation | None = None) -> Callable[[], None]:
        return self.controller.subscribe(listener, prepare)

    # --- changes ---

    async def create_topics(self, topics_: Sequence[NewTopic]) -> list[TopicResult]:
        return await self.controller.create_topics(topics_)

    async def allocate_producer_ids(self) -> range:
        return await self._change(lambda image: brokers.allocate_producer_ids(image, self._node_id, self.broker_epoch))

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration]) -> list[AlteredPartition]:
        self.alterations += alterations
        return await self._change(
            lambda image: leaders.alter_partitions(image, self._settings, self._node_id, alterations)
        )

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> None:
        await self._change(lambda image: leaders.assign_directories(image, self._settings, self._node_id, directories))

    async def report_offline_replicas(self, partitions: Sequence[TopicPartition], /) -> None:
        """Return at once, as for all metadata with log directories."""

    async def report_offline_directories(self, directories: Sequence[uuid.UUID]) -> None:
        await self._change(
            lambda image: brokers.take_directories_offline(image, self._settings, self._node_id, directories)
        )

    async def report_cordoned_directories(self, directories: Sequence[uuid.UUID]) -> None:
        if self.broker_epoch >= 0:
            await self._change(lambda image: brokers.cordon_directories(image, self._node_id, directories))

    # --- inside ---

    @property
    def _settings(self) -> Any:
        return self.controller._settings

    async def _change(self, decide: Callable[[MetadataImage], Decision[Result]]) -> Result:
        return await self.controller._change(decide)
