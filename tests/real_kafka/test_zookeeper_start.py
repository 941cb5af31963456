"""The start of a broker with ``zookeeper.connect``: the chroot, ids, registration, directories, settings of topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from golden_sets import DIRECTORY, ZOOKEEPER
from real_kafka.cluster import PATIENCE_S
from real_kafka.cluster_on_zookeeper import ClusterOnZooKeeper
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.znodes import ClusterIdZnode
from tidelog.storage.checkpoint import MetaProperties

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ALONE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
RECORDS: Final = 200
RECORD_BYTES: Final = 1100
"""A batch of one record is larger than the topic's ``index.interval.bytes`` of 1024, and smaller than the default."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterOnZooKeeper]:
    """A broker that has not started, on a ZooKeeper without the chroot."""
    with ClusterOnZooKeeper(tmp_path, brokers=(1,), properties=ALONE) as cluster:
        cluster.prepare()
        yield cluster


def start(cluster: ClusterOnZooKeeper, number: int = 1) -> None:
    cluster.brokers[number].launch()
    cluster.brokers[number].wait_until_started(PATIENCE_S)


def meta_properties(cluster: ClusterOnZooKeeper, number: int = 1) -> MetaProperties:
    return MetaProperties.parse((cluster.brokers[number].directory / "meta.properties").read_bytes())


def znode(cluster: ClusterOnZooKeeper, path: str) -> dict[str, Any]:
    data = cluster.znodes.read(path)
    assert data is not None
    found: dict[str, Any] = json.loads(data)
    return found


def test_a_first_start_makes_the_chroot_and_registers_as_kafka_does(cluster: ClusterOnZooKeeper) -> None:
    assert cluster.znodes.children("/") == []
    start(cluster)
    of_kafka = json.loads((DIRECTORY / ZOOKEEPER / "live.json").read_text())
    for path, example in ((paths.broker(1), of_kafka[paths.broker(7)]), (paths.CONTROLLER, of_kafka[paths.CONTROLLER])):
        ours, theirs = znode(cluster, path), json.loads(example["data"])
        assert list(ours) == list(theirs)
        assert ours["version"] == theirs["version"]
    registration = znode(cluster, paths.broker(1))
    assert registration["features"] == {"tidelog": {"min_version": 1, "max_version": 1}}
    assert [endpoint.partition("://")[0] for endpoint in registration["endpoints"]] == ["CLIENT", "INTERNAL"]
    assert registration["listener_security_protocol_map"] == {"CLIENT": "PLAINTEXT", "INTERNAL": "PLAINTEXT"}
    assert znode(cluster, paths.CONTROLLER)["brokerid"] == 1
    assert cluster.znodes.read(paths.CONTROLLER_EPOCH) == b"1"
    found = meta_properties(cluster)
    assert (found.version, found.node_id) == (0, 1)
    assert found.cluster_id == znode(cluster, paths.CLUSTER_ID)["id"]
    cluster.brokers[1].stop(PATIENCE_S)
    assert cluster.znodes.children(paths.BROKER_IDS) == []
    assert cluster.znodes.read(paths.CONTROLLER) is None


def test_ids_are_generated(tmp_path: Path) -> None:
    """The first id is above ``reserved.broker.max.id``. A broker keeps its id."""
    with ClusterOnZooKeeper(tmp_path, brokers=(1, 2), properties={**ALONE, "broker.id": "-1"}) as cluster:
        cluster.prepare()
        for number in (1, 2):
            start(cluster, number)
        assert cluster.znodes.children(paths.BROKER_IDS) == ["1001", "1002"]
        cluster.brokers[1].stop(PATIENCE_S)
        start(cluster, 1)
        assert cluster.znodes.children(paths.BROKER_IDS) == ["1001", "1002"]
        assert [meta_properties(cluster, number).node_id for number in (1, 2)] == [1001, 1002]


def test_settings_of_topics_are_known_before_the_logs_are_loaded(cluster: ClusterOnZooKeeper) -> None:
    """A recovery builds a lost index again, and the topic's ``index.interval.bytes`` decides its entries."""
    start(cluster)
    cluster.create_topic("t", replicas=1, config={"index.interval.bytes": "1024"})
    producer = Producer({"bootstrap.servers": cluster.direct, "batch.num.messages": 1, "linger.ms": 0})
    for _ in range(RECORDS):
        producer.produce("t", bytes(RECORD_BYTES), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    cluster.kill(1)
    (index,) = cluster.partition_directory(1, "t", 0).glob("*.index")
    index.unlink()
    start(cluster)
    cluster.brokers[1].stop(PATIENCE_S)
    assert index.stat().st_size // 8 > RECORDS * 0.9


class TestRefusals:
    """A refused start ends with a clear line, and changes nothing in ZooKeeper and in the directory."""

    def test_another_cluster(self, cluster: ClusterOnZooKeeper) -> None:
        start(cluster)
        cluster.brokers[1].stop(PATIENCE_S)
        mine = meta_properties(cluster).cluster_id
        cluster.znodes.write(paths.CLUSTER_ID, ClusterIdZnode("AnotherClusterIdOfTest").encode())
        assert mine is not None
        refused(cluster, "AnotherClusterIdOfTest", mine)

    def test_another_broker_id(self, cluster: ClusterOnZooKeeper) -> None:
        start(cluster)
        cluster.brokers[1].stop(PATIENCE_S)
        with cluster.brokers[1].properties_file.open("a") as file:
            file.write("broker.id=5\n")
        refused(cluster, "broker.id", "5")

    def test_a_directory_of_kraft(self, cluster: ClusterOnZooKeeper) -> None:
        directory = cluster.brokers[1].directory
        directory.mkdir(parents=True)
        (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=AnotherClusterIdOfTest\n")
        refused(cluster, str(directory))

    def test_both_keepers_of_metadata(self, cluster: ClusterOnZooKeeper) -> None:
        with cluster.brokers[1].properties_file.open("a") as file:
            file.write("process.roles=broker\n")
        refused(cluster, "process.roles", "zookeeper.connect")


def refused(cluster: ClusterOnZooKeeper, *words: str) -> None:
    node = cluster.brokers[1]
    before = footprint(node.directory)
    node.launch()
    assert node.wait_until_ended(PATIENCE_S) != 0
    log = node.log_text
    assert "Traceback" not in log
    assert any(all(word in line for word in words) for line in log.splitlines()), log
    assert cluster.znodes.children(paths.BROKER_IDS) == []
    assert footprint(node.directory) == before


def footprint(directory: Path) -> dict[str, bytes]:
    """Return every file but the lock."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".lock"
    }
