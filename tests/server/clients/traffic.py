"""A producer and a group member at the same time, with the libraries written in Python: all sent records must arrive.

One thread drives both. ``go_on`` sends some numbers, number n to partition n % PARTITIONS, then reads the records that
have arrived and commits their offsets. Between two calls, the libraries handle the records in flight.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import aiokafka
import kafka

from tidelog.testing.broker.loop_thread import PATIENCE_S

PARTITIONS = 2
AT_ONCE = 20
IN_FLIGHT = 500
POLL_S = 0.05
_PRODUCER = {"acks": "all", "enable_idempotence": True, "retry_backoff_ms": 10}
_CONSUMER = {"group_id": "group", "auto_offset_reset": "earliest", "enable_auto_commit": False, "retry_backoff_ms": 10}


class Traffic(Protocol):
    topic: str
    sent: int
    acknowledged: set[int]
    received: list[int]

    def go_on(self, *, is_last: bool = False) -> None:
        """Send and receive records. If ``is_last``, only receive the remaining records."""
        ...

    def finish(self) -> None:
        """Wait until all sent records are acknowledged."""
        ...

    def committed(self) -> list[int]:
        """Return the group's committed offsets by partition."""
        ...

    def close(self) -> None: ...


class KafkaPythonTraffic:
    """``poll`` has a long timeout: if a poll ends while the member is about to assign, kafka-python hangs forever."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.received: list[int] = []
        self._open: dict[int, Any] = {}
        self._producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **_PRODUCER)
        self._consumer = kafka.KafkaConsumer(topic, bootstrap_servers=bootstrap, **_CONSUMER)

    def go_on(self, *, is_last: bool = False) -> None:
        if not is_last and len(self._open) < IN_FLIGHT:
            for number in range(self.sent, self.sent + AT_ONCE):
                self._open[number] = self._producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
            self.sent += AT_ONCE
        found = self._consumer.poll(timeout_ms=10_000)
        self.received += [int(record.value) for records in found.values() for record in records]
        if found:
            self._consumer.commit()
        self._note_acknowledged([number for number, future in self._open.items() if future.is_done])

    def finish(self) -> None:
        self._note_acknowledged(list(self._open))

    def _note_acknowledged(self, numbers: list[int]) -> None:
        """Wait for the acknowledgments of these numbers."""
        for number in numbers:
            self._open.pop(number).get(PATIENCE_S)
            self.acknowledged.add(number)

    def committed(self) -> list[int]:
        return [self._consumer.committed(kafka.TopicPartition(self.topic, one)) for one in range(PARTITIONS)]

    def close(self) -> None:
        self._producer.close(timeout=PATIENCE_S)
        self._consumer.close()


class AiokafkaTraffic:
    """The clients run on their own event loop, which stands still between two calls."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.received: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._open: dict[asyncio.Future[Any], int] = {}

        async def start() -> tuple[Any, Any]:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **_PRODUCER)
            consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **_CONSUMER)
            await producer.start()
            await consumer.start()
            return producer, consumer

        self._producer, self._consumer = self._run(start())

    def go_on(self, *, is_last: bool = False) -> None:
        self._run(self._go_on(is_last))

    async def _go_on(self, is_last: bool) -> None:
        if not is_last and len(self._open) < IN_FLIGHT:
            for number in range(self.sent, self.sent + AT_ONCE):
                future = await self._producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
                self._open[future] = number
            self.sent += AT_ONCE
        found = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000))
        self.received += [int(record.value) for records in found.values() for record in records]
        if found:
            await self._consumer.commit()
        self._note_acknowledged()

    def finish(self) -> None:
        self._run(asyncio.wait(self._open) if self._open else asyncio.sleep(0))
        self._note_acknowledged()

    def _note_acknowledged(self) -> None:
        for future in [one for one in self._open if one.done()]:
            future.result()
            self.acknowledged.add(self._open.pop(future))

    def committed(self) -> list[int]:
        places = [aiokafka.TopicPartition(self.topic, one) for one in range(PARTITIONS)]
        return [self._run(self._consumer.committed(place)) for place in places]

    def close(self) -> None:
        self._run(self._producer.stop())
        self._run(self._consumer.stop())
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))
