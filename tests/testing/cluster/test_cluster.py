"""The in-process cluster with real clients: its start, its topics, and each fault with its effect."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tidelog.model import StorageError, UnknownTopicOrPartitionError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.testing import CONTROLLER, ApiKey, Cluster
from tidelog.testing.broker.loop_thread import PATIENCE_S

SAFE = {"min.insync.replicas": "2"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(configs=SAFE) as running:
        yield running


class Load:
    """A thread that produces numbered records to one partition with acks=all, one after the other."""

    def __init__(self, cluster: Cluster, topic: str = "t") -> None:
        self.acknowledged: list[bytes] = []
        self.errors: list[str] = []
        self._topic = topic
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "message.timeout.ms": PATIENCE_S * 1000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            value = b"%06d" % number
            number += 1
            self._producer.produce(
                self._topic,
                value,
                on_delivery=lambda error, message: (
                    self.errors.append(str(error)) if error else self.acknowledged.append(message.value() or b"")
                ),
            )
            self._producer.poll(0.001)
        self._producer.flush(PATIENCE_S)


def wait_for_more(cluster: Cluster, load: Load, count: int = 20) -> None:
    wanted = len(load.acknowledged) + count
    cluster.wait_for(lambda: len(load.acknowledged) >= wanted or bool(load.errors))
    assert not load.errors


def produce(
    cluster: Cluster, *values: bytes, topic: str = "t", acks: str = "all", bootstrap_servers: str | None = None
) -> None:
    servers = bootstrap_servers or cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "acks": acks, "log_level": 0})
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: failures.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def wait_for_isr(cluster: Cluster, *node_ids: int, topic: str = "t") -> None:
    cluster.wait_for(lambda: set(cluster._image.topics[topic].partitions[0].isr) == set(node_ids))


def values(cluster: Cluster, topic: str = "t") -> list[bytes | None]:
    cluster.wait_for(lambda: all(one.leader >= 0 for one in cluster._image.topics[topic].partitions.values()))
    return [record.value for record in cluster.records(topic)]


# --- life and topics ---


def test_clients_produce_to_all_brokers_and_consume_as_a_group(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=3)
    assert sorted(cluster.leader("t", number) for number in range(3)) == [1, 2, 3]
    wanted = [b"%d" % number for number in range(30)]
    produce(cluster, *wanted)
    assert sorted(value or b"" for value in values(cluster)) == sorted(wanted)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    found: list[bytes] = []
    while len(found) < len(wanted):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert not message.error(), message.error()
        found.append(message.value() or b"")
    consumer.close()
    assert sorted(found) == sorted(wanted)


def test_kafka_python_produces_and_consumes(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=2)
    servers = cluster.bootstrap_servers.split(",")
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    for number in range(10):
        producer.send("t", b"%d" % number).get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
    assert sorted(next(consumer).value for _ in range(10)) == [b"%d" % number for number in range(10)]
    consumer.close()


def test_every_replica_has_the_records(cluster: Cluster) -> None:
    cluster.create_topic("t")
    produce(cluster, b"a", b"b")
    for broker in cluster.brokers.values():
        cluster.wait_for(lambda broker=broker: len(broker.records("t")) == 2)  # type: ignore[misc]


def test_a_topic_is_on_chosen_brokers(cluster: Cluster) -> None:
    cluster.create_topic("t", assignments=[[3, 1]])
    assert cluster.leader("t") == 3
    assert cluster.in_sync_replicas("t") == [1, 3]
    produce(cluster, b"a")
    with pytest.raises(UnknownTopicOrPartitionError):
        cluster.brokers[2].records("t")


def test_mistakes_are_errors(cluster: Cluster) -> None:
    cluster.create_topic("t")
    with pytest.raises(ApiError) as raised:
        cluster.create_topic("t")
    assert raised.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.delete_topic("t")
    for call in (cluster.delete_topic, cluster.leader, cluster.records, cluster.wait_for_leader):
        with pytest.raises(ApiError):
            call("t")
    with pytest.raises(ValueError, match=r"\[7\] are no nodes"):
        cluster.disconnect(1, 7)


def test_a_given_directory_stays_and_serves_again(tmp_path: Path) -> None:
    with Cluster(brokers=2, directory=tmp_path) as cluster:
        cluster.create_topic("t")
        produce(cluster, b"a")
    assert (tmp_path / "1" / ".kafka_cleanshutdown").exists()
    with Cluster(brokers=2, directory=tmp_path) as cluster:
        cluster.wait_until_in_sync("t")
        produce(cluster, b"b")
        assert values(cluster) == [b"a", b"b"]
    with Cluster(brokers=1) as cluster:
        directory = cluster.directory
    assert not directory.exists()


# --- nodes that end ---


def test_nothing_acknowledged_is_lost_when_leaders_are_killed(cluster: Cluster) -> None:
    cluster.create_topic("t")
    with Load(cluster) as load:
        for _ in range(3):
            wait_for_more(cluster, load)
            leader = cluster.leader("t")
            cluster.brokers[leader].kill()
            assert cluster.wait_for_leader("t") != leader
            wait_for_more(cluster, load)
            cluster.brokers[leader].start()
            cluster.wait_until_in_sync("t")
    assert not load.errors
    assert values(cluster) == load.acknowledged


def test_a_clean_shutdown_moves_the_leaderships_first(cluster: Cluster) -> None:
    cluster.create_topic("t", assignments=[[2, 1, 3]])
    cluster.brokers[2].stop()
    assert cluster.leader("t") in (1, 3)
    cluster.brokers[2].restart({"broker.rack": "r"})
    cluster.wait_until_in_sync("t")
    assert cluster.brokers[2].server.config["broker.rack"] == "r"


def test_brokers_serve_on_while_the_controller_is_away(cluster: Cluster) -> None:
    cluster.create_topic("t")
    with Load(cluster) as load:
        wait_for_more(cluster, load)
        cluster.controller.kill()
        wait_for_more(cluster, load)
        cluster.controller.start()
        wait_for_more(cluster, load)
    assert values(cluster) == load.acknowledged
    cluster.create_topic("u")


def test_without_a_controller_the_brokers_are_killed_at_the_end() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.controller.stop()
    assert not any(broker.is_running for broker in cluster.brokers.values())


# --- the network ---


def test_a_follower_without_its_leader_leaves_the_in_sync_replicas(cluster: Cluster) -> None:
    cluster.create_topic("t", assignments=[[1, 2, 3]])
    produce(cluster, b"a")
    cluster.disconnect(1, 2)
    produce(cluster, b"b")
    wait_for_isr(cluster, 1, 3)
    cluster.heal(1, 2)
    cluster.wait_until_in_sync("t")
    cluster.wait_for(lambda: len(cluster.brokers[2].records("t")) == 2)


def test_a_leader_without_the_controller_is_replaced(cluster: Cluster) -> None:
    cluster.create_topic("t", assignments=[[1, 2, 3]])
    produce(cluster, b"a")
    cluster.disconnect(1, CONTROLLER, silent=True)
    cluster.wait_for(lambda: cluster._image.topics["t"].partitions[0].leader != 1)
    assert 1 not in cluster.in_sync_replicas("t")
    # Broker 1 still takes itself for the leader, and a client with its metadata waits there for request.timeout.ms.
    other = cluster.brokers[2]
    cluster.wait_for(lambda: other.server.metadata.image.topics["t"].partitions[0].leader != 1)
    produce(cluster, b"b", bootstrap_servers=other.address)
    assert values(cluster) == [b"a", b"b"]
    cluster.heal()
    cluster.wait_until_in_sync()
    cluster.wait_for(lambda: len(cluster.brokers[1].records("t")) == 2)


def test_a_fault_of_one_way_leaves_the_other_way(cluster: Cluster) -> None:
    cluster.create_topic("t", assignments=[[1, 2, 3]])
    cluster.create_topic("u", assignments=[[2, 1, 3]])
    cluster.disconnect(2, 1, one_way=True)
    produce(cluster, b"a")
    wait_for_isr(cluster, 1, 3)
    produce(cluster, b"a", topic="u")
    wait_for_isr(cluster, 1, 2, 3, topic="u")


def test_bytes_between_brokers_are_late(cluster: Cluster) -> None:
    cluster.create_topic("t", assignments=[[1, 2]])
    cluster.delay(1, 2, ms=150)
    begun_ms = cluster.call(cluster.brokers[1].server.timers.monotonic_ms)
    produce(cluster, b"a")
    # The follower's fetch brings the record, and its next fetch confirms it.
    assert cluster.call(cluster.brokers[1].server.timers.monotonic_ms) - begun_ms >= 280
    cluster.heal()


def test_a_fault_between_two_nodes_ends_by_itself(cluster: Cluster) -> None:
    cluster.create_topic("t", assignments=[[1, 2, 3]])
    cluster.disconnect(1, 2)
    cluster.disconnect(1, 3)
    cluster.heal(1, 3)
    produce(cluster, b"a")
    wait_for_isr(cluster, 1, 3)


# --- requests ---


def test_requests_of_a_broker_and_of_the_controller_fail(cluster: Cluster) -> None:
    cluster.create_topic("t")
    leader = cluster.brokers[cluster.leader("t")]
    leader.fail_next(ApiKey.PRODUCE, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="t")
    cluster.controller.fail_next(ApiKey.BROKER_HEARTBEAT, error=ErrorCode.NOT_CONTROLLER, times=2)
    produce(cluster, b"a")
    assert values(cluster) == [b"a"]
    assert not leader.has_faults
    cluster.wait_for(lambda: not cluster.controller.has_faults)
    cluster.controller.fail_next(ApiKey.ALTER_PARTITION, error=ErrorCode.NOT_CONTROLLER, times=3)
    assert cluster.controller.has_faults
    cluster.controller.forget_faults()
    assert not cluster.controller.has_faults


def test_a_broker_without_a_log_directory_ends_by_itself(cluster: Cluster) -> None:
    cluster.create_topic("t")
    failing = cluster.brokers[cluster.leader("t")]
    error = StorageError("the disk is gone", path=failing.directory)
    error.__cause__ = OSError(errno.EIO, "Input/output error")
    cluster.call(lambda: failing.server.logs._directories.note_failure(error))
    failing.wait_for(lambda: not failing.is_running)
    assert failing.failure == "every log directory has failed"
    assert cluster.wait_for_leader("t") != failing.node_id
    produce(cluster, b"a")
    failing.start()
    cluster.wait_until_in_sync("t")


def test_a_broker_with_a_fatal_failure_ends_by_itself(cluster: Cluster) -> None:
    cluster.call(lambda: cluster.brokers[2].server._fail("a reason"))
    cluster.wait_for(lambda: not cluster.brokers[2].is_running)
    assert [broker.failure for broker in cluster.brokers.values()] == [None, "a reason", None]
    cluster.start()
    assert all(broker.is_running for broker in cluster.brokers.values())
