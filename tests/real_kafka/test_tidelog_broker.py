"""Brokers of tidelog join a real Kafka controller. Kafka's tools and clients work on them, also after restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer

from real_kafka.broker import BrokerError
from real_kafka.cluster import CONTROLLER, PATIENCE_S
from real_kafka.joined_cluster import JoinedCluster
from real_kafka.kafka_tools import KafkaTools
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoinedCluster]:
    with JoinedCluster(tmp_path_factory.mktemp("joined")) as running:
        running.start()
        yield running


@pytest.fixture(scope="module")
def tools(cluster: JoinedCluster) -> Iterator[KafkaTools]:
    with KafkaTools(cluster.direct) as running:
        yield running


def write(cluster: JoinedCluster, topic: str, values: list[bytes], transactional_id: str | None = None) -> None:
    settings = {"bootstrap.servers": cluster.direct, "message.timeout.ms": 60_000}
    producer = Producer(settings | ({"transactional.id": transactional_id} if transactional_id else {}))
    if transactional_id:
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
    failed: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _record: failed.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed
    if transactional_id:
        producer.commit_transaction(PATIENCE_S)


def read(cluster: JoinedCluster, topic: str, count: int, group: str) -> list[bytes]:
    """Return the values that a new group consumes, and commit its offsets."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.direct, "group.id": group, "auto.offset.reset": "earliest", "log_level": 2}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            values.append(record.value() or b"")
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def has(words: str) -> Callable[[list[str]], bool]:
    """Return whether a tool's lines have the words."""
    return lambda lines: words in " ".join(lines)


def test_topics_by_the_tools_and_records_by_clients(cluster: JoinedCluster, tools: KafkaTools) -> None:
    assert tools.told("kafka-topics", "--create", "--topic", "t", "--partitions", "2") == ["Created topic t."]
    _, *partitions = tools.told_when(lambda lines: len(lines) == 3, "kafka-topics", "--describe", "--topic", "t")
    assert [line.split("\t")[2:5] for line in partitions] == [["Leader: 1", "Replicas: 1", "Isr: 1"]] * 2
    refused = tools.run("kafka-topics", "--create", "--topic", "u", "--replication-factor", "3")
    assert "Unable to replicate the partition 3 time(s)" in refused.out
    tools.told("kafka-topics", "--alter", "--topic", "t", "--partitions", "3")
    values = [b"%d" % number for number in range(50)]
    write(cluster, "t", values[:25])
    write(cluster, "t", values[25:], transactional_id="x")
    assert sorted(read(cluster, "t", 50, "g")) == sorted(values)
    rows = tools.told("kafka-consumer-groups", "--describe", "--group", "g")
    assert sum(int(row.split()[3]) for row in rows[1:] if row.startswith("g ")) >= 50, "and the transaction's markers"
    tools.told("kafka-topics", "--delete", "--topic", "t")
    tools.told_when(lambda topics: "t" not in topics, "kafka-topics", "--list")


def test_settings_and_acls(cluster: JoinedCluster, tools: KafkaTools) -> None:
    tools.told("kafka-topics", "--create", "--topic", "c")
    tools.told_when(lambda topics: "c" in topics, "kafka-topics", "--list")
    topic = ["--entity-type", "topics", "--entity-name", "c"]
    tools.told("kafka-configs", "--alter", *topic, "--add-config", "retention.ms=7000")
    tools.told_when(has("retention.ms=7000"), "kafka-configs", "--describe", *topic)
    broker = ["--entity-type", "brokers", "--entity-name", "1"]
    tools.told("kafka-configs", "--alter", *broker, "--add-config", "log.cleaner.threads=2")
    tools.told_when(has("log.cleaner.threads=2"), "kafka-configs", "--describe", *broker)
    loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"]
    tools.told("kafka-configs", "--alter", *loggers, "--add-config", "tidelog.server=DEBUG")
    assert has("tidelog.server=DEBUG")(tools.told("kafka-configs", "--describe", *loggers))
    user = ["--entity-type", "users", "--entity-name", "alice"]
    tools.told("kafka-configs", "--alter", *user, "--add-config", "SCRAM-SHA-256=[password=p]")
    tools.told("kafka-configs", "--alter", *user, "--add-config", "producer_byte_rate=1000000")
    described = tools.told_when(has("producer_byte_rate=1000000"), "kafka-configs", "--describe", *user)
    assert has("SCRAM-SHA-256=iterations=4096")(described)
    acl = ["--allow-principal", "User:alice", "--operation", "Read", "--topic", "c"]
    tools.told("kafka-acls", "--add", *acl)
    tools.told_when(has("User:alice"), "kafka-acls", "--list")
    tools.told("kafka-acls", "--remove", "--force", *acl)
    tools.told_when(lambda lines: not has("User:alice")(lines), "kafka-acls", "--list")


