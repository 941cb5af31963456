"""A broker of tidelog in the test's loop whose controllers are scripted, and a client of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from server.metadata.observer.scripted_controller import CLUSTER, PATIENCE_S
from tidelog.client import Address, Connection, open_connection
from tidelog.client.connection.client_settings import ClientSettings
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import Record, TimestampType
from tidelog.protocol.api_key import ApiKey
from tidelog.record.build import build_batch
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.broker import Broker
from tidelog.server.forwarding_dispatcher import ForwardingDispatcher
from tidelog.server.metadata.kraft.formatting import FormatRequest, format_directories
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.storage.checkpoint import uuid_to_text
from tidelog.storage.fs import LOCAL

BROKER = 7


class Addressed(Protocol):
    @property
    def address(self) -> str:
        """The address ``HOST:PORT`` of a controller."""
        ...


def broker_config(directory: Path, controllers: Sequence[Addressed], **settings: str) -> BrokerConfig:
    texts = {
        "node.id": str(BROKER),
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": ",".join(one.address for one in controllers),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(directory),
        "broker.rack": "r",
        "broker.heartbeat.interval.ms": "1000",
        "initial.broker.registration.timeout.ms": "20000",
        "num.io.threads": "1",
        **{key.replace("_", "."): text for key, text in settings.items()},
    }
    return BrokerConfig.load(overrides=texts)


def format_directory(config: BrokerConfig, cluster_id: str = CLUSTER, node_id: int = BROKER) -> None:
    paths = tuple(map(Path, config.log_dirs))
    request = FormatRequest(
        node_id=node_id,
        directories=paths,
        metadata_directory=paths[0],
        controller=None,
        cluster_id=cluster_id,
        is_controller=False,
    )
    format_directories(LOCAL, request, SYSTEM_CLOCK)


@asynccontextmanager
async def joined(
    directory: Path, *controllers: Addressed, cluster_id: str = CLUSTER, **settings: str
) -> AsyncIterator[Broker]:
    """Yield a running broker. It is stopped at the end, unless the test has stopped it."""
    config = broker_config(directory, controllers, **settings)
    format_directory(config, cluster_id)
    broker = Broker(config, ForwardingDispatcher)
    await asyncio.wait_for(broker.start(), PATIENCE_S)
    try:
        yield broker
    finally:
        await asyncio.wait_for(broker.stop(), PATIENCE_S)


async def start_error(config: BrokerConfig) -> BaseException | None:
    """Start a broker, and return the error. The broker is stopped."""
    broker = Broker(config, ForwardingDispatcher)
    try:
        await asyncio.wait_for(broker.start(), PATIENCE_S)
    except Exception as error:
        return error
    await broker.stop()
    return None


@asynccontextmanager
async def client_of(broker: Broker) -> AsyncIterator[Connection]:
    address = Address("127.0.0.1", broker.listeners[0].port)
    connection = await open_connection(address, ClientSettings(bootstrap=(address,), client_id="test"))
    try:
        yield connection
    finally:
        connection.close()


def topic_records(name: str, number: int = 1, partitions: int = 1) -> list[MetadataRecord]:
    """Return the records of a topic whose partitions are on the broker alone."""
    topic_id = uuid_to_text(uuid.UUID(int=1000 + number))
    state = PartitionState(replicas=(BROKER,), isr=(BROKER,), leader=BROKER, directories=(uuid.UUID(int=1),))
    parts = [{"partitionId": one, "topicId": topic_id, **state.fields()} for one in range(partitions)]
    topic = MetadataRecord("TopicRecord", {"name": name, "topicId": topic_id})
    return [topic, *(MetadataRecord("PartitionRecord", part) for part in parts)]


def removal(number: int = 1) -> MetadataRecord:
    return MetadataRecord("RemoveTopicRecord", {"topicId": uuid_to_text(uuid.UUID(int=1000 + number))})


async def until(is_so: Callable[[], bool]) -> None:
    """Return once the condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.005)


async def produce(client: Connection, topic: str, value: bytes) -> Any:
    """Return the response's partition."""
    batch = build_batch([Record(0, 1, TimestampType.CREATE, None, value)], base_offset=0)
    data = {"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}
    values = {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": [data]}
    response = await client.send(ApiKey.PRODUCE, values, at_most=12)
    return response.responses[0].partition_responses[0]
