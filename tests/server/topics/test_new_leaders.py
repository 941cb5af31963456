"""A leader that Metadata names serves immediately. Kafka's may refuse requests for a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_kafka.broker import Broker
from server.harness import BrokerHome, running_broker
from server.topics.new_leaders import SHAPES, Shape, refusals


def name_of(shape: Shape) -> str:
    return "{} topics of {} by {}".format(*shape)


def test_a_leader_that_is_named_refuses_nothing(home: BrokerHome) -> None:
    assert refusals(home.port, Shape(topics=40, partitions=3, clients=2)) == 0


@pytest.mark.slow
@pytest.mark.kafka
def test_it_refuses_no_more_often_than_kafkas(tmp_path: Path) -> None:
    with running_broker(tmp_path / "ours") as home:
        ours = {shape: refusals(home.port, shape) for shape in SHAPES}
    with Broker(tmp_path / "theirs", work=tmp_path / "work", quick=False) as kafka:
        kafka.format()
        kafka.start()
        port = int(kafka.bootstrap.rpartition(":")[2])
        theirs = {shape: refusals(port, shape) for shape in SHAPES}
        kafka.stop()
    for shape in SHAPES:
        print(f"{name_of(shape)}: {ours[shape]} refused here, {theirs[shape]} by Kafka")
    assert [shape for shape in SHAPES if ours[shape] > theirs[shape]] == []
