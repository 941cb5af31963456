"""Real clients authenticate at every broker of three processes, which authenticate to each other as well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from server.clients.adapters import ADAPTERS
from server.clients.test_security import (
    options,
    test_libraries_understand_that_the_password_is_wrong,
    test_records_come_back_as_they_were_sent,
)
from server.clients.three_brokers import REPLICATED
from server.cluster.process_cluster import BROKERS, PATIENCE_S, ProcessCluster
from server.cluster.test_secure_cluster import client_of, plain
from server.harness import KEEPING
from server.security.certificates import CLIENT_NAME, Files, write_files
from server.security.logins import LISTENERS, MECHANISMS, PASSWORD, security_settings

__all__ = [
    "test_libraries_understand_that_the_password_is_wrong",
    "test_records_come_back_as_they_were_sent",
]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OF_CLIENTS = [name for name in LISTENERS if name != "PLAINTEXT"]
SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


def settings(files: Files) -> dict[str, str]:
    """Return the settings of a node: a listener of each kind for clients, and SASL_SSL between the nodes."""
    own = {name: value for name, value in security_settings(files).items() if name != "listeners"}
    protocols = [f"{name}:{LISTENERS[name]}" for name in OF_CLIENTS]
    mechanisms = {f"listener.name.{name}.sasl.enabled.mechanisms": ",".join(MECHANISMS) for name in ("sasl", "both")}
    between = plain(files)
    return {
        **KEEPING,
        **REPLICATED,
        **own,
        **between,
        **mechanisms,
        "listener.security.protocol.map": ",".join([between["listener.security.protocol.map"], *protocols]),
        "allow.everyone.if.no.acl.found": "true",
        "kafka.metrics.reporters": "prometheus",
        "tidelog.prometheus.port": "0",
    }


class SecureBrokers:
    """The cluster with the part of ``SecureHome`` that the tests use."""

    def __init__(self, cluster: ProcessCluster, files: Files) -> None:
        self.cluster = cluster
        self.files = files

    def create_topic(self, name: str) -> None:
        self.cluster.create_topic(name, 1)
        self.cluster.wait_until_in_sync(name)

    def servers(self, listener: str) -> str:
        return ",".join(self.cluster.address(number, listener) for number in BROKERS)

    def counts(self, listener: str) -> tuple[int, int]:
        """Return the numbers of successful and failed authentications at all brokers."""
        found = [self._count(number, listener, what) for number in BROKERS for what in ("successful", "failed")]
        return sum(found[::2]), sum(found[1::2])

    def set_password(self, user: str) -> None:
        """Set the password for both SCRAM mechanisms, and wait until each broker knows it."""
        for name, mechanism in SCRAM.items():
            new = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            (altered,) = self.cluster.admin.alter_user_scram_credentials([new]).values()
            altered.result(PATIENCE_S)
            login = {"log_level": 0, **options(self, ADAPTERS[0], "SASL", name, PASSWORD)}
            for number in BROKERS:
                client = AdminClient({"bootstrap.servers": self.cluster.address(number, "SASL"), **login})
                client.list_topics(timeout=PATIENCE_S)

    def _count(self, number: int, listener: str, what: str) -> int:
        """Return a count of the metrics that a broker offers to Prometheus."""
        address = re.search(r"http://\S+", self.cluster.nodes[number].log)
        assert address is not None, "a broker logs the address of its metrics"
        with urlopen(address[0], timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        name = f"{what}_authentication_total"
        (value,) = re.findall(rf'{name}{{listener="{listener}"}} (\S+)', text)
        return int(float(value))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBrokers]:
    root: Path = tmp_path_factory.mktemp("secure")
    files = write_files(root / "certificates")
    client = client_of("admin", files)
    with ProcessCluster(root, settings(files), client=client, listeners=OF_CLIENTS) as cluster:
        brokers = SecureBrokers(cluster, files)
        brokers.set_password("alice")
        yield brokers


def test_a_certificate_gives_its_name(home: SecureBrokers) -> None:
    """The counterpart of the test that reads the name in the broker's process: only that name may write to a topic."""
    home.create_topic("of-alice")
    binding = AclBinding(
        ResourceType.TOPIC,
        "of-alice",
        ResourcePatternType.LITERAL,
        f"User:{CLIENT_NAME}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    (granted,) = home.cluster.admin.create_acls([binding]).values()
    granted.result(PATIENCE_S)
    home.cluster.wait_for("a stranger is refused", lambda: error_at(home, "TLS") is not None)
    assert error_at(home, "TLS") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert error_at(home, "MUTUAL") is None


def error_at(home: SecureBrokers, listener: str) -> int | None:
    """Send a record over a listener. Return the code of its error, or None if it is accepted."""
    errors: list[KafkaError | None] = []
    own = options(home, ADAPTERS[0], listener, "", "")
    producer = Producer({"bootstrap.servers": home.servers(listener), "log_level": 0, **own})
    producer.produce("of-alice", b"value", on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    (error,) = errors
    return None if error is None else error.code()
