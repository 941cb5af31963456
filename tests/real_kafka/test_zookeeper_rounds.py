"""A cluster on ZooKeeper loses no acknowledged record while brokers, controllers, ZooKeeper and sessions end."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_kafka.cluster_node import Program
from real_kafka.zookeeper_rounds import KINDS, run_zookeeper_rounds

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(7200)]

ROUNDS = 100


def test_kafka_itself_passes(tmp_path: Path) -> None:
    """The checks hold for Kafka 3.9, so they are Kafka's promises."""
    run_zookeeper_rounds(tmp_path, len(KINDS), servers=1, program=Program.KAFKA)


def test_every_fault_once(tmp_path: Path) -> None:
    run_zookeeper_rounds(tmp_path, len(KINDS), servers=1)


@pytest.mark.parametrize("servers", [1, 3])
def test_nothing_acknowledged_is_lost(tmp_path: Path, servers: int) -> None:
    run_zookeeper_rounds(tmp_path, ROUNDS, servers=servers, seed=servers)
