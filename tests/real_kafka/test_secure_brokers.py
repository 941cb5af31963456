"""A broker of Kafka 4.4 and one of tidelog under the controller of either, with SASL_SSL at every listener.

The nodes' files differ only in their listeners. Brokers authenticate to the controller by PLAIN and a
certificate, and to each other by SCRAM, as a user of the formatted cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from real_kafka.broker import BrokerError
from real_kafka.cluster import CONTROLLER, PATIENCE_S, Cluster
from real_kafka.cluster_node import Node, Program
from server.security.certificates import PASSWORD, Files, write_files
from tidelog.client import Address, ClientSettings, open_connection
from tidelog.config.client_config import ClientConfig
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode

pytestmark = pytest.mark.kafka

KAFKA, TIDELOG = 1, 2
IN_SYNC = {"min.insync.replicas": "2"}
MECHANISM = "SCRAM-SHA-512"
MODULES = "org.apache.kafka.common.security"
USERS = {"broker": "b secret", "admin": "a secret", "alice": "alice's"}


def scram_login(user: str) -> str:
    return f'{MODULES}.scram.ScramLoginModule required username="{user}" password="{USERS[user]}";'


def plain_login(password: str) -> str:
    login = f'{MODULES}.plain.PlainLoginModule required username="node" password="{password}"'
    return f'{login} user_node="n secret";'


def security(files: Files, role: str) -> dict[str, str]:
    """Return the settings of a node. The listeners have key stores and mechanisms of their own."""
    return {
        "listener.security.protocol.map": "CLIENT:SASL_SSL,INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL",
        "early.start.listeners": "CONTROLLER" if role == "controller" else "INTERNAL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(files.server),
        "listener.name.controller.ssl.keystore.type": "PEM",
        "listener.name.controller.ssl.keystore.location": str(files.client),
        "listener.name.internal.ssl.keystore.type": "PKCS12",
        "listener.name.internal.ssl.keystore.location": str(files.server_store),
        "listener.name.internal.ssl.keystore.password": PASSWORD,
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": plain_login("n secret"),
        f"listener.name.internal.{MECHANISM.lower()}.sasl.jaas.config": scram_login("broker"),
        f"listener.name.client.{MECHANISM.lower()}.sasl.jaas.config": scram_login("broker"),
        "super.users": "User:node;User:broker;User:admin",
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.replication.factor": "2",
    }


class SecureCluster(Cluster):
    def __init__(self, root: Path, controller: Program) -> None:
        users = [f"{MECHANISM}=[name={name},password={password}]" for name, password in USERS.items()]
        programs = {TIDELOG: Program.TIDELOG, CONTROLLER: controller}
        super().__init__(root, brokers=(KAFKA, TIDELOG), programs=programs, users=users)
        self.files = write_files(root / "certificates")

    def client(self, user: str) -> dict[str, Any]:
        """Return the settings of a user's client."""
        return {
            "bootstrap.servers": self.direct,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.files.authority),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": USERS[user],
            "log_level": 2,
        }

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(self.client("admin"))
        return self._admin

    def settings(self, user: str) -> ClientSettings:
        """Return the settings of a user for tidelog's client, which asks the broker that the test names."""
        texts = {
            "bootstrap.servers": self.direct,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.files.authority),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": scram_login(user),
        }
        return ClientSettings.of(ClientConfig.load(overrides=texts))

    def _node(self, number: int, role: str, properties: Mapping[str, str]) -> Node:
        return super()._node(number, role, {**properties, **security(self.files, role)})


@pytest.fixture(scope="module", params=list(Program), ids=lambda program: program.name.lower())
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with SecureCluster(tmp_path_factory.mktemp("secure"), request.param) as running:
        running.start()
        yield running


