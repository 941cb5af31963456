"""Brokers whose metadata is on the model of ZooKeeper: they start, stop, die and lose connections as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from server.metadata.zookeeper.znode_model import ModelSession, ModelZooKeeper
from server.metadata.zookeeper_cluster.cluster_records import cluster_records
from server.metadata.zookeeper_cluster.model_cluster import cluster_of
from server.metadata.zookeeper_cluster.virtual_loop import LoopClock, run_virtually, timers_of
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import TopicPartition
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.authorization.authorizer import ZOOKEEPER_AUTHORIZER
from tidelog.server.metadata.broker_metadata import OwnRegistration
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import AlteredPartition, NewTopic, PartitionAlteration, TopicResult
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.operations import Operation
from tidelog.server.metadata.zookeeper.session import SessionState, ZnodeEvent
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode, TopicZnode
from tidelog.server.metadata.zookeeper_cluster.zookeeper_metadata import ZooKeeperMetadata, ZooKeeperMetadataSetup
from tidelog.testing import SimulatedDisk

SESSION_MS: Final = 18_000
"""The session of a broker that is killed ends after this time."""
HANG_MS: Final = 300_000
"""The longest wait for a condition, in virtual time."""


class ObservedZooKeeper(ModelZooKeeper):
    """A model that reports each commit after it took effect."""

    def __init__(self, znodes: Mapping[str, bytes] | None = None) -> None:
        self.on_commit: list[Callable[[Sequence[Operation], int], None]] = []
        super().__init__(znodes)

    def commit(self, operations: Iterable[Operation], session_id: int = 0) -> list[str | None]:
        listed = list(operations)
        results = super().commit(listed, session_id)
        for told in self.on_commit:
            told(listed, session_id)
        return results


class MetadataCluster:
    """A tree of znodes, and the brokers on it by id."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, random: Random | None = None) -> None:
        """``settings`` contains Kafka's keys, for all brokers. ``random`` decides where replicas are placed."""
        self.loop = asyncio.get_running_loop()
        self.clock = LoopClock(self.loop)
        self.timers = timers_of(self.loop)
        self.settings = dict(settings or {})
        self.random = Random() if random is None else random
        self.zookeeper = ObservedZooKeeper()
        self.zookeeper.now_ms = self.clock.now_ms
        self.brokers: dict[int, ModelBroker] = {}
        self.failures: list[str] = []
        """The reasons for which brokers were to stop. A test that expects one takes it out."""
        self.on_start: Callable[[int], object] = lambda _: None
        """A callback with the first session of each run of a broker, before it registers."""

    async def start(self, *ids: int, **settings: str) -> list[ModelBroker]:
        """Start brokers one after the other, and return them."""
        started = [self.broker(one, **settings) for one in ids]
        for broker in started:
            await broker.start()
        return started

    def broker(self, node_id: int, **settings: str) -> ModelBroker:
        """Return a new run of a broker, which has not started. A dot in a key is written as ``_``."""
        keys = {key.replace("_", "."): value for key, value in settings.items()}
        self.brokers[node_id] = ModelBroker(self, node_id, {**self.settings, **keys})
        return self.brokers[node_id]

    async def stop(self) -> None:
        """Stop the brokers that run."""
        for broker in self.brokers.values():
            await broker.close()

    def end_session(self, session_id: int) -> None:
        self.zookeeper.end_session(session_id)

    async def until(self, is_so: Callable[[], object], within_ms: int = HANG_MS) -> None:
        """Wait for a condition. Fail if it is not met within the time."""
        deadline_ms = self.clock.monotonic_ms() + within_ms
        while not is_so():
            assert self.clock.monotonic_ms() <= deadline_ms, "the condition is not met"
            await asyncio.sleep(0.01)

    async def quiet(self) -> None:
        """Let everything happen that needs no time."""
        await asyncio.sleep(0.05)

    @property
    def controller(self) -> ModelBroker | None:
        active = [broker for broker in self.brokers.values() if broker.is_up and broker.metadata.is_controller]
        assert len(active) <= 1, f"{[broker.node_id for broker in active]} are controllers"
        return active[0] if active else None

    # --- the tree ---

    def write(self, path: str, data: bytes | None) -> None:
        """Write a znode by another hand, with its missing parents; None deletes it."""
        write_znode(self.zookeeper, path, data)

    def data(self, path: str) -> bytes | None:
        found = self.zookeeper.read(path)
        return None if found is None else found.data

    def replicas_of(self, topic: str) -> set[int]:
        """Return the brokers of a topic in the tree."""
        data = self.data(paths.topic(topic))
        found = {} if data is None else TopicZnode.decode(paths.topic(topic), data).replicas
        return {broker for replicas in found.values() for broker in replicas}

    def image(self) -> MetadataImage:
        """Return the image of the tree, as each broker has it once it has seen every change."""
        return image_of_tree(self.zookeeper)


