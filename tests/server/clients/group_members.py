"""Group members of three client libraries with one interface: poll briefly, read the assignment, commit, close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka

from server.clients.adapters import known

TOPIC = "t"
POLL_S = 0.05
HEARTBEAT_MS = 200
"""A client notices a rebalance with its next heartbeat."""
_PYTHON = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": HEARTBEAT_MS}


class Member(Protocol):
    def poll(self) -> list[tuple[int, bytes]]:
        """Return partition and value of the received records."""
        ...

    def partitions(self) -> set[int]:
        """Return the assigned partitions."""
        ...

    def commit(self) -> None:
        """Commit the offsets of the records received so far."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class ConfluentMember:
    def __init__(self, bootstrap: str, group: str, **settings: Any) -> None:
        config: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        config |= {"enable.auto.commit": False, "log_level": 0}
        if settings.get("group.protocol") != "consumer":
            config["heartbeat.interval.ms"] = HEARTBEAT_MS
        self.consumer = confluent_kafka.Consumer(config | settings)
        self.consumer.subscribe([TOPIC])

    def poll(self) -> list[tuple[int, bytes]]:
        messages = self.consumer.consume(500, POLL_S)
        return [(known(message.partition()), known(message.value())) for message in messages if message.error() is None]

    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def commit(self) -> None:
        places = [one for one in self.consumer.position(self.consumer.assignment()) if one.offset >= 0]
        self.consumer.commit(offsets=places, asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonMember:
    """``poll`` has a long timeout: if a poll ends while the member is about to assign, kafka-python hangs forever."""

    def __init__(self, bootstrap: str, group: str, **settings: Any) -> None:
        given = {**_PYTHON, **settings}
        self.consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, **given)
        self.consumer.subscribe([TOPIC])

    def poll(self) -> list[tuple[int, bytes]]:
        found = self.consumer.poll(timeout_ms=10_000)
        return [(record.partition, record.value) for records in found.values() for record in records]

    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close()


class AiokafkaMember:
    def __init__(self, bootstrap: str, group: str, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        given = {**_PYTHON, **settings}

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(TOPIC, bootstrap_servers=bootstrap, group_id=group, **given)
            begun = asyncio.ensure_future(consumer.start())
            await asyncio.wait([begun], timeout=POLL_S)
            return consumer, begun

        self.consumer, self._begun = self._loop.run_until_complete(start())

    def poll(self) -> list[tuple[int, bytes]]:
        return self._loop.run_until_complete(self._poll())

    async def _poll(self) -> list[tuple[int, bytes]]:
        """The consumer's start waits for the group. This includes members that the test polls between two calls."""
        await asyncio.wait([self._begun], timeout=POLL_S)
        if not self._begun.done():
            return []
        found = await self.consumer.getmany(timeout_ms=int(POLL_S * 1000))
        return [(record.partition, record.value) for records in found.values() for record in records]

    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def commit(self) -> None:
        self._loop.run_until_complete(self.consumer.commit())

    def close(self) -> None:
        self._loop.run_until_complete(self.consumer.stop())
        self._loop.close()


MAKERS: dict[str, Callable[[str, str], Member]] = {
    "confluent, range": ConfluentMember,
    "confluent, cooperative-sticky": lambda bootstrap, group: ConfluentMember(
        bootstrap, group, **{"partition.assignment.strategy": "cooperative-sticky"}
    ),
    "confluent, roundrobin": lambda bootstrap, group: ConfluentMember(
        bootstrap, group, **{"partition.assignment.strategy": "roundrobin"}
    ),
    "confluent, consumer protocol": lambda bootstrap, group: ConfluentMember(
        bootstrap, group, **{"group.protocol": "consumer"}
    ),
    "aiokafka": AiokafkaMember,
}
