"""A controller alone in this process, and a broker of another process as its requests."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self, TypeVar

from server.harness import WireClient
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.server.controller_node import ControllerNode
from tidelog.server.dispatcher import ControllerDispatcher
from tidelog.server.metadata.features import SUPPORTED
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.testing.broker.kept_port import keep_port
from tidelog.testing.broker.loop_thread import LoopThread

T = TypeVar("T")
METADATA_TOPIC_ID = uuid.UUID(int=1)
SHORT_SESSION = {"broker_session_timeout_ms": "700"}
"""Settings for tests that wait until a silent broker is fenced."""


class ControllerHome:
    """A controller that tests start, stop and start again. Settings are Kafka's keys with ``_`` for ``.``."""

    node: ControllerNode

    def __init__(self, directory: Path, **settings: str) -> None:
        self._place = keep_port()
        self.port: int = self._place.getsockname()[1]
        self.clock: Clock = SYSTEM_CLOCK
        """The clock from the next start on."""
        self._thread = LoopThread()
        self._settings = {
            "process.roles": "controller",
            "node.id": "100",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "log.dirs": str(directory),
            "broker.session.timeout.ms": "60000",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.stop()
        self._place.close()

    def start(self) -> None:
        self.node = ControllerNode(BrokerConfig.load(overrides=self._settings), ControllerDispatcher, clock=self.clock)
        self._thread.run(self.node.start)

    def stop(self) -> None:
        self._thread.run(self.node.stop)

    def client(self) -> WireClient:
        return WireClient(self.port)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the controller's event loop."""
        return self._thread.call(function)

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine function on the controller's event loop."""
        return self._thread.run(work)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        self._thread.wait_for(is_so)

    @property
    def cluster_id(self) -> str:
        return self.node.metadata.image.cluster_id

    @property
    def leader_epoch(self) -> int:
        return self.call(lambda: self.node.quorum_controller.quorum.epoch)

    @property
    def end_offset(self) -> int:
        return self.call(lambda: self.node.quorum_controller.quorum.high_watermark)

    def partition(self, topic: str, number: int = 0) -> PartitionState:
        return self.call(lambda: self.node.metadata.image.topics[topic].partitions[number])

    def is_fenced(self, broker_id: int) -> bool:
        return self.call(lambda: self.node.metadata.image.brokers[broker_id].is_fenced)


class RemoteBroker:
    """A broker that sends the requests that a test asks for."""

    def __init__(self, home: ControllerHome, number: int) -> None:
        self.home = home
        self.number = number
        self.client = home.client()
        self.incarnation_id = uuid.uuid4()
        self.directory_id = uuid.UUID(int=1000 + number)
        self.epoch = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def register(self, version: int | None = None, **values: Any) -> Struct:
        """Register, and keep the epoch. ``values`` replace fields of the request."""
        fields = {
            "broker_id": self.number,
            "cluster_id": self.home.cluster_id,
            "incarnation_id": self.incarnation_id,
            "listeners": [{"name": "CLIENT", "host": "127.0.0.1", "port": 9000 + self.number, "security_protocol": 0}],
            "features": [
                {"name": name, "min_supported_version": levels.oldest, "max_supported_version": levels.latest}
                for name, levels in SUPPORTED.items()
            ],
            "rack": None,
            "log_dirs": [self.directory_id],
            **values,
        }
        response = self.client.call(ApiKey.BROKER_REGISTRATION, version, **fields)
        if response.error_code == ErrorCode.NONE:
            self.epoch = response.broker_epoch
        return response

    def heartbeat(self, **values: Any) -> Struct:
        """Send a heartbeat of a broker that has applied everything."""
        fields = {
            "broker_id": self.number,
            "broker_epoch": self.epoch,
            "current_metadata_offset": self.home.end_offset - 1,
            "want_fence": False,
            "want_shut_down": False,
            "offline_log_dirs": [],
            **values,
        }
        return self.client.call(ApiKey.BROKER_HEARTBEAT, **fields)

    def join(self) -> Self:
        """Register and become unfenced."""
        assert self.register().error_code == ErrorCode.NONE
        assert not self.heartbeat().is_fenced
        return self

    def alter_partition(self, topic: str, isr: list[tuple[int, int]], **values: Any) -> Struct:
        """Propose in-sync replicas with their broker epochs, and return the partition's response, or the top level's
        if that has an error."""
        state = self.home.partition(topic)
        topic_id = self.home.call(lambda: self.home.node.metadata.image.topics[topic].id)
        partition = {
            "partition_index": 0,
            "leader_epoch": state.leader_epoch,
            "new_isr_with_epochs": [{"broker_id": broker, "broker_epoch": epoch} for broker, epoch in isr],
            "leader_recovery_state": 0,
            "partition_epoch": state.partition_epoch,
            **values,
        }
        response = self.client.call(
            ApiKey.ALTER_PARTITION,
            broker_id=self.number,
            broker_epoch=self.epoch,
            topics=[{"topic_id": topic_id, "partitions": [partition]}],
        )
        return response if response.error_code else response.topics[0].partitions[0]

    def fetch(self, version: int | None = None, *, cluster_id: str | None = None, **values: Any) -> Struct:
        """Fetch the metadata log."""
        part = {
            "partition": 0,
            "current_leader_epoch": self.home.leader_epoch,
            "fetch_offset": 0,
            "last_fetched_epoch": 0,
            "log_start_offset": 0,
            "partition_max_bytes": 0,
        }
        own = {"max_wait": values.pop("max_wait", 0), "topic_id": values.pop("topic_id", METADATA_TOPIC_ID)}
        return self.client.call(
            ApiKey.FETCH,
            version,
            cluster_id=cluster_id,
            replica_state={"replica_id": self.number, "replica_epoch": -1},
            max_wait=own["max_wait"],
            min_bytes=0,
            topics=[{"topic_id": own["topic_id"], "partitions": [{**part, **values}]}],
            forgotten_topics_data=[],
            rack_id="",
        )


def create_topic(home: ControllerHome, name: str, replicas: list[int]) -> None:
    """Create a topic of one partition on these brokers, as an administrator does at the controller (KIP-919)."""
    with home.client() as client:
        (result,) = client.call(
            ApiKey.CREATE_TOPICS,
            topics=[
                {
                    "name": name,
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [{"partition_index": 0, "broker_ids": replicas}],
                    "configs": [],
                }
            ],
            timeout=10_000,
            validate_only=False,
        ).topics
    assert result.error_code == ErrorCode.NONE, result
