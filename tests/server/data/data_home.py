"""A broker with topics, and the requests that tests of its data often send over the wire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from log_maker import BASE_TIME, batch
from server.harness import BrokerHome, WireClient, running_broker
from tidelog.kernel import scan_batches
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.schemas import Struct
from tidelog.server.metadata.requests import NewTopic
from tidelog.server.replicas.partition import Partition
from tidelog.testing.broker.loop_thread import PATIENCE_S

WITH_NAMES = 12
"""The last version of Produce and Fetch that contains topic names."""
ALL = -1


class DataHome:
    def __init__(self, home: BrokerHome, client: WireClient) -> None:
        self.home = home
        self.client = client

    # --- topics ---

    def create(self, name: str = "t", partitions: int = 1, **configs: str) -> UUID:
        configs = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=configs)
        (result,) = self.home.run(lambda: self.home.broker.controller.create_topics([new]))
        assert not result.error, result
        assert result.topic_id is not None
        return result.topic_id

    def delete(self, name: str = "t") -> None:
        (result,) = self.home.run(lambda: self.home.broker.controller.delete_topics([name]))
        assert not result.error, result

    def partition(self, name: str = "t", number: int = 0) -> Partition:
        return self.home.broker.replicas.partition(TopicPartition(name, number))

    def assign(self, *others: int, are_in_sync: bool = False, topic: str = "t", number: int = 0) -> None:
        """Give a partition more replicas than its leader, as newer metadata would. Call it on the event loop."""
        state = self.home.broker.metadata.image.topics[topic].partitions[number]
        replicas = (state.leader, *others)
        isr = replicas if are_in_sync else state.isr
        epoch = state.partition_epoch + 1
        self.partition(topic, number).update(replace(state, replicas=replicas, isr=isr, partition_epoch=epoch))

    @property
    def leader_epoch(self) -> int:
        return self.home.call(lambda: self.partition().leader_epoch)

    # --- producing ---

    def send_produce(
        self,
        records: bytes | bytearray | None,
        topic: str = "t",
        number: int = 0,
        *,
        acks: int = ALL,
        version: int = WITH_NAMES,
        client: WireClient | None = None,
        timeout: int = 30_000,
        transactional_id: str | None = None,
    ) -> int:
        topics = [{"name": topic, "partition_data": [{"index": number, "records": records}]}]
        return (client or self.client).send(
            ApiKey.PRODUCE, version, acks=acks, timeout=timeout, topic_data=topics, transactional_id=transactional_id
        )

    def produce(self, records: bytes | bytearray | None, topic: str = "t", number: int = 0, **options: Any) -> Struct:
        """Return the partition's part of the response."""
        version = options.get("version", WITH_NAMES)
        sent = self.send_produce(records, topic, number, **options)
        response = (options.get("client") or self.client).receive(ApiKey.PRODUCE, version, sent)
        answer: Struct = response.responses[0].partition_responses[0]
        return answer

    def append(self, *values: bytes, topic: str = "t", number: int = 0) -> int:
        """Return the first value's offset."""
        answer = self.produce(records(*values), topic, number)
        assert answer.error_code == 0, answer
        offset: int = answer.base_offset
        return offset

    # --- fetching ---

    def fetch(self, topic: str = "t", number: int = 0, offset: int = 0, **options: Any) -> Struct:
        """Return the partition's part of the response."""
        response = self.fetch_many({(topic, number): offset}, **options)
        assert response.error_code == 0, response
        answer: Struct = response.responses[0].partitions[0]
        return answer

    def fetch_many(self, offsets: Mapping[tuple[str, int], int], **options: Any) -> Struct:
        version, sent = self.send_fetch(offsets, **options)
        return (options.get("client") or self.client).receive(ApiKey.FETCH, version, sent)

    def send_fetch(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        version: int = WITH_NAMES,
        client: WireClient | None = None,
        partition_max_bytes: int = 1 << 20,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        **options: Any,
    ) -> tuple[int, int]:
        """Return the version and the correlation id."""
        topics = [
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": number,
                        "fetch_offset": offset,
                        "partition_max_bytes": partition_max_bytes,
                        "current_leader_epoch": current_leader_epoch,
                        "last_fetched_epoch": last_fetched_epoch,
                    }
                ],
            }
            for (topic, number), offset in offsets.items()
        ]
        values = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, **options}
        return version, (client or self.client).send(ApiKey.FETCH, version, topics=topics, **values)


@contextmanager
def data_home(directory: Path, **settings: str) -> Iterator[DataHome]:
    with running_broker(directory, **settings) as home, home.client() as client:
        yield DataHome(home, client)


def eventually(condition: Callable[[], bool]) -> None:
    """Return when the condition holds."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.002)


def records(*values: bytes, **fields: Any) -> bytes:
    """Return one batch as a producer sends it."""
    return batch(0, values or (b"value",), timestamp=BASE_TIME, **fields)


def offsets_in(data: bytes) -> list[int]:
    """Return the offsets in complete batches."""
    table = scan_batches(data)
    return [offset for row in table.rows() for offset in range(row.base_offset, row.last_offset + 1)]


def codes(answers: Sequence[Struct]) -> list[int]:
    return [answer.error_code for answer in answers]
