"""Changes that other hands make in ZooKeeper, as ``zookeeper-shell`` and Kafka's old tools do, reach every broker.

The same tests run on brokers of Kafka 3.9, so the expectations are Kafka's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from real_kafka.cluster import PATIENCE_S
from real_kafka.cluster_node import Node, Program
from real_kafka.cluster_on_zookeeper import ClusterOnZooKeeper
from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.znodes import ConfigZnode, TopicZnode

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC, BROKER = 2, 4
"""The resource types of DescribeConfigs."""
QUOTAS_VERSION, CONFIGS_VERSION, USERS_VERSION = 1, 4, 0
"""Versions of requests that Kafka 3.9 and tidelog have."""


@pytest.fixture(scope="module", params=[Program.KAFKA, Program.TIDELOG], ids=lambda program: program.name.lower())
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ClusterOnZooKeeper]:
    with ClusterOnZooKeeper(tmp_path_factory.mktemp("cluster"), program=request.param) as cluster:
        cluster.start()
        cluster.create_topic("t", partitions=3, replicas=3)
        yield cluster


def write_config(cluster: ClusterOnZooKeeper, entity: str, settings: dict[str, str]) -> None:
    """Write the settings of an entity like ``topics/t``, and then announce them."""
    path, data = f"{paths.CONFIG}/{entity}", ConfigZnode(settings).encode()
    if cluster.znodes.read(path) is None:
        cluster.znodes.create(path, data)
    else:
        cluster.znodes.write(path, data)
    announcement = {"version": 2, "entity_path": entity}
    cluster.znodes.create("/config/changes/config_change_", json.dumps(announcement).encode(), sequence=True)


def wait_at_each_broker(cluster: ClusterOnZooKeeper, condition: str, is_so: Callable[[WireClient, int], bool]) -> None:
    for number in cluster.brokers:
        with WireClient(cluster.port(number)) as client:
            cluster.wait(f"{condition} at broker {number}", partial(is_so, client, number))


def settings_at(client: WireClient, kind: int, name: str) -> dict[str, str | None]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    (found,) = client.call(
        ApiKey.DESCRIBE_CONFIGS,
        CONFIGS_VERSION,
        resources=[resource],
        include_synonyms=False,
        include_documentation=False,
    ).results
    return {entry.name: entry.value for entry in found.configs}


class TestSettings:
    def test_of_a_topic(self, cluster: ClusterOnZooKeeper) -> None:
        write_config(cluster, "topics/t", {"retention.ms": "12345678"})
        wait_at_each_broker(
            cluster,
            "the topic's setting",
            lambda client, _: settings_at(client, TOPIC, "t")["retention.ms"] == "12345678",
        )
        write_config(cluster, "topics/t", {})
        wait_at_each_broker(
            cluster, "the default", lambda client, _: settings_at(client, TOPIC, "t")["retention.ms"] == "604800000"
        )

    def test_of_all_brokers_and_of_one(self, cluster: ClusterOnZooKeeper) -> None:
        write_config(cluster, "brokers/<default>", {"log.retention.ms": "1111111111"})
        write_config(cluster, "brokers/2", {"log.retention.ms": "2222222222"})
        wait_at_each_broker(
            cluster,
            "its setting",
            lambda client, number: (
                settings_at(client, BROKER, str(number))["log.retention.ms"]
                == ("2222222222" if number == 2 else "1111111111")
            ),
        )

    def test_a_quota(self, cluster: ClusterOnZooKeeper) -> None:
        write_config(cluster, "clients/app%20one", {"producer_byte_rate": "4242"})

        def has_quota(client: WireClient, _number: int) -> bool:
            found = client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, QUOTAS_VERSION, components=[], strict=False)
            return any(
                [(part.entity_type, part.entity_name) for part in entry.entity] == [("client-id", "app one")]
                and [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 4242.0)]
                for entry in found.entries
            )

        wait_at_each_broker(cluster, "the quota", has_quota)

    def test_a_user(self, cluster: ClusterOnZooKeeper) -> None:
        credential = "salt=MXBtM2w3cXU3cmk3dGFuZDE1ZGtvdzVkbmw=,stored_key={0},server_key={0},iterations=8192".format(
            "EiCJY5nTpTmcTVb0p8/yXsvzbLnxCJSjeNkV5M0JF7k="
        )
        write_config(cluster, "users/carol", {"SCRAM-SHA-256": credential})

        def has_user(client: WireClient, _number: int) -> bool:
            found = client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, USERS_VERSION, users=None)
            return any(
                (result.user, [(one.mechanism, one.iterations) for one in result.credential_infos])
                == ("carol", [(1, 8192)])
                for result in found.results
            )

        wait_at_each_broker(cluster, "the user", has_user)

    def test_acls(self, cluster: ClusterOnZooKeeper) -> None:
        acl = {"principal": "User:carol", "permissionType": "Allow", "operation": "Read", "host": "*"}
        path = f"{paths.LITERAL_ACLS}/Topic/t"
        cluster.znodes.create(path, json.dumps({"version": 1, "acls": [acl]}).encode())
        cluster.znodes.create("/kafka-acl-changes/acl_changes_", b"Topic:t", sequence=True)
        any_name: Any = None
        wanted = AclBindingFilter(
            ResourceType.TOPIC,
            "t",
            ResourcePatternType.LITERAL,
            any_name,
            any_name,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )

        def principals() -> list[str]:
            return [entry.principal for entry in cluster.admin.describe_acls(wanted).result(PATIENCE_S)]

        cluster.wait("the ACL", lambda: principals() == ["User:carol"])
        cluster.znodes.delete(path)
        cluster.znodes.create("/kafka-acl-changes/acl_changes_", b"Topic:t", sequence=True)
        cluster.wait("no ACL", lambda: principals() == [])


class TestTopics:
    def test_a_new_topic_gets_an_id_and_leaders(self, cluster: ClusterOnZooKeeper) -> None:
        topic = {"version": 1, "partitions": {"0": [2, 3, 1], "1": [3, 1, 2]}}
        cluster.znodes.create(f"{paths.TOPIC_CONFIGS}/by-hand", ConfigZnode({}).encode())
        cluster.znodes.create(paths.topic("by-hand"), json.dumps(topic).encode())
        cluster.wait_until_settled()
        assert [cluster.leader("by-hand", number) for number in (0, 1)] == [2, 3]
        data = cluster.znodes.read(paths.topic("by-hand"))
        assert data is not None
        found = TopicZnode.decode(paths.topic("by-hand"), data)
        assert found.topic_id is not None
        write(cluster, "by-hand", 2)
        more = {**json.loads(data), "partitions": {**topic["partitions"], "2": [1, 2, 3]}}  # type: ignore[dict-item]
        cluster.znodes.write(paths.topic("by-hand"), json.dumps(more).encode())
        cluster.wait("the new partition", lambda: len(cluster.partitions("by-hand")) == 3)
        cluster.wait_until_settled()
        write(cluster, "by-hand", 3)

    def test_a_deletion(self, cluster: ClusterOnZooKeeper) -> None:
        cluster.create_topic("doomed", partitions=2, replicas=3)
        write(cluster, "doomed", 2)
        for name in ("doomed", "unknown"):
            cluster.znodes.create(f"{paths.DELETED_TOPICS}/{name}")
        cluster.wait("no deletion is left", lambda: not cluster.znodes.children(paths.DELETED_TOPICS))
        cluster.wait("the topic is gone", lambda: not cluster.partitions("doomed"))
        for path in (paths.topic("doomed"), f"{paths.TOPIC_CONFIGS}/doomed"):
            assert cluster.znodes.read(path) is None
        cluster.wait("its logs are gone", lambda: not any(logs_of(node, "doomed") for node in cluster.brokers.values()))


def logs_of(node: Node, topic: str) -> list[Path]:
    """Return the directories of a topic that are not marked for deletion."""
    return [path for path in node.directory.glob(f"{topic}-*") if not path.name.endswith("-delete")]


def write(cluster: ClusterOnZooKeeper, topic: str, partitions: int) -> None:
    """Write a record to each partition, which all in-sync replicas acknowledge."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.direct, "enable.idempotence": True, "log_level": 2})
    for number in range(partitions):
        producer.produce(topic, b"x", partition=number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors == [None] * partitions


class TestRequestsToTheController:
    def test_a_preferred_election(self, cluster: ClusterOnZooKeeper) -> None:
        cluster.create_topic("preferred", assignment=[[1, 2, 3]])
        cluster.kill_and_restart(1)
        cluster.wait("another leader", lambda: cluster.leader("preferred", 0) != 1)
        cluster.wait_until_settled()
        request = {"version": 1, "partitions": [{"topic": "preferred", "partition": 0}]}
        cluster.znodes.create(paths.PREFERRED_ELECTION, json.dumps(request).encode())
        cluster.wait("the preferred leader", lambda: cluster.leader("preferred", 0) == 1)
        cluster.wait("the request is done", lambda: cluster.znodes.read(paths.PREFERRED_ELECTION) is None)

    def test_a_reassignment(self, cluster: ClusterOnZooKeeper) -> None:
        cluster.create_topic("moving", assignment=[[1, 2]])
        write(cluster, "moving", 1)
        request = {"version": 1, "partitions": [{"topic": "moving", "partition": 0, "replicas": [3, 2]}]}
        cluster.znodes.create(paths.REASSIGNMENT, json.dumps(request).encode())
        cluster.wait("the request is done", lambda: cluster.znodes.read(paths.REASSIGNMENT) is None)
        cluster.wait("the new replicas", lambda: set(cluster.partitions("moving")[0].replicas) == {2, 3})
        cluster.wait_until_settled()
        cluster.wait("the old log is gone", lambda: not logs_of(cluster.brokers[1], "moving"))
        write(cluster, "moving", 1)

    def test_the_controllers_znode_is_deleted(self, cluster: ClusterOnZooKeeper) -> None:
        before = cluster.znodes.read(paths.CONTROLLER_EPOCH)
        cluster.znodes.delete(paths.CONTROLLER)
        cluster.controller_broker()
        assert int(cluster.znodes.read(paths.CONTROLLER_EPOCH) or b"0") > int(before or b"0")
        topic = NewTopic("after-the-election", 3, 3)

        def is_created() -> bool:
            """A client may still know the old controller, and then it gets NOT_CONTROLLER."""
            with suppress(KafkaException):
                cluster.admin.create_topics([topic])[topic.topic].result(PATIENCE_S)
            return bool(cluster.partitions(topic.topic))

        cluster.wait("a topic is created", is_created)
        cluster.wait_until_settled()
        write(cluster, topic.topic, 3)


class TestRefusals:
    def test_a_live_broker_of_kafka(self, tmp_path: Path) -> None:
        """tidelog does not join a running cluster of Kafka's brokers, and the error names the broker."""
        with ClusterOnZooKeeper(tmp_path, brokers=(1, 2), program=Program.KAFKA) as cluster:
            cluster.prepare()
            cluster.brokers[1].launch()
            cluster.brokers[1].wait_until_started(PATIENCE_S)
            cluster.brokers[2].program = Program.TIDELOG
            cluster.brokers[2].launch()
            assert cluster.brokers[2].wait_until_ended(PATIENCE_S) != 0
            log = cluster.brokers[2].log_text
            assert "Traceback" not in log
            assert any("broker 1" in line and "tidelog" in line for line in log.splitlines()), log
            assert cluster.znodes.children(paths.BROKER_IDS) == ["1"]
            cluster.brokers[1].stop(PATIENCE_S)
            cluster.brokers[2].launch()
            cluster.brokers[2].wait_until_started(PATIENCE_S)

    def test_two_brokers_with_one_id(self, tmp_path: Path) -> None:
        with ClusterOnZooKeeper(tmp_path, brokers=(1, 2), properties={"broker.id": "1"}) as cluster:
            cluster.prepare()
            cluster.brokers[1].launch()
            cluster.brokers[1].wait_until_started(PATIENCE_S)
            epoch = cluster.znodes.broker_epoch(1)
            cluster.brokers[2].launch()
            assert cluster.brokers[2].wait_until_ended(PATIENCE_S) != 0
            log = cluster.brokers[2].log_text
            assert "Traceback" not in log
            assert any("broker.id" in line and "1" in line for line in log.splitlines()), log
            assert cluster.znodes.broker_epoch(1) == epoch
            assert cluster.brokers[1].is_running