class ModelBroker:
    """The metadata of one run of a broker."""

    def __init__(self, cluster: MetadataCluster, node_id: int, settings: Mapping[str, str]) -> None:
        self.node_id = node_id
        self.is_up = False
        """True from the begin of the start to the end of the broker."""
        self.has_joined = False
        self.is_closed = False
        self.faults = 0
        """The number of faults of its connection, which the test counts."""
        self._cluster = cluster
        self._sessions: list[ModelSession] = []
        self.fs = SimulatedDisk()
        overrides = {"log.dirs": "/data", "authorizer.class.name": ZOOKEEPER_AUTHORIZER, **settings}
        self.metadata = ZooKeeperMetadata(
            ZooKeeperMetadataSetup(
                fs=self.fs,
                config=BrokerConfig.load(overrides=overrides),
                node_id=node_id,
                directories=[Path("/data")],
                clock=cluster.clock,
                timers=cluster.timers,
                zookeeper=ZooKeeperSettings(address=ZooKeeperAddress(("host:2181",), "")),
                on_failure=cluster.failures.append,
                new_session=self._new_session,
            )
        )
        self.metadata._settings.random.seed(cluster.random.random())

    @property
    def session(self) -> ModelSession:
        return self._sessions[-1]

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    async def start(self) -> None:
        """Start as ``Broker`` does, without log directories. Close the metadata if that fails."""
        self.is_up = True
        try:
            await self.load()
            await self.metadata.start()
            await self.metadata.join(self.registration())
        except BaseException:
            await self.close()
            raise
        self.has_joined = True

    async def load(self) -> None:
        """Connect and read the metadata, without the background thread of ``format`` and ``load``."""
        await self.metadata._connect()
        self._cluster.on_start(self.session.session_id)
        await self.metadata._load()

    async def stop(self) -> None:
        """Shut down cleanly."""
        await self.metadata.hand_over()
        await self.metadata.leave()
        await self.close()

    async def close(self) -> None:
        self.is_up = self.has_joined = False
        await self.metadata.close()
        self.is_closed = True

    async def kill(self, executed: int = 0) -> None:
        """End the process at once. Its session ends later. The first ``executed`` requests that are under way take
        effect."""
        session_id = self.session.kill(executed)
        await self.close()
        self._cluster.loop.call_later(SESSION_MS / 1000, self._cluster.end_session, session_id)

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """Return the state of a partition in the published image."""
        found = self.image.partition(TopicPartition(topic, partition))
        assert found is not None, f"{topic}-{partition}"
        return found

    async def create(self, name: str, *assignments: tuple[int, ...], **configs: str) -> TopicResult:
        """Create a topic with these replicas."""
        wanted = NewTopic(
            name=name,
            assignments=list(enumerate(assignments)),
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        return (await self.metadata.create_topics([wanted]))[0]

    async def alter(self, topic: str, isr: Sequence[int], partition: int = 0) -> AlteredPartition:
        """Change the in-sync replicas of a partition, with the epochs of the published image."""
        state = self.state(topic, partition)
        alteration = PartitionAlteration(
            topic_id=self.image.topics[topic].id,
            partition=partition,
            isr=isr,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            broker_epochs=[self.image.brokers[one].epoch if one in self.image.brokers else -1 for one in isr],
        )
        return (await self.metadata.alter_partitions([alteration]))[0]

    def registration(self) -> OwnRegistration:
        return OwnRegistration(endpoints=[BrokerEndpoint("PLAINTEXT", f"host-{self.node_id}", 9092)], directories=[])

    def _new_session(
        self,
        settings: ZooKeeperSettings,
        *,
        on_event: Callable[[ZnodeEvent], None],
        on_state: Callable[[SessionState], None],
    ) -> ModelSession:
        self._sessions.append(ModelSession(self._cluster.zookeeper, on_event=on_event, on_state=on_state))
        return self.session


def write_znode(zookeeper: ModelZooKeeper, path: str, data: bytes | None) -> None:
    """Write a znode with its missing parents, or delete it with its children."""
    if data is None:
        for name in zookeeper.table.children(path) or ():
            write_znode(zookeeper, f"{path}/{name}", None)
        zookeeper.delete(path)
    else:
        zookeeper.write(path, data)


def image_of_tree(zookeeper: ModelZooKeeper) -> MetadataImage:
    """Return the image of a tree: topics whose deletion is requested are not in it, nor are topics without an id."""
    found = cluster_of(zookeeper)
    image = MetadataImage(cluster_id=found.cluster_id or "")
    brokers: dict[int, tuple[int, BrokerZnode]] = {}
    for broker_id, broker in found.brokers.items():
        znode = zookeeper.read(paths.broker(broker_id))
        assert znode is not None
        brokers[broker_id] = (znode.czxid, broker)
    for record in cluster_records(image, found, brokers):
        image.apply(record)
    for name in found.deleted_topics:
        if name in image.topics:
            topic = image.topics.pop(name)
            del image.topics_by_id[topic.id]
    return image


def parts_of(image: MetadataImage) -> dict[str, Any]:
    """Return the parts of an image that ZooKeeper keeps, in a form that can be compared. Settings of topics that do not
    exist are left out."""
    return {
        "cluster": image.cluster_id,
        "brokers": image.brokers,
        "topics": {name: (topic.id, topic.partitions) for name, topic in image.topics.items()},
        "configs": {
            one: found for one, found in image.configs.items() if one.type.name != "TOPIC" or one.name in image.topics
        },
        "quotas": image.client_quotas,
        "credentials": image.scram_credentials,
        "acls": set(image.acls.values()),
        "producer ids": image.next_producer_id,
    }


def on_cluster(test: Callable[[MetadataCluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test of a coroutine function that takes a cluster. It has virtual time. Every broker that still runs at
    the end is closed, and then no task is left. No broker may have failed."""

    async def work() -> None:
        cluster = MetadataCluster()
        try:
            await test(cluster)
        finally:
            await cluster.stop()
        assert not cluster.failures, cluster.failures

    def run() -> None:
        run_virtually(work)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
