"""Stopping and killing a broker's process loses and duplicates no record of clients written in Python.

The producers are idempotent, so the log contains every number once and in sequence. The group's member continues at its
position, and its commits match the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from server.clients.traffic import PARTITIONS, AiokafkaTraffic, KafkaPythonTraffic, Traffic
from server.lasting_server import Lasting, LastingServer
from tidelog import open_directory
from tidelog.testing.broker.loop_thread import PATIENCE_S

A_ROUND = 200


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LastingServer]:
    with LastingServer(tmp_path) as running:
        yield running


@pytest.mark.parametrize("rounds", [1, pytest.param(15, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
@pytest.mark.parametrize("library", [KafkaPythonTraffic, AiokafkaTraffic])
def test_traffic_outlives_the_ends_of_its_broker(
    server: Lasting, library: Callable[[str, str], Traffic], rounds: int
) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(PATIENCE_S)
    server.settle()
    traffic = library(server.bootstrap_servers, "t")
    try:
        for end in (server.kill, server.stop) * rounds:
            goal = len(set(traffic.received)) + A_ROUND
            keep_on(traffic, partial(has_received, traffic, goal))
            end()
            server.start()
        keep_on(traffic, lambda: set(traffic.received) == set(range(traffic.sent)), is_last=True)
        traffic.finish()
        assert traffic.acknowledged == set(range(traffic.sent))
        ends = [len(range(partition, traffic.sent, PARTITIONS)) for partition in range(PARTITIONS)]
        assert traffic.committed() == ends
    finally:
        traffic.close()
    for directory in server.directories:
        with open_directory(directory, read_only=True) as logs:
            for partition in range(PARTITIONS):
                records = logs.log("t", partition).records(until="log_end")
                assert [int(record.value or b"") for record in records] == [*range(partition, traffic.sent, PARTITIONS)]
    assert len(traffic.received) == traffic.sent, "what was read before it was committed was read once"


def has_received(traffic: Traffic, count: int) -> bool:
    return len(set(traffic.received)) >= count


def keep_on(traffic: Traffic, until: Callable[[], bool], *, is_last: bool = False) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, (traffic.sent, len(traffic.acknowledged), len(traffic.received))
        traffic.go_on(is_last=is_last)
