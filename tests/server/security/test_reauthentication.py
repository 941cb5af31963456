"""Authentication that expires (KIP-368), and delayed responses, with a manual clock."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.harness import WireClient
from server.security.logins import PASSWORD, SecureHome, handshake, is_served, log_in
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode

LIFETIME_MS = 60_000
DELAY_MS = 5_000


class HeldHome(SecureHome):
    """A broker with a manual clock."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            directory,
            {
                "connections.max.reauth.ms": str(LIFETIME_MS),
                "listener.name.sasl.scram-sha-512.connections.max.reauth.ms": "0",
                "connection.failed.authentication.delay.ms": str(DELAY_MS),
            },
            manual_time=True,
        )


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HeldHome]:
    with HeldHome(tmp_path) as running:
        running.set_password("alice")
        yield running


@pytest.fixture
def client(home: HeldHome) -> Iterator[WireClient]:
    with home.wire("SASL") as connected:
        yield connected


def test_a_client_is_told_for_how_long_its_log_in_is_good(home: HeldHome) -> None:
    for mechanism, version, told_ms in (
        ("PLAIN", 2, LIFETIME_MS),
        ("SCRAM-SHA-256", 1, LIFETIME_MS),
        ("SCRAM-SHA-512", 2, 0),
    ):
        with home.wire("SASL") as client:
            assert log_in(client, mechanism, version=version).session_lifetime == told_ms


def test_who_authenticates_again_in_time_is_served_on(home: HeldHome, client: WireClient) -> None:
    log_in(client, "SCRAM-SHA-256")
    for _ in range(3):
        home.advance(LIFETIME_MS - 1)
        assert is_served(client)
        assert log_in(client, "SCRAM-SHA-256").session_lifetime == LIFETIME_MS
    counts = home.listener("SASL").authentications
    assert (counts.successful, counts.successful_reauth, counts.expired) == (1, 3, 0)


def test_who_does_not_is_closed_with_its_next_request(home: HeldHome, caplog: pytest.LogCaptureFixture) -> None:
    for version in (0, 2):
        with caplog.at_level(logging.INFO), home.wire("SASL") as client:
            log_in(client, "PLAIN", version=version)
            home.advance(LIFETIME_MS - 1)
            assert is_served(client)
            home.advance(1)
            assert not is_served(client)
    counts = home.listener("SASL").authentications
    assert (counts.expired, counts.failed, counts.successful_no_reauth) == (2, 0, 1)
    assert sum("its authentication has expired" in record.getMessage() for record in caplog.records) == 2


def test_it_is_never_too_late_to_authenticate_again(home: HeldHome, client: WireClient) -> None:
    """Kafka behaves the same: expired authentication only refuses other requests."""
    log_in(client, "PLAIN")
    home.advance(10 * LIFETIME_MS)
    assert log_in(client, "PLAIN").error_code == 0
    assert is_served(client)


def test_not_more_often_than_once_a_second(home: HeldHome, client: WireClient) -> None:
    log_in(client, "PLAIN")
    assert log_in(client, "PLAIN").error_code == 0
    home.advance(999)
    assert handshake(client, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    home.advance(1)
    assert log_in(client, "PLAIN").error_code == 0


@pytest.mark.parametrize(
    ("user", "password", "told"),
    [
        ("alice", "guess", "Authentication failed: Invalid username or password"),
        ("bob", "bob's", "Cannot change principals during re-authentication from User.alice: User.bob"),
    ],
)
def test_another_password_or_user_ends_the_connection(
    home: HeldHome, client: WireClient, user: str, password: str, told: str
) -> None:
    log_in(client, "PLAIN")
    handshake(client, "PLAIN")
    request = client.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0{user}\0{password}".encode())
    pass_the_delay(home)
    answer = client.receive(ApiKey.SASL_AUTHENTICATE, 2, request)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, told)
    assert client.is_closed_by_broker()
    counts = home.listener("SASL").authentications
    assert (counts.failed_reauth, counts.failed) == (1, 0)


def test_another_mechanism_ends_it_too(home: HeldHome, client: WireClient) -> None:
    log_in(client, "SCRAM-SHA-256")
    assert handshake(client, "PLAIN").error_code == 0
    request = client.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0alice\0{PASSWORD}".encode())
    pass_the_delay(home)
    told = client.receive(ApiKey.SASL_AUTHENTICATE, 2, request).error_message
    assert told == (
        "SASL mechanism 'PLAIN' requested by client is not supported for re-authentication of mechanism 'SCRAM-SHA-256'"
    )
    assert client.is_closed_by_broker()


def test_between_the_handshake_and_the_token_nothing_else_is_answered(home: HeldHome, client: WireClient) -> None:
    log_in(client, "PLAIN")
    handshake(client, "PLAIN")
    client.send(ApiKey.METADATA, 9)
    pass_the_delay(home)
    assert client.is_closed_by_broker()


def test_the_answer_to_a_failed_log_in_waits_and_nothing_is_read_meanwhile(home: HeldHome, client: WireClient) -> None:
    handshake(client, "PLAIN")
    first = client.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0guess")
    client.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0alice\0{PASSWORD}".encode())
    home.wait_for(lambda: home.listener("SASL").authentications.failed == 1)
    home.advance(DELAY_MS - 1)
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive_frame()
    client.socket.settimeout(60)
    home.advance(1)
    try:
        assert client.receive(ApiKey.SASL_AUTHENTICATE, 2, first).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    except ConnectionResetError:
        pass  # the system drops the response if data that was sent after it is never read
    assert client.is_closed_by_broker()
    assert home.counts("SASL") == (0, 1)


def test_who_leaves_while_the_answer_waits_is_forgotten(home: HeldHome) -> None:
    with home.wire("SASL") as client:
        handshake(client, "PLAIN")
        client.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0guess")
        home.wait_for(lambda: home.listener("SASL").authentications.failed == 1)
    home.advance(DELAY_MS)
    home.wait_for(lambda: not home.listener("SASL").connections)


def test_a_log_in_right_after_the_handshake_needs_no_wait(home: HeldHome, client: WireClient) -> None:
    """The client sends both at once, followed by another request."""
    one = client.send(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
    two = client.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0alice\0{PASSWORD}".encode())
    three = client.send(ApiKey.METADATA, 9, topics=[])
    assert client.receive(ApiKey.SASL_HANDSHAKE, 1, one).error_code == 0
    assert client.receive(ApiKey.SASL_AUTHENTICATE, 2, two).error_code == 0
    assert client.receive(ApiKey.METADATA, 9, three).brokers


def pass_the_delay(home: HeldHome) -> None:
    """Advance the clock once the broker delays the response."""
    counts = home.listener("SASL").authentications
    home.wait_for(lambda: counts.failed_reauth == 1)
    home.advance(DELAY_MS)
