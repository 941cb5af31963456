"""A replica manager over real logs and a hand-made image, on an event loop that runs on demand."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from log_maker import BASE_TIME, batch
from tidelog.client.connection.client_settings import ClientSettings
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.links.broker_links import BrokerLinks
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.image import ConfigResource, MetadataChange, MetadataImage, Topic
from tidelog.server.metadata.partition_state import UNASSIGNED, PartitionState
from tidelog.server.metadata.requests import DONE, AlteredPartition, Outcome, PartitionAlteration
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.record_deletion import deletable, delete_below
from tidelog.server.replicas.replica_manager import ReplicaManager, ReplicaManagerSetup
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.manager_settings import ManagerSettings
from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.manual_timers import ManualTimers

NODE = 1
T0 = TopicPartition("t", 0)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ReplicaHarness:
    def __init__(self, *directories: Path, **settings: Any) -> None:
        """Use ``settings`` for every log."""
        self.clock = ManualClock(BASE_TIME)
        self.timers = ManualTimers(self.clock)
        self.image = MetadataImage()
        self.assigned: dict[tuple[uuid.UUID, int], uuid.UUID] = {}
        self.offline_replicas: list[TopicPartition] = []
        self.offline: list[uuid.UUID] = []
        self.alterations: list[PartitionAlteration] = []
        self.refusals: list[ApiError] = []
        """Errors for the next alterations of in-sync replicas; without one they are committed."""
        self.broker_epoch = 1
        self.loop = asyncio.new_event_loop()
        self._directories = directories
        self._config = LogConfig(**settings)
        self.logs, self.replicas = self._made()

    def _made(self) -> tuple[LogManager, ReplicaManager]:
        logs = LogManager(
            LOCAL,
            self._directories,
            settings=ManagerSettings(is_sole_replica=False, verifies_transactions=True),
            default_config=self._config,
            topic_settings=lambda topic: self.image.settings_of(ResourceType.TOPIC, topic),
            clock=self.clock,
        )
        logs.startup()
        replicas = ReplicaManager(
            ReplicaManagerSetup(
                node_id=NODE,
                logs=logs,
                metadata=self,
                timers=self.timers,
                in_thread=in_this_thread,
                spawn=self.loop.create_task,
                links=lambda: BrokerLinks(lambda _node_id: None, ClientSettings(bootstrap=())),
            )
        )
        return logs, replicas

    def close(self) -> None:
        self.logs.shutdown()
        self.loop.close()

    def restart(self) -> None:
        self.logs.shutdown()
        self.logs, self.replicas = self._made()
        self.run(self.replicas.start())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    # --- the metadata ---

    def follow(self, change: MetadataChange) -> None:
        async def followed() -> None:
            await self.replicas.prepare(change)
            await self.replicas.follow(change)

        self.run(followed())

    def create(self, name: str, partitions: int = 1, **state: Any) -> Topic:
        """Create a topic. Its leader is this broker unless ``state`` names another one."""
        self.follow(self.creation(name, partitions, **state))
        return self.image.topics[name]

    def creation(self, name: str, partitions: int = 1, **state: Any) -> MetadataChange:
        """Change the image without applying the change."""
        values = {"replicas": (NODE,), "isr": (NODE,), "leader": NODE, **state}
        values.setdefault("directories", (UNASSIGNED,) * len(values["replicas"]))
        topic = Topic(name=name, id=uuid.uuid4())
        self.image.topics[name] = self.image.topics_by_id[topic.id] = topic
        change = MetadataChange(created_topics=[topic])
        for number in range(partitions):
            topic.partitions[number] = PartitionState(**values)
            change.note_partition(topic, number, None, topic.partitions[number])
        return change

    def change(self, name: TopicPartition, **state: Any) -> None:
        topic = self.image.topics[name.topic]
        before = topic.partitions[name.partition]
        if "replicas" in state:
            state.setdefault("directories", tuple(before.directory_of(broker) for broker in state["replicas"]))
        topic.partitions[name.partition] = replace(before, **state)
        change = MetadataChange()
        change.note_partition(topic, name.partition, before, topic.partitions[name.partition])
        self.follow(change)

    def delete(self, name: str) -> None:
        self.follow(self.deletion(name))

    def deletion(self, name: str) -> MetadataChange:
        """Change the image without applying the change."""
        topic = self.image.topics.pop(name)
        del self.image.topics_by_id[topic.id]
        change = MetadataChange(deleted_topics=[topic])
        for number, state in topic.partitions.items():
            change.note_partition(topic, number, state, None)
        return change

    def set_config(self, topic: str, **settings: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        self.image.configs[resource] = {key.replace("_", "."): value for key, value in settings.items()}
        self.follow(MetadataChange(configs={resource}))

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> None:
        self.assigned.update(directories)

    async def report_offline_directories(self, directories: Sequence[uuid.UUID]) -> None:
        self.offline += directories

    async def report_offline_replicas(self, partitions: Sequence[TopicPartition], /) -> None:
        self.offline_replicas = list(partitions)

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration]) -> list[AlteredPartition]:
        (alteration,) = alterations
        self.alterations.append(alteration)
        if self.refusals:
            return [AlteredPartition(Outcome.of(self.refusals.pop()), None)]
        topic = self.image.topics_by_id[alteration.topic_id]
        before = topic.partitions[alteration.partition]
        after = replace(before, isr=tuple(alteration.isr), partition_epoch=before.partition_epoch + 1)
        topic.partitions[alteration.partition] = after
        change = MetadataChange()
        change.note_partition(topic, alteration.partition, before, after)
        self.replicas.follow(change)
        return [AlteredPartition(DONE, after)]

    def register(self, broker_id: int, *, epoch: int, is_fenced: bool = False, is_shutting_down: bool = False) -> None:
        """Put another broker into the image."""
        self.image.brokers[broker_id] = BrokerRegistration(
            id=broker_id,
            epoch=epoch,
            incarnation_id=uuid.uuid4(),
            listeners={},
            features={},
            rack=None,
            is_fenced=is_fenced,
            in_controlled_shutdown=is_shutting_down,
            log_dirs=frozenset(),
        )

    def settle(self) -> None:
        """Run the background work that has begun."""

        async def settled() -> None:
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)

        self.run(settled())

    # --- partitions ---

    def partition(self, name: TopicPartition = T0) -> Partition:
        return self.replicas.partition(name)

    def log(self, name: TopicPartition = T0) -> PartitionLog:
        return self.partition(name).log


async def in_this_thread(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    return function(*args, **kwargs)


def records(*values: bytes) -> bytearray:
    """Return records as a producer sends them."""
    return bytearray(batch(0, values or (b"value",)))


def delete_records(partition: Partition, offset: int) -> int:
    """Delete records as the handler does, and return the resolved offset."""
    log, wanted = deletable(partition, offset)
    delete_below(partition, log, wanted)
    return wanted


async def soon(work: Awaitable[Result]) -> asyncio.Task[Result]:
    """Start ``work`` as a task and run it as far as it can go by itself."""
    task = asyncio.ensure_future(work)
    for _ in range(5):
        await asyncio.sleep(0)
    return task
