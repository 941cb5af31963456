"""Brokers of Kafka 4.4 under tidelog's controller: topics, records, kills, clean shutdowns and tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ElectionType, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from real_kafka.cluster import PATIENCE_S
from real_kafka.java import run_java
from real_kafka.tidelog_cluster import TidelogCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
IN_SYNC = {"min.insync.replicas": "2"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    cluster = TidelogCluster(tmp_path_factory.mktemp("cluster"))
    with cluster:
        cluster.start()
        cluster.create_topic("t", assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]], config=IN_SYNC)
        yield cluster


def write(cluster: TidelogCluster, values: range) -> None:
    """Write records to all partitions, each of which all in-sync replicas acknowledge."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.direct, "enable.idempotence": True, "log_level": 2})
    for value in values:
        producer.produce(
            "t",
            str(value),
            partition=value % 3,
            on_delivery=lambda error, _record: failures.append(error) if error is not None else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def read(cluster: TidelogCluster, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.direct, "group.id": "g", "log_level": 2})
    consumer.assign([KafkaPartition("t", number, 0) for number in range(3)])
    values: list[int] = []
    while len(values) < count:
        records = consumer.consume(count, PATIENCE_S)
        values += [int(record.value() or b"") for record in records if record.error() is None]
    consumer.close()
    return sorted(values)


def all_in_sync(cluster: TidelogCluster) -> bool:
    return all(set(part.isrs) == {1, 2, 3} and part.leader > 0 for part in cluster.partitions("t").values())


def test_records_survive_every_brokers_end(cluster: TidelogCluster) -> None:
    write(cluster, range(300))
    assert read(cluster, 300) == list(range(300))
    # A killed broker is fenced: others lead, and it leaves the in-sync replicas.
    cluster.kill(1)
    cluster.wait("others lead", lambda: all(part.leader in (2, 3) for part in cluster.partitions("t").values()))
    cluster.wait("it is out of sync", lambda: all(1 not in cluster.in_sync("t", number) for number in range(3)))
    write(cluster, range(300, 600))
    cluster.restart(1)
    cluster.wait("all are in sync again", lambda: all_in_sync(cluster))
    # A controlled shutdown hands over before the broker ends: no partition is ever without a leader.
    cluster.stop(2)
    assert all(part.leader in (1, 3) for part in cluster.partitions("t").values())
    write(cluster, range(600, 900))
    cluster.restart(2)
    cluster.wait("all are in sync again", lambda: all_in_sync(cluster))
    assert read(cluster, 900) == list(range(900))


def test_brokers_outlive_the_controller(cluster: TidelogCluster) -> None:
    cluster.wait("all are in sync", lambda: all_in_sync(cluster))
    end = sum(_ends(cluster))
    cluster.controller.kill()
    write(cluster, range(30))
    cluster.controller.launch()
    cluster.controller.wait_until_started(PATIENCE_S)
    cluster.create_topic("after", partitions=3, replicas=3)
    write(cluster, range(30))
    assert sum(_ends(cluster)) == end + 60
    cluster.wait("all are in sync", lambda: all_in_sync(cluster))


def test_administrators_requests_are_forwarded(cluster: TidelogCluster) -> None:
    cluster.wait("all are in sync", lambda: all_in_sync(cluster))
    change = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ConfigResource.Type.BROKER, "2", incremental_configs=[change])
    cluster.admin.incremental_alter_configs([broker])[broker].result(PATIENCE_S)
    cluster.wait("broker 2 has its config", lambda: _config(cluster, "2")["log.cleaner.threads"].value == "2")
    for partitions in cluster.admin.create_partitions([NewPartitions("t", 4)]).values():
        partitions.result(PATIENCE_S)
    preferred = [KafkaPartition("t", number) for number in range(3)]
    cluster.admin.elect_leaders(ElectionType.PREFERRED, preferred).result(PATIENCE_S)
    cluster.wait("preferred", lambda: [cluster.leader("t", number) for number in range(3)] == [1, 2, 3])
    cluster.create_topic("gone", partitions=2, replicas=3)
    cluster.admin.delete_topics(["gone"])["gone"].result(PATIENCE_S)
    cluster.wait("it is gone", lambda: "gone" not in cluster.admin.list_topics(timeout=10).topics)


def test_the_quorum_as_kafkas_tool_shows_it(cluster: TidelogCluster) -> None:
    """Kafka's tool asks the controller itself (KIP-919), and a broker, which forwards the request."""
    for option, address in (("--bootstrap-controller", cluster.quorum), ("--bootstrap-server", cluster.direct)):
        arguments = (option, address, "describe", "--replication")
        rows = run_java("org.apache.kafka.tools.MetadataQuorumCommand", *arguments).splitlines()[1:]
        shown = {row.split()[0]: row.split()[-1] for row in rows if row.strip()}
        assert shown == {"100": "Leader", "1": "Observer", "2": "Observer", "3": "Observer"}


def test_a_stopped_broker_is_unregistered(cluster: TidelogCluster) -> None:
    cluster.stop(3)
    run_java("org.apache.kafka.tools.ClusterTool", "unregister", "--bootstrap-server", cluster.direct, "--id", "3")
    assert set(cluster.in_sync("t", 0)) == {1, 2}
    cluster.restart(3)
    cluster.wait("all are in sync again", lambda: all_in_sync(cluster))


def _config(cluster: TidelogCluster, broker: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(ConfigResource.Type.BROKER, broker)
    found: dict[str, ConfigEntry] = cluster.admin.describe_configs([resource])[resource].result(PATIENCE_S)
    return found


def _ends(cluster: TidelogCluster) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.direct, "group.id": "g", "log_level": 2})
    ends = [consumer.get_watermark_offsets(KafkaPartition("t", number), PATIENCE_S)[1] for number in range(3)]
    consumer.close()
    return ends
