"""A broker with a ZooKeeper that is away, slow, or full of junk: clear lines, nothing lost, nothing served in doubt."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewTopic
from kazoo.client import KazooClient

from real_kafka.cluster import PATIENCE_S
from real_kafka.cluster_node import Node
from real_kafka.cluster_on_zookeeper import CHROOT, SESSION_S, ClusterOnZooKeeper
from served_records import served_entries
from tidelog.server.metadata.zookeeper import paths

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ALONE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
CONNECTION_S: Final = 4.0
"""The timeout of the connection in a test that waits for it."""
TOO_MANY: Final = 250_001
"""More children than a znode of Kafka has."""
A_TRANSACTION: Final = 1000
"""The znodes that one request creates."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterOnZooKeeper]:
    with ClusterOnZooKeeper(tmp_path, brokers=(1,), properties=ALONE) as cluster:
        cluster.start()
        cluster.create_topic("t", partitions=2, replicas=1)
        cluster.create_topic("other", partitions=1, replicas=1)
        write(cluster, "t", 100)
        write(cluster, "other", 100)
        yield cluster


def write(cluster: ClusterOnZooKeeper, topic: str, count: int) -> None:
    errors: list[object] = []
    producer = Producer(
        {"bootstrap.servers": cluster.direct, "enable.idempotence": True, "message.timeout.ms": PATIENCE_S * 1000}
    )
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None] * count


def records(cluster: ClusterOnZooKeeper, *names: str) -> dict[str, int]:
    """Return the number of records of each ``topic-partition``."""
    return {name: int(entry["count"]) for name, entry in served_entries(cluster.direct, names).items()}


def line_with(node: Node, *words: str) -> str:
    """Return a line of the log that has all words. Fail if there is none, or if a traceback is logged."""
    log = node.log_text
    assert "Traceback" not in log, log
    found = [line for line in log.splitlines() if all(word in line for word in words)]
    assert found, f"no line with {words}\n{log}"
    return found[0]


def wait_for_line(cluster: ClusterOnZooKeeper, *words: str) -> str:
    node = cluster.brokers[1]
    cluster.wait(
        f"a line with {words}", lambda: any(all(word in line for word in words) for line in node.log_text.splitlines())
    )
    return line_with(node, *words)


