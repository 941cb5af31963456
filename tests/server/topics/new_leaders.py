"""Count refused ListOffsets requests to leaders that Metadata has just named, for any broker.

A client has two connections. The first creates a topic. The second repeats Metadata until all partitions have leaders,
possibly before the first has its response, and immediately asks for the end offsets.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.schemas import Struct
from tidelog.testing.broker.loop_thread import PATIENCE_S

_LATEST = -1


class Shape(NamedTuple):
    """The number of topics, of partitions in each topic, and of clients that create topics at the same time."""

    topics: int
    partitions: int
    clients: int


SHAPES = (Shape(100, 1, 1), Shape(300, 1, 6), Shape(80, 12, 1))


def refusals(port: int, shape: Shape) -> int:
    """Return the number of topics with a refused request for at least one partition."""
    names = [f"{shape.topics}-{shape.partitions}-{shape.clients}-{number}" for number in range(shape.topics)]
    with ThreadPoolExecutor(shape.clients) as clients:
        counts = [
            clients.submit(_refusals, port, names[number :: shape.clients], shape.partitions)
            for number in range(shape.clients)
        ]
        return sum(count.result(PATIENCE_S) for count in counts)


def _refusals(port: int, names: list[str], partitions: int) -> int:
    with WireClient(port) as maker, WireClient(port) as reader:
        return sum(_is_refused(maker, reader, name, partitions) for name in names)


def _is_refused(maker: WireClient, reader: WireClient, name: str, partitions: int) -> bool:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    sent = maker.send(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=60_000)
    while not _all_led(reader, name, partitions):
        pass
    parts = [{"partition_index": number, "timestamp": _LATEST} for number in range(partitions)]
    asked = [{"name": name, "partitions": parts}]
    answered = reader.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=asked).topics
    (made,) = maker.receive(ApiKey.CREATE_TOPICS, 7, sent).topics
    assert made.error_code == 0
    return any(part.error_code for part in answered[0].partitions)


def _all_led(reader: WireClient, name: str, partitions: int) -> bool:
    found: Struct = reader.call(ApiKey.METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics[0]
    return len(found.partitions) == partitions and all(part.leader_id >= 0 for part in found.partitions)