def test_brokers_replicate_in_both_directions(cluster: SecureCluster) -> None:
    cluster.create_topic("t", assignment=[[KAFKA, TIDELOG], [TIDELOG, KAFKA]], config=IN_SYNC)
    producer = Producer({**cluster.client("admin"), "acks": "all"})
    for number in range(20):
        producer.produce("t", b"%d" % number, partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    in_transactions(cluster, range(20, 24))
    spread_coordinators(cluster)
    in_transactions(cluster, range(24, 40))  # markers and verifications go both ways as well
    assert sorted(read(cluster, 60)) == sorted([*range(40), *range(20, 40)])
    cluster.wait("all are in sync", lambda: all(len(cluster.in_sync("t", number)) == 2 for number in range(2)))


def in_transactions(cluster: SecureCluster, values: range) -> None:
    """Write each value to both partitions in a transaction. The transactional ids have both coordinators."""
    for value in values:
        producer = Producer({**cluster.client("admin"), "transactional.id": f"x{value % 4}"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("t", b"%d" % value, partition=partition)
        producer.commit_transaction(PATIENCE_S)


def spread_coordinators(cluster: SecureCluster) -> None:
    """Wait until each broker is the coordinator of some transactional ids."""
    topic = "__transaction_state"
    partitions = [TopicPartition(topic, number) for number in cluster.partitions(topic)]

    def are_spread() -> bool:
        cluster.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(PATIENCE_S)
        return {one.leader for one in cluster.partitions(topic).values()} == {KAFKA, TIDELOG}

    cluster.wait("both brokers are coordinators", are_spread)


def read(cluster: SecureCluster, count: int) -> list[int]:
    group = {"group.id": "g", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({**cluster.client("admin"), **group})
    consumer.subscribe(["t"])
    values: list[int] = []

    def are_read() -> bool:
        values.extend(int(one.value() or b"") for one in consumer.consume(count, 1) if one.error() is None)
        return len(values) >= count

    cluster.wait("the records are read", are_read)
    consumer.close()
    return values


def test_brokers_forward_with_the_clients_principal(cluster: SecureCluster) -> None:
    """Only the topics that alice may create come to be, whichever broker she asks."""
    binding = AclBinding(
        ResourceType.TOPIC,
        "of-alice",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.CREATE,
        AclPermissionType.ALLOW,
    )
    (granted,) = cluster.admin.create_acls([binding]).values()
    granted.result(PATIENCE_S)
    for number in (KAFKA, TIDELOG):
        errors = created(cluster, "alice", number, f"of-alice-{number}", f"of-bob-{number}")
        assert errors == [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    known: set[str] = set()

    def are_known() -> bool:
        known.update(name for name in cluster.admin.list_topics(timeout=10).topics if name.startswith("of-"))
        return "of-alice-2" in known

    cluster.wait("the last topic is known", are_known)
    assert known == {"of-alice-1", "of-alice-2"}


def created(cluster: SecureCluster, user: str, broker: int, *names: str) -> list[int]:
    """Ask a broker to create topics as a user, and return the errors."""
    host, _, port = cluster.direct.split(",")[broker - 1].rpartition(":")
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 2} for name in names]

    async def ask() -> list[int]:
        connection = await open_connection(Address(host, int(port)), cluster.settings(user))
        response = await connection.send(ApiKey.CREATE_TOPICS, {"topics": topics, "timeout": 30_000})
        connection.close()
        errors = {topic.name: int(topic.error_code) for topic in response.topics}
        return [errors[name] for name in names]

    return asyncio.run(asyncio.wait_for(ask(), PATIENCE_S))


def test_a_broker_with_a_wrong_password_for_the_controller_stops_with_the_reason(cluster: SecureCluster) -> None:
    cluster.stop(TIDELOG)
    node = cluster.brokers[TIDELOG]
    file = node.properties_file.read_text()
    wrong = {
        "listener.name.controller.plain.sasl.jaas.config": plain_login("another secret"),
        "initial.broker.registration.timeout.ms": "4000",
    }
    node.properties_file.write_text(file + "".join(f"{key}={value}\n" for key, value in wrong.items()))
    node.launch()
    with pytest.raises(BrokerError, match="refuses user node by SASL PLAIN: Authentication failed: Invalid username"):
        node.wait_until_started(PATIENCE_S)
    log = node.log_file.read_text()
    assert "Traceback" not in log
    assert "another secret" not in log
    node.properties_file.write_text(file)
    cluster.restart(TIDELOG)
    cluster.wait("both are in sync", lambda: cluster.in_sync("t", 0) == {KAFKA, TIDELOG})
