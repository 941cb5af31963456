"""Kafka's own client and tools set and describe users, and authenticate over every protocol and mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from real_kafka.kafka_tools import KafkaTools
from server.security.certificates import PASSWORD as STORE_PASSWORD
from server.security.logins import LISTENERS, MECHANISMS, PASSWORD, SecureHome, log_in, secure_broker
from tidelog.config.java_properties import store_line

pytestmark = pytest.mark.kafka

CONFIGS = "kafka-configs"
USERS = ("--entity-type", "users")
MODULES = {"PLAIN": "plain.Plain", "SCRAM-SHA-256": "scram.Scram", "SCRAM-SHA-512": "scram.Scram"}
CASES = [
    ("TLS", ""),
    ("MUTUAL", ""),
    *((listener, mechanism) for listener in ("SASL", "BOTH") for mechanism in MECHANISMS),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHome]:
    advertised = {"advertised.listeners": ",".join(f"{name}://localhost:0" for name in LISTENERS)}
    settings = advertised | {"log.retention.ms": "-1", "offsets.topic.replication.factor": "1"}
    with secure_broker(tmp_path_factory.mktemp("secure"), settings) as running:
        yield running


def client_file(home: SecureHome, path: Path, listener: str, mechanism: str, password: str = PASSWORD) -> str:
    texts: dict[str, str] = {"security.protocol": LISTENERS[listener]}
    if "SSL" in LISTENERS[listener]:
        texts |= {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(home.files.trust_store),
            "ssl.truststore.password": STORE_PASSWORD,
        }
    if listener == "MUTUAL":
        texts |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(home.files.client_store),
            "ssl.keystore.password": STORE_PASSWORD,
        }
    if mechanism:
        module = f"org.apache.kafka.common.security.{MODULES[mechanism]}LoginModule"
        texts |= {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="alice" password="{password}";',
        }
    return written(path, texts)


def written(path: Path, texts: Mapping[str, str]) -> str:
    path.write_text("".join(f"{store_line(key, text)}\n" for key, text in texts.items()))
    return str(path)


@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_the_java_client_is_let_in(
    home: SecureHome, tools: KafkaTools, tmp_path: Path, listener: str, mechanism: str
) -> None:
    before = home.counts(listener)
    at = tools.at(f"localhost:{home.listener(listener).port}")
    config = client_file(home, tmp_path / "client.properties", listener, mechanism)
    topic = f"java-{listener}-{mechanism}"
    at.told("kafka-topics", "--command-config", config, "--create", "--topic", topic)
    given = ("--topic", topic)
    at.told("kafka-console-producer", "--command-config", config, *given, standard_input="one\ntwo\n")
    bounds = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    assert at.told("kafka-console-consumer", "--command-config", config, *given, *bounds) == ["one", "two"]
    let_in, refused = home.counts(listener)
    assert let_in >= before[0] + 3
    assert refused == before[1]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_java_client_understands_that_the_password_is_wrong(
    home: SecureHome, tools: KafkaTools, tmp_path: Path, mechanism: str
) -> None:
    at = tools.at(f"localhost:{home.listener('SASL').port}")
    config = client_file(home, tmp_path / "client.properties", "SASL", mechanism, "guess")
    refused = at.run("kafka-topics", "--command-config", config, "--list")
    assert refused.code == 1
    assert "SaslAuthenticationException" in refused.err


def test_users_are_set_described_and_removed(home: SecureHome, tools: KafkaTools) -> None:
    at = tools.at(f"localhost:{home.listener('PLAINTEXT').port}")
    bob = (*USERS, "--entity-name", "bob")
    strong, usual = "SCRAM-SHA-256=[iterations=8192,password=bobs secret]", "SCRAM-SHA-512=[password=bobs secret]"
    twice = at.run(CONFIGS, "--alter", *bob, "--add-config", f"{strong},{usual}")
    assert "cannot be altered twice in the same request" in twice.err, "Kafka's controller takes a user once"
    for credential in (strong, usual):
        at.told(CONFIGS, "--alter", *bob, "--add-config", credential)
    of_bob = "SCRAM credential configs for user-principal 'bob' are"
    both = "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    assert at.told(CONFIGS, "--describe", *bob) == [f"{of_bob} {both}"]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with home.wire("SASL") as client:
            assert log_in(client, mechanism, "bob", "bobs secret").error_code == 0
    described = at.told(CONFIGS, "--describe", *USERS)
    assert any("'alice' are" in line for line in described)
    at.told(CONFIGS, "--alter", *bob, "--delete-config", "SCRAM-SHA-256")
    assert at.told(CONFIGS, "--describe", *bob) == [f"{of_bob} SCRAM-SHA-512=iterations=4096"]
    refused = at.run(CONFIGS, "--alter", *bob, "--add-config", "SCRAM-SHA-256=[iterations=20000,password=x]")
    assert refused.code == 1
    assert "Too many iterations" in refused.err