def test_the_quorum_and_the_features(cluster: JoinedCluster, tools: KafkaTools) -> None:
    rows = [line.split() for line in tools.told("kafka-metadata-quorum", "describe", "--replication")]
    assert [(row[0], row[-1]) for row in rows[1:]] == [(str(CONTROLLER), "Leader"), ("1", "Observer")]
    assert any("metadata.version" in line for line in tools.told("kafka-features", "describe"))
    *_, node = tools.told("kafka-cluster", "list-endpoints")
    assert node.split()[-2:] == ["unfenced", "broker"]


def test_a_restart_after_a_clean_shutdown_and_after_a_kill(cluster: JoinedCluster, tools: KafkaTools) -> None:
    tools.told("kafka-topics", "--create", "--topic", "r")
    write(cluster, "r", [b"1", b"2"])
    node = cluster.tidelog[1]
    node.stop(PATIENCE_S)
    epoch = CleanShutdownFile(LOCAL, node.directory).read()
    assert epoch is not None
    assert epoch > 0
    node.launch()
    node.wait_until_started(PATIENCE_S)
    assert "no clean shutdown file" not in node.log
    assert read(cluster, "r", 2, "after a stop") == [b"1", b"2"]
    node.kill()
    node.launch()  # the controller refuses it until the session of the killed process has expired
    node.wait_until_started(PATIENCE_S)
    write(cluster, "r", [b"3"])
    assert read(cluster, "r", 3, "after a kill") == [b"1", b"2", b"3"]


def test_a_controller_that_is_killed_and_comes_back(cluster: JoinedCluster, tools: KafkaTools) -> None:
    tools.told("kafka-topics", "--create", "--topic", "k")
    cluster.controller.kill()
    write(cluster, "k", [b"1"])  # the leader needs no controller
    assert read(cluster, "k", 1, "without a controller") == [b"1"]
    cluster.controller.launch()
    cluster.controller.wait_until_started(PATIENCE_S)
    assert tools.told("kafka-topics", "--create", "--topic", "l") == ["Created topic l."]
    write(cluster, "l", [b"2"])
    assert cluster.known_brokers() == {1}


def test_a_snapshot_is_fetched_by_a_broker_that_joins_late(cluster: JoinedCluster, tools: KafkaTools) -> None:
    for number in range(6):
        tools.told("kafka-topics", "--create", "--topic", f"s{number}", "--partitions", "3")
    cluster.wait("a snapshot", lambda: len(cluster.snapshots()) > 1)
    node = cluster.add_broker(2)
    node.launch()
    node.wait_until_started(PATIENCE_S)
    assert "Installed snapshot" in node.log
    cluster.wait("both brokers are known", lambda: cluster.known_brokers() == {1, 2})
    assert "s5" in tools.at(f"127.0.0.1:{cluster.direct.rpartition(':')[2]}").told("kafka-topics", "--list")
    tools.told("kafka-topics", "--create", "--topic", "on-2", "--replica-assignment", "2")
    write(cluster, "on-2", [b"v"])
    assert read(cluster, "on-2", 1, "of two brokers") == [b"v"]
    node.stop(PATIENCE_S)
    assert tools.told("kafka-cluster", "unregister", "--id", "2") == ["Broker 2 is no longer registered."]


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "reason"),
    [
        ("anotherClusterOfTestsA", None, "is of another cluster than this broker's log directories"),
        (None, 1, "another broker has this node.id"),
    ],
)
def test_a_broker_that_does_not_belong_here_stops_with_a_reason(
    cluster: JoinedCluster, cluster_id: str | None, node_id: int | None, reason: str
) -> None:
    identity = {} if cluster_id is None else {"cluster_id": cluster_id}
    node = cluster.add_broker(40 + len(cluster.tidelog), node_id=node_id, **identity)
    with node.properties_file.open("a") as properties:
        properties.write("initial.broker.registration.timeout.ms=4000\n")
    node.launch()
    with pytest.raises(BrokerError, match=reason):
        node.wait_until_started(PATIENCE_S)
    assert "Traceback" not in node.log
