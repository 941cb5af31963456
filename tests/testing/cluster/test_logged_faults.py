"""docs/cluster.md: the table of log lines. A cluster has each fault, and its log has the line."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from project.tree import ROOT
from tidelog.model import ConfigError
from tidelog.testing import Cluster
from tidelog.testing.broker.loop_thread import PATIENCE_S
from tidelog.testing.cluster.cluster_nodes import ClusterBroker

PAGE = (ROOT / "docs" / "cluster.md").read_text()
TABLE = PAGE.partition("## What the logs say\n")[2].partition("\n## ")[0]
LINES = re.findall(r"^\| [A-Z].*? \| .*? \| `(.+?)` \|$", TABLE, flags=re.MULTILINE)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create_topic("orders", assignments=[[1, 2, 3]])
        yield running


def produce(cluster: Cluster, acks: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": acks, "log_level": 0})
    producer.produce("orders", b"order")
    assert producer.flush(PATIENCE_S) == 0


def pattern_of(line: str) -> re.Pattern[str]:
    """Return the pattern of a line in which numbers, and the text at ``…``, may differ."""
    return re.compile(re.sub(r"\d+", r"\\d+", ".*".join(map(re.escape, line.split("…")))))


def have_all_faults(cluster: Cluster, directory: Path, messages: Callable[[], list[str]]) -> None:
    """Cause the events of the table."""
    # The leader dies with a record that no follower has.
    produce(cluster, "all")
    cluster.disconnect(2, 1, one_way=True)
    cluster.disconnect(3, 1, one_way=True)
    produce(cluster, "1")
    cluster.brokers[1].kill()
    cluster.heal()
    cluster.wait_for_leader("orders")
    cluster.brokers[1].start()
    cluster.wait_until_in_sync()
    # A clean shutdown, and a follower that does not reach its leader.
    cluster.brokers[2].restart()
    cluster.wait_until_in_sync()
    cluster.brokers[3].restart()
    cluster.wait_until_in_sync()
    leader = cluster.leader("orders")
    cluster.disconnect(leader, 2 if leader != 2 else 1)
    produce(cluster, "all")
    cluster.wait_for(lambda: len(cluster._image.topics["orders"].partitions[0].isr) == 2)
    cluster.heal()
    cluster.wait_until_in_sync()
    # The controller is away, and back.
    known = len(messages())
    cluster.controller.kill()
    cluster.wait_for(lambda: any(one.startswith("The BrokerHeartbeat of") for one in messages()[known:]))
    cluster.controller.start()
    # Another broker has the same id.
    cluster.brokers[1]._setup.configs["initial.broker.registration.timeout.ms"] = "1000"  # type: ignore[index]
    second = ClusterBroker(1, directory, cluster.brokers[1]._setup)
    second.format(cluster.call(lambda: cluster._image.cluster_id))
    with pytest.raises(ConfigError, match=re.escape("initial.broker.registration.timeout.ms")):
        second.start()
    second.release()


@pytest.mark.slow
def test_each_event_has_its_line(cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidelog")

    def messages() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    def missing() -> list[str]:
        found = messages()
        return [line for line in LINES if not any(map(pattern_of(line).fullmatch, found))]

    have_all_faults(cluster, tmp_path / "second", messages)
    assert len(LINES) == 10
    cluster.wait_for(lambda: not missing())
