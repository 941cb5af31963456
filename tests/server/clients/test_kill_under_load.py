"""A broker's process is killed repeatedly while producers continue: acknowledged records survive each kill.

======================  ==================================================================
producer                state after any number of kills
======================  ==================================================================
idempotent, acks=all    every record exists once, in the sequence in which it was sent
plain, acks=all         every acknowledged record exists, some perhaps twice
======================  ==================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from server.lasting_server import Lasting, LastingServer
from tidelog import open_directory
from tidelog.testing.broker.loop_thread import PATIENCE_S

PARTITIONS = 3
ACKNOWLEDGED_A_ROUND = 300
IN_FLIGHT = 2000
PADDING = b"x" * 1000
"""The padding makes segments roll."""
SEGMENT_BYTES = "1048576"


class Load:
    """A producer of the numbers from 0 on. It sends number n to partition n % PARTITIONS."""

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: set[int] = set()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 1,
                "retry.backoff.ms": 10,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "log_level": 0,
            }
            | settings
        )

    def go_on(self) -> None:
        """Send more records unless too many are in flight, and process acknowledgments."""
        for _ in range(20):
            if self.sent - len(self.acknowledged) < IN_FLIGHT:
                value = b"%d %s" % (self.sent, PADDING)
                partition = self.sent % PARTITIONS
                self._producer.produce(self.topic, value, partition=partition, on_delivery=self._on_delivery)
                self.sent += 1
        self._producer.poll(0.001)

    def finish(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0
        assert self.acknowledged == set(range(self.sent))

    def _on_delivery(self, error: Any, message: Message) -> None:
        assert error is None, f"{self.topic}: {error}"
        self.acknowledged.add(number_of(message.value()))


def keep_on(loads: list[Load], until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, [len(load.acknowledged) for load in loads]
        for load in loads:
            load.go_on()


def have_reached(loads: list[Load], goals: list[int]) -> bool:
    return all(len(load.acknowledged) >= goal for load, goal in zip(loads, goals, strict=True))


def number_of(value: bytes | None) -> int:
    return int((value or b"").partition(b" ")[0])


def numbers(directory: Path, topic: str) -> list[list[int]]:
    """Return the numbers in the log of each partition."""
    with open_directory(directory, read_only=True) as logs:
        return [
            [number_of(record.value) for record in logs.log(topic, number).records(until="log_end")]
            for number in range(PARTITIONS)
        ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LastingServer]:
    with LastingServer(tmp_path, log_segment_bytes=SEGMENT_BYTES) as running:
        yield running


@pytest.mark.parametrize("rounds", [5, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_what_was_acknowledged_outlives_kills(server: Lasting, rounds: int) -> None:
    loads = [
        Load(server.bootstrap_servers, "idempotent", **{"enable.idempotence": True}),
        Load(server.bootstrap_servers, "plain", **{"enable.idempotence": False}),
    ]
    make_topics(server.bootstrap_servers, [load.topic for load in loads])
    server.settle()
    for _ in range(rounds):
        goals = [len(load.acknowledged) + ACKNOWLEDGED_A_ROUND for load in loads]
        keep_on(loads, partial(have_reached, loads, goals))
        server.kill()
        server.start()
    for load in loads:
        load.finish()
    server.kill()
    idempotent, plain = loads
    for directory in server.directories:
        for partition, found in enumerate(numbers(directory, "idempotent")):
            assert found == list(range(partition, idempotent.sent, PARTITIONS))
        for partition, found in enumerate(numbers(directory, "plain")):
            assert set(found) == set(range(partition, plain.sent, PARTITIONS))


def make_topics(bootstrap: str, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS) for name in names]).values():
        future.result(PATIENCE_S)