class TestAway:
    def test_at_the_start(self, tmp_path: Path) -> None:
        """The broker waits for the connection's timeout, and ends with a line that names the servers."""
        properties = {**ALONE, "zookeeper.connection.timeout.ms": str(int(CONNECTION_S * 1000))}
        with ClusterOnZooKeeper(tmp_path, brokers=(1,), properties=properties) as cluster:
            cluster.prepare()
            (server,) = cluster.zookeeper.servers
            server.process.kill()
            node, started = cluster.brokers[1], time.monotonic()
            node.launch()
            assert node.wait_until_ended(PATIENCE_S) != 0
            assert time.monotonic() - started >= CONNECTION_S
            line = line_with(node, "ZooKeeper at", cluster.connect(1).partition("/")[0], f"{CONNECTION_S:g} s")
            assert not re.search("kazoo", line, re.IGNORECASE)
            cluster.zookeeper.start()
            cluster.restart(1)

    def test_it_comes_while_the_broker_waits(self, tmp_path: Path) -> None:
        with ClusterOnZooKeeper(tmp_path, brokers=(1,), properties=ALONE) as cluster:
            cluster.prepare()
            cluster.zookeeper.servers[0].process.kill()
            cluster.brokers[1].launch()
            time.sleep(1.0)  # long enough for a first attempt
            cluster.zookeeper.start()
            cluster.brokers[1].wait_until_started(PATIENCE_S)
            cluster.create_topic("t", partitions=2, replicas=1)
            write(cluster, "t", 10)

    def test_in_the_middle(self, cluster: ClusterOnZooKeeper) -> None:
        """Records are served meanwhile. A change of the metadata fails, or is made when ZooKeeper is back."""
        cluster.zookeeper.servers[0].process.kill()
        write(cluster, "t", 50)
        assert records(cluster, "t-0", "other-0") == {"t-0": 150, "other-0": 100}
        change = cluster.admin.create_topics([NewTopic("new", 1, 1)], request_timeout=5)["new"]
        with pytest.raises(KafkaException):
            change.result(PATIENCE_S)
        time.sleep(SESSION_S)
        write(cluster, "t", 50)
        assert cluster.brokers[1].is_running
        wait_for_line(cluster, "ZooKeeper")
        cluster.zookeeper.start()
        cluster.wait_until_settled()
        if not cluster.partitions("new"):
            cluster.create_topic("new", partitions=1, replicas=1)
        write(cluster, "new", 10)
        assert records(cluster, "t-0", "other-0", "new-0") == {"t-0": 200, "other-0": 100, "new-0": 10}

    def test_the_only_brokers_session_expires(self, cluster: ClusterOnZooKeeper) -> None:
        epoch = cluster.znodes.broker_epoch(1)
        cluster.disconnect_from_zookeeper(1, is_silent=True)
        cluster.wait_until_unregistered(1)
        cluster.heal(1)
        cluster.wait_until_registered(1, after=epoch)
        cluster.wait_until_settled()
        write(cluster, "t", 50)
        cluster.create_topic("new", partitions=1, replicas=1)
        assert records(cluster, "t-0", "other-0") == {"t-0": 150, "other-0": 100}

    def test_a_stop_without_it(self, cluster: ClusterOnZooKeeper) -> None:
        """A clean shutdown does not wait for ZooKeeper for ever, and the logs are flushed."""
        cluster.zookeeper.servers[0].process.kill()
        cluster.stop(1)
        assert (cluster.brokers[1].directory / ".kafka_cleanshutdown").exists()
        cluster.zookeeper.start()
        cluster.restart(1)
        assert records(cluster, "t-0", "other-0") == {"t-0": 100, "other-0": 100}


def test_it_responds_slowly(tmp_path: Path) -> None:
    """Each byte arrives half a second late, in both directions. The broker starts, and changes are made.

    A session must be longer than a few heartbeats, each of which needs a second here.
    """
    with ClusterOnZooKeeper(
        tmp_path, brokers=(1,), properties={**ALONE, "zookeeper.session.timeout.ms": "10000"}
    ) as cluster:
        cluster.start()
        cluster.create_topic("t", replicas=1)
        write(cluster, "t", 100)
        cluster.delay_zookeeper(0.5)
        cluster.create_topic("slow", partitions=3, replicas=1)
        write(cluster, "slow", 10)
        cluster.stop(1)
        cluster.restart(1)
        cluster.wait_until_settled()
        write(cluster, "t", 10)
        assert records(cluster, "t-0", "slow-0") == {"t-0": 110, "slow-0": 10}


JUNK: Final = {
    "a topic that is not JSON": (paths.topic("t"), b"{not json"),
    "a topic of an unknown version": (paths.topic("t"), b'{"version":99,"partitions":{"0":[1],"1":[1]}}'),
    "a topic without partitions": (paths.topic("t"), b'{"version":3}'),
    "a topic without data": (paths.topic("t"), b""),
    "a state that is not JSON": (paths.state("t", 0), b"\xff\xfe\x00"),
    "a state of an unknown version": (
        paths.state("t", 0),
        b'{"version":99,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
    ),
    "a state without a leader": (paths.state("t", 0), b'{"version":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}'),
    "settings that are not JSON": (f"{paths.TOPIC_CONFIGS}/t", b"[1,2"),
    "settings without values": (f"{paths.TOPIC_CONFIGS}/t", b'{"version":1,"config":{"retention.ms":{}}}'),
    "a deep array": (paths.topic("t"), b"[" * 100_000),
}
"""Znodes of the topic ``t``, and the data that other hands write there."""


