"""Keys and mechanisms of listeners that change while the broker runs take effect for new connections."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.configs.test_dynamic_settings import BROKER, alter
from server.security.certificates import Authority
from server.security.logins import SecureHome, TlsClient, handshake, is_served, log_in, secure_broker
from tidelog.protocol.errors import ErrorCode

NODE = "1"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SecureHome]:
    with secure_broker(tmp_path) as running:
        yield running


def test_a_new_key_is_shown_to_new_clients(home: SecureHome, tmp_path: Path) -> None:
    other = Authority("others")
    identity = other.issue_named("localhost")
    (tmp_path / "other.pem").write_text(identity.key_pem() + identity.chain_pem)
    trusting = ssl.create_default_context(cadata=other.pem)
    with home.wire("PLAINTEXT") as admin, home.wire("TLS") as before:
        assert is_served(before)
        alter(admin, BROKER, NODE, "listener.name.tls.ssl.keystore.location", str(tmp_path / "other.pem"))
        with TlsClient(home.listener("TLS").port, trusting) as after:
            assert is_served(after)
        assert is_served(before)
        home.restart()
        with TlsClient(home.listener("TLS").port, trusting) as later:
            assert is_served(later)


def test_one_that_cannot_be_used_leaves_things_as_they_are(home: SecureHome, caplog: pytest.LogCaptureFixture) -> None:
    with home.wire("PLAINTEXT") as admin:
        alter(admin, BROKER, NODE, "listener.name.tls.ssl.keystore.location", "/nowhere")
        with home.wire("TLS") as client:
            assert is_served(client)
    assert "The new security settings of listener TLS are invalid, so the old ones stay: " in caplog.text
    assert "/nowhere cannot be read" in caplog.text


def test_mechanisms_come_and_go(home: SecureHome) -> None:
    with home.wire("PLAINTEXT") as admin:
        alter(admin, BROKER, NODE, "listener.name.sasl.sasl.enabled.mechanisms", "SCRAM-SHA-512")
    with home.wire("SASL") as client:
        assert handshake(client, "PLAIN").error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    with home.wire("SASL") as client:
        assert log_in(client, "SCRAM-SHA-512").error_code == 0
