"""Three processes whose listeners all have TLS and SASL: brokers authenticate to each other and to the controller."""

from __future__ import annotations

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

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = {"broker": "b secret", "admin": "a secret", "alice": "alice's"}


def secure(files: Files) -> dict[str, str]:
    """Return the settings of a node: SASL_SSL with PLAIN at every listener, and an authorizer."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    login = f'{PLAIN} username="broker" password="{USERS["broker"]}" {users};'
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": login,
        "listener.name.plaintext.plain.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:admin",
    }


def client_of(user: str, files: Files) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(files.authority),
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "log_level": 0,
    }


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_brokers_replicate_and_forward_with_tls_and_sasl(tmp_path: Path) -> None:
    files = write_files(tmp_path / "certificates")
    with ProcessCluster(tmp_path, secure(files), client=client_of("admin", files)) as cluster:
        cluster.create_topic("t", 3, {"min.insync.replicas": "3"})  # a broker forwards it for the administrator
        cluster.wait_until_in_sync("t")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **client_of("admin", files)})
        for number in range(30):
            producer.produce("t", b"%d" % number, partition=number % 3)
        assert producer.flush(PATIENCE_S) == 0
        require_forwarded_principal(cluster, files)
        cluster.wait_until_in_sync("t")
        cluster.stop()
        for partition in range(3):
            copies = {cluster.segment_bytes(number, "t", partition) for number in BROKERS}
            assert len(copies) == 1
            assert b"%d" % (27 + partition) in copies.pop()


def require_forwarded_principal(cluster: ProcessCluster, files: Files) -> None:
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
        alice = AdminClient({"bootstrap.servers": cluster.address(number), **client_of("alice", files)})
        (created,) = alice.create_topics([NewTopic(f"of-alice-{number}", 1, 3)]).values()
        created.result(PATIENCE_S)
        (refused,) = alice.create_topics([NewTopic(f"of-bob-{number}", 1, 3)]).values()
        with pytest.raises(KafkaException) as caught:
            refused.result(PATIENCE_S)
        assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