@pytest.mark.parametrize("case", JUNK)
class TestJunk:
    def test_at_the_start(self, cluster: ClusterOnZooKeeper, case: str) -> None:
        """The line names the znode. The start fails, or the broker serves without the topic. No record is lost."""
        path, junk = JUNK[case]
        right = cluster.znodes.read(path)
        assert right is not None
        node = cluster.brokers[1]
        cluster.stop(1)
        cluster.znodes.write(path, junk)
        before = logs_of(node)
        node.launch()
        cluster.wait("it serves, or it has ended", lambda: "serving" in node.log_text or not node.is_running)
        line_with(node, path)
        if node.is_running:
            assert records(cluster, "other-0") == {"other-0": 100}
            cluster.stop(1)
        else:
            assert node.wait_until_ended(PATIENCE_S) != 0
        assert logs_of(node) == before
        cluster.znodes.write(path, right)
        cluster.restart(1)
        assert records(cluster, "t-0", "other-0") == {"t-0": 100, "other-0": 100}

    def test_while_a_broker_runs(self, cluster: ClusterOnZooKeeper, case: str) -> None:
        """The broker names the znode, keeps its last valid metadata, and takes the next valid data."""
        path, junk = JUNK[case]
        right = cluster.znodes.read(path)
        assert right is not None
        before = logs_of(cluster.brokers[1])
        cluster.znodes.write(path, junk)
        wait_for_line(cluster, path)
        assert cluster.brokers[1].is_running
        write(cluster, "other", 10)
        assert records(cluster, "other-0") == {"other-0": 110}
        cluster.znodes.write(path, right)
        write(cluster, "t", 10)
        cluster.create_topic("new", partitions=1, replicas=1)
        assert records(cluster, "t-0") == {"t-0": 110}
        assert logs_of(cluster.brokers[1]) >= before


def logs_of(node: Node) -> set[str]:
    """Return the names of the partitions' directories. A deleted or stray one has another name."""
    return {path.name for path in node.directory.iterdir() if path.is_dir()}


def test_a_topic_of_junk_appears_while_a_broker_runs(cluster: ClusterOnZooKeeper) -> None:
    """Other topics are served and created, and the topic comes when its znode is valid."""
    path = paths.topic("junk")
    cluster.znodes.create(path, b"{")
    wait_for_line(cluster, path)
    cluster.create_topic("new", partitions=1, replicas=1)
    write(cluster, "new", 10)
    cluster.znodes.write(path, json.dumps({"version": 1, "partitions": {"0": [1]}}).encode())
    cluster.wait_until_settled()
    write(cluster, "junk", 10)


def test_too_many_children(cluster: ClusterOnZooKeeper) -> None:
    """The line names the znode and the number. When they are gone, everything is served as before."""
    node = cluster.brokers[1]
    cluster.stop(1)
    client = KazooClient(cluster.zookeeper.address, timeout=PATIENCE_S)
    client.start(PATIENCE_S)
    create_many(client, f"{CHROOT}{paths.TOPICS}/junk", TOO_MANY)
    node.launch()
    assert node.wait_until_ended(PATIENCE_S) != 0
    line_with(node, paths.TOPICS, "children")
    delete_many(client, f"{CHROOT}{paths.TOPICS}/junk", TOO_MANY)
    client.stop()
    cluster.restart(1)
    assert records(cluster, "t-0", "other-0") == {"t-0": 100, "other-0": 100}


def create_many(client: KazooClient, prefix: str, count: int) -> None:
    for first in range(0, count, A_TRANSACTION):
        transaction = client.transaction()
        for number in range(first, min(first + A_TRANSACTION, count)):
            transaction.create(f"{prefix}{number}", b"{}")
        transaction.commit()


def delete_many(client: KazooClient, prefix: str, count: int) -> None:
    for first in range(0, count, A_TRANSACTION):
        transaction = client.transaction()
        for number in range(first, min(first + A_TRANSACTION, count)):
            transaction.delete(f"{prefix}{number}")
        transaction.commit()
