"""Clusters of Kafka and of tidelog lose no acknowledged record while the network between their nodes fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from real_kafka.cluster import BROKERS, CONTROLLER
from real_kafka.cluster_node import Program
from real_kafka.cluster_rounds import OF_TIDELOG
from real_kafka.network_faults import FAULTS, run_fault_rounds

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(7200)]

ROUNDS = 50


def test_kafka_itself_passes(tmp_path: Path) -> None:
    """The checks hold for Kafka, so they are Kafka's promises."""
    run_fault_rounds(tmp_path, len(FAULTS), programs={})


@pytest.mark.parametrize(
    ("programs", "controllers"),
    [
        pytest.param(OF_TIDELOG, (CONTROLLER,), id="all tidelog"),
        pytest.param(dict.fromkeys(BROKERS, Program.TIDELOG), (100, 101, 102), id="tidelog under JVM controllers"),
    ],
)
def test_nothing_acknowledged_is_lost(
    tmp_path: Path, programs: Mapping[int, Program], controllers: Sequence[int]
) -> None:
    done = run_fault_rounds(tmp_path, ROUNDS, programs=programs, controllers=controllers)
    assert set(done) == set(FAULTS)
