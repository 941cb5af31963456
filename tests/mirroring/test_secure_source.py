"""A source that requires TLS and SASL: the client's properties file is Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from cli.runner import run
from mirroring.source_and_copy import assert_equal, produce
from server.security.certificates import authority
from server.security.logins import PASSWORD, SecureHome, secure_broker
from tidelog.client import AuthenticationError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHome]:
    root = tmp_path_factory.mktemp("secure")
    with secure_broker(root, {"connection.failed.authentication.delay.ms": "1", "log.retention.ms": "-1"}) as running:
        running.create_topic("orders")
        yield running


def properties(password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().pem,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="alice" password="{password}";',
    }


def test_a_file_of_kafkas_client_keys(home: SecureHome, tmp_path: Path) -> None:
    produce(home, "orders", [b"a", b"b"], config={"bootstrap.servers": home.bootstrap})
    file = tmp_path / "client.properties"
    lines = (f"{key}={value}".replace("\n", "\\\n") for key, value in properties().items())
    file.write_text("\n".join(lines).replace("\\\n", "\\n\\\n"))
    servers = f"localhost:{home.listener('BOTH').port}"
    words = ("--command-config", file, "--no-groups", "--min-free", "0", tmp_path / "copy", "--apply")
    assert "1 of 1 partitions are complete" in run("mirror", "--from", servers, *words).stdout
    assert_equal(home.directory, tmp_path / "copy", "orders-0")


def test_settings_of_the_python_api_and_a_wrong_password(home: SecureHome, tmp_path: Path) -> None:
    servers = f"localhost:{home.listener('BOTH').port}"
    with pytest.raises(AuthenticationError, match=r"refuses user .*alice"):
        tidelog.mirror(servers, tmp_path / "copy", command_config=properties("wrong"), min_free=0)
    assert not (tmp_path / "copy").exists()
    done = tidelog.mirror(servers, tmp_path / "copy", command_config=properties(), groups=False, min_free=0)
    assert done.is_complete
    with pytest.raises(tidelog.ConfigError, match=r"did you mean sasl\.mechanism"):
        tidelog.mirror(servers, tmp_path / "copy", command_config={"sasl.mechanisms": "PLAIN"})
