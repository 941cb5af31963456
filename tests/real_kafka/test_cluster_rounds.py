"""Clusters of Kafka, of tidelog and of both lose no acknowledged record while their nodes are killed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from real_kafka.cluster import BROKERS, CONTROLLER
from real_kafka.cluster_node import Program
from real_kafka.cluster_rounds import KINDS, OF_TIDELOG, change_program, cluster_under_traffic, run_rounds

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(7200)]

ROUNDS = 50
THREE_CONTROLLERS = (100, 101, 102)


def of_tidelog(*numbers: int) -> dict[int, Program]:
    return dict.fromkeys(numbers, Program.TIDELOG)


def test_kafka_itself_passes(tmp_path: Path) -> None:
    """The checks hold for Kafka, so they are Kafka's promises."""
    run_rounds(tmp_path, len(KINDS), programs={})


@pytest.mark.parametrize(
    ("programs", "controllers"),
    [
        pytest.param(OF_TIDELOG, (CONTROLLER,), id="all tidelog"),
        pytest.param(of_tidelog(CONTROLLER, 1), (CONTROLLER,), id="two JVM brokers under tidelog's controller"),
        pytest.param(of_tidelog(1, 2), THREE_CONTROLLERS, id="one JVM broker under JVM controllers"),
        pytest.param(of_tidelog(*BROKERS), THREE_CONTROLLERS, id="all brokers tidelog under JVM controllers"),
    ],
)
def test_nothing_acknowledged_is_lost(
    tmp_path: Path, programs: Mapping[int, Program], controllers: Sequence[int]
) -> None:
    run_rounds(tmp_path, ROUNDS, programs=programs, controllers=controllers)


@pytest.mark.parametrize(
    ("programs", "numbers", "controllers"),
    [
        pytest.param({}, BROKERS, THREE_CONTROLLERS, id="brokers under JVM controllers"),
        pytest.param(of_tidelog(CONTROLLER), BROKERS, (CONTROLLER,), id="brokers under tidelog's controller"),
        pytest.param({}, (*BROKERS, CONTROLLER), (CONTROLLER,), id="brokers, and then their controller"),
    ],
)
def test_a_rolling_change_reaches_no_client(
    tmp_path: Path, programs: Mapping[int, Program], numbers: Sequence[int], controllers: Sequence[int]
) -> None:
    """The nodes are Kafka's at first, become tidelog's one after the other, and then Kafka's again."""
    with cluster_under_traffic(tmp_path, programs=programs, controllers=controllers) as (cluster, traffic):
        change_program(cluster, traffic, numbers, Program.TIDELOG)
        change_program(cluster, traffic, numbers, Program.KAFKA)
    assert traffic.errors == []
