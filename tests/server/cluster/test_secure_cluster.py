"""Three processes whose listeners all have TLS: brokers authenticate to each other and to the controller."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from server.cluster.process_cluster import BROKERS, PATIENCE_S, ProcessCluster
from server.security.certificates import Files, write_files

MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule required"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
USERS = {"broker": "b secret", "admin": "a secret", "alice": "alice's"}
REFUSED = "refuses user broker by SASL SCRAM-SHA-256"
REFUSAL = "at listener PLAINTEXT failed: "
WATCHED_S = 5


def common(files: Files) -> dict[str, str]:
    """Return the settings of a node with TLS and an authorizer."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:admin;User:CN=localhost",
    }


def plain(files: Files) -> dict[str, str]:
    """Return the settings of a node: SASL_SSL with PLAIN at every listener."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    login = f'{PLAIN} username="broker" password="{USERS["broker"]}" {users};'
    return {
        **common(files),
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": login,
        "listener.name.plaintext.plain.sasl.jaas.config": login,
    }


def scram_login(mechanism: str, password: str) -> dict[str, str]:
    key = f"listener.name.plaintext.{mechanism.lower()}.sasl.jaas.config"
    return {key: f'{SCRAM} username="broker" password="{password}";'}


def scram(files: Files, mechanism: str) -> dict[str, str]:
    """Return the settings of a node: SCRAM between brokers, and a certificate for the controller.

    A broker knows no user before it has fetched the metadata, so the controller's listener is one without SCRAM.
    """
    return {
        **common(files),
        **scram_login(mechanism, USERS["broker"]),
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SASL_SSL",
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
    }


def users_of(mechanism: str) -> list[str]:
    return [f'{mechanism}=[name={name},password="{password}"]' for name, password in USERS.items()]


def client_of(user: str, files: Files, mechanism: str = "PLAIN") -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(files.authority),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": USERS[user],
        "log_level": 0,
    }


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_brokers_replicate_and_forward_with_tls_and_sasl(tmp_path: Path, mechanism: str) -> None:
    files = write_files(tmp_path / "certificates")
    has_scram = mechanism != "PLAIN"
    settings = scram(files, mechanism) if has_scram else plain(files)
    users = users_of(mechanism) if has_scram else []
    with ProcessCluster(tmp_path, settings, client=client_of("admin", files, mechanism), users=users) as cluster:
        cluster.create_topic("t", 3, {"min.insync.replicas": "3"})  # a broker forwards it for the administrator
        cluster.wait_until_in_sync("t")
        write(cluster, range(30), client_of("admin", files, mechanism))
        require_forwarded_principal(cluster, files, mechanism)
        cluster.wait_until_in_sync("t")
        cluster.stop()
        for partition in range(3):
            copies = {cluster.segment_bytes(number, "t", partition) for number in BROKERS}
            assert len(copies) == 1
            assert b"%d" % (27 + partition) in copies.pop()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_broker_with_a_wrong_password_says_so_and_does_not_hurry(tmp_path: Path) -> None:
    files, mechanism = write_files(tmp_path / "certificates"), "SCRAM-SHA-256"
    client = client_of("admin", files, mechanism)
    with ProcessCluster(tmp_path, scram(files, mechanism), client=client, users=users_of(mechanism)) as cluster:
        cluster.create_topic("t", 3)
        cluster.wait_until_in_sync("t")
        node = cluster.nodes[3]
        node.stop(PATIENCE_S)
        node.set_properties(scram_login(mechanism, "another secret"))
        cluster.restart(3)  # it needs only the controller
        write(cluster, range(30), client)
        cluster.wait_for("broker 3 has reported its password", lambda: REFUSED in node.log)
        attempts = refusals(cluster)
        time.sleep(WATCHED_S)
        assert 0 < refusals(cluster) - attempts <= 2 * 2 * WATCHED_S, "at most two a second at each leader"
        reports = [line for line in node.log.splitlines() if REFUSED in line and "ERROR" in line]
        assert len(reports) == 2, "one for each leader"
        assert all("sasl.jaas.config" in line for line in reports)
        assert "another secret" not in node.log
        assert all(3 not in one.isrs for one in cluster.partitions("t").values())
        node.stop(PATIENCE_S)
        node.set_properties(scram_login(mechanism, USERS["broker"]))
        cluster.restart(3)
        cluster.wait_until_in_sync("t")


def write(cluster: ProcessCluster, values: range, client: Mapping[str, Any]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **client})
    for value in values:
        producer.produce("t", b"%d" % value, partition=value % 3)
    assert producer.flush(PATIENCE_S) == 0


def refusals(cluster: ProcessCluster) -> int:
    """Return the number of failed authentications at the brokers whose password is right."""
    return sum(cluster.nodes[number].log.count(REFUSAL) for number in (1, 2))


def require_forwarded_principal(cluster: ProcessCluster, files: Files, mechanism: str) -> None:
    """Create topics as alice at each broker: only the topic that alice may create comes to be."""
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
    for number in BROKERS:
        alice = AdminClient({"bootstrap.servers": cluster.address(number), **client_of("alice", files, mechanism)})
        (created,) = alice.create_topics([NewTopic(f"of-alice-{number}", 1, 3)]).values()
        created.result(PATIENCE_S)
        (refused,) = alice.create_topics([NewTopic(f"of-bob-{number}", 1, 3)]).values()
        with pytest.raises(KafkaException) as caught:
            refused.result(PATIENCE_S)
        assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
