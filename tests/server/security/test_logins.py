"""Authentication at listeners with SASL or TLS: success, responses to failures, log lines and counters."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.harness import WireClient
from server.security.certificates import CLIENT_NAME, Authority, authority
from server.security.logins import (
    MECHANISMS,
    PASSWORD,
    SecureHome,
    TlsClient,
    bare,
    connected,
    handshake,
    is_served,
    log_in,
    secure_broker,
    token,
    user_of,
)
from server.security.test_scram_exchange import Client
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.frames import length_prefix
from tidelog.server.metadata.requests import ScramDeletion

GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism "


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHome]:
    delay = {"connection.failed.authentication.delay.ms": "1"}
    with secure_broker(tmp_path_factory.mktemp("secure"), delay) as running:
        yield running


@pytest.fixture(autouse=True)
def _nobody_is_left(home: SecureHome) -> Iterator[None]:
    yield
    home.wait_for(lambda: not any(listener.connections for listener in home.server.listeners))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL", "BOTH"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_knows_the_password_is_served(home: SecureHome, listener: str, mechanism: str, version: int) -> None:
    before = home.counts(listener)
    with home.wire(listener) as client:
        assert client.call(ApiKey.API_VERSIONS, 2).error_code == 0
        assert log_in(client, mechanism, version=version).error_code == 0
        assert is_served(client)
        assert user_of(home, listener) == "User:alice"
    assert home.counts(listener) == (before[0] + 1, before[1])


def test_without_asking_for_versions_too(home: SecureHome) -> None:
    with home.wire("SASL") as client:
        assert log_in(client, "SCRAM-SHA-256").error_code == 0
        assert is_served(client)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tokens_without_headers_are_those_of_old_clients(home: SecureHome, mechanism: str) -> None:
    with home.wire("SASL") as client:
        assert handshake(client, mechanism, version=0).error_code == 0
        if mechanism == "PLAIN":
            assert bare(client, f"\0alice\0{PASSWORD}".encode()) == b""
        else:
            (kind,) = [one for one in home.server.metadata.image.scram_credentials if one.title == mechanism]
            scram = Client(password=PASSWORD, mechanism=kind)
            scram.verify(bare(client, scram.final(bare(client, scram.first()))))
        assert is_served(client)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "guess"), ("mallory", PASSWORD), ("mallory", "guess")])
def test_a_wrong_name_and_a_wrong_password_are_told_the_same(
    home: SecureHome, caplog: pytest.LogCaptureFixture, mechanism: str, user: str, password: str
) -> None:
    """Kafka's message is returned, the log gets one line without name and password, and the connection is closed."""
    before = home.counts("SASL")
    with home.wire("SASL") as client:
        answer = log_in(client, mechanism, user, password)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        expected = (
            "Authentication failed: Invalid username or password" if mechanism == "PLAIN" else GENERIC + mechanism
        )
        assert answer.error_message == expected
        assert client.is_closed_by_broker()
    (line,) = lines(caplog)
    assert line.endswith("authentication at listener SASL failed: a wrong name or password")
    assert user not in line
    assert password not in line
    assert home.counts("SASL") == (before[0], before[1] + 1)


def test_a_password_that_was_taken_back_is_none(home: SecureHome) -> None:
    home.set_password("carol", "one")
    with home.wire("SASL") as client:
        assert log_in(client, "SCRAM-SHA-512", "carol", "one").error_code == 0
    home.set_password("carol", "two")
    for password, code in (("one", ErrorCode.SASL_AUTHENTICATION_FAILED), ("two", ErrorCode.NONE)):
        with home.wire("SASL") as client:
            assert log_in(client, "SCRAM-SHA-512", "carol", password).error_code == code
    home.run(lambda: home.server.controller.alter_scram_users([ScramDeletion("carol", 2)], []))
    for mechanism, code in (("SCRAM-SHA-512", ErrorCode.SASL_AUTHENTICATION_FAILED), ("SCRAM-SHA-256", ErrorCode.NONE)):
        with home.wire("SASL") as client:
            assert log_in(client, mechanism, "carol", "two").error_code == code


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(
    home: SecureHome, caplog: pytest.LogCaptureFixture
) -> None:
    for mechanism in ("GSSAPI", "SCRAM-SHA-1", "plain", "", "x" * 10_000):
        with home.wire("SASL") as client:
            answer = handshake(client, mechanism)
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert answer.mechanisms == MECHANISMS
            assert client.is_closed_by_broker()
    assert all("is not offered" in line and len(line) < 250 for line in lines(caplog))


FIRST, AFTER_VERSIONS, AFTER_HANDSHAKE = "first", "after versions", "after the handshake"


@pytest.mark.parametrize(
    ("api", "version", "when"),
    [
        *(
            (api, version, when)
            for when in (FIRST, AFTER_VERSIONS, AFTER_HANDSHAKE)
            for api, version in ((ApiKey.METADATA, 9), (ApiKey.PRODUCE, 3), (ApiKey.FETCH, 4))
        ),
        (ApiKey.SASL_AUTHENTICATE, 0, FIRST),
        (ApiKey.SASL_AUTHENTICATE, 0, AFTER_VERSIONS),
        (ApiKey.API_VERSIONS, 0, AFTER_VERSIONS),
        (ApiKey.API_VERSIONS, 0, AFTER_HANDSHAKE),
        (ApiKey.SASL_HANDSHAKE, 1, AFTER_HANDSHAKE),
    ],
)
def test_nothing_else_is_answered_before(
    home: SecureHome, caplog: pytest.LogCaptureFixture, api: ApiKey, version: int, when: str
) -> None:
    before = home.counts("SASL")
    with home.wire("SASL") as client:
        if when != FIRST:
            client.call(ApiKey.API_VERSIONS, 0)
        if when == AFTER_HANDSHAKE:
            handshake(client, "PLAIN")
        client.send(api, version)
        with pytest.raises(ConnectionError):
            client.receive_frame()
    (line,) = lines(caplog)
    assert f"received {api.title} instead of Sasl{'Authenticate' if when == AFTER_HANDSHAKE else 'Handshake'}" in line
    assert home.counts("SASL") == (before[0], before[1] + 1)


def test_versions_of_a_later_release_are_asked_for_again(home: SecureHome) -> None:
    with home.wire("SASL") as client:
        header = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1) + b"\0"
        client.socket.sendall(length_prefix([header]) + header)
        assert client.receive_frame()[4:6] == struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)
        assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
        assert log_in(client, "PLAIN").error_code == 0


def test_a_log_in_of_who_is_in_is_an_error_and_no_more(home: SecureHome) -> None:
    """This holds if authentication never expires, and at a listener without authentication."""
    for name in ("SASL", "PLAINTEXT"):
        with home.wire(name) as client:
            if name == "SASL":
                log_in(client, "PLAIN")
            assert handshake(client, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
            answer = token(client, f"\0bob\0{PASSWORD}".encode())
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert is_served(client)


def test_before_a_client_is_known_its_requests_are_small(home: SecureHome, caplog: pytest.LogCaptureFixture) -> None:
    """A large request is refused by its announced size. After authentication, the usual limit applies."""
    before = home.counts("SASL")
    with connected(home.listener("SASL").port) as sock:
        sock.sendall(struct.pack(">i", 524_289))
        assert sock.recv(1) == b""
    assert "a frame announces 524289 bytes, but the limit is 524288" in lines(caplog)[0]
    assert home.counts("SASL") == (before[0], before[1] + 1)
    with home.wire("SASL") as client:
        log_in(client, "PLAIN")
        names = [{"name": f"{number:0200}", "topic_id": None} for number in range(3000)]
        assert len(client.call(ApiKey.METADATA, 12, topics=names, allow_auto_topic_creation=False).topics) == 3000


def test_an_exchange_that_was_overheard_is_of_no_use(home: SecureHome, caplog: pytest.LogCaptureFixture) -> None:
    scram = Client(password=PASSWORD)
    with home.wire("SASL") as client:
        handshake(client, "SCRAM-SHA-256")
        final = scram.final(token(client, scram.first()).auth_bytes)
        assert token(client, final).error_code == 0
    with home.wire("SASL") as client:
        handshake(client, "SCRAM-SHA-256")
        token(client, scram.first())
        answer = token(client, final)
        assert answer.error_message == GENERIC + "SCRAM-SHA-256"
    assert lines(caplog)[0].endswith("its final message has another nonce: a replay")


@pytest.mark.parametrize("header", ["p=tls-server-end-point,,", "y,,"])
def test_channel_binding_is_not_pretended(home: SecureHome, header: str) -> None:
    with home.wire("BOTH") as client:
        handshake(client, "SCRAM-SHA-256")
        answer = token(client, Client(password=PASSWORD, header=header).first())
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == GENERIC + "SCRAM-SHA-256"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(MECHANISMS), st.lists(st.binary(max_size=200), min_size=1, max_size=3))
def test_any_tokens_are_refused(home: SecureHome, mechanism: str, tokens: list[bytes]) -> None:
    with home.wire("SASL") as client:
        handshake(client, mechanism)
        answer = token(client, tokens[0])
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed_by_broker()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(["SASL", "TLS", "BOTH"]), st.binary(min_size=4, max_size=300))
def test_any_bytes_instead_of_a_log_in_do_no_harm(home: SecureHome, listener: str, data: bytes) -> None:
    with connected(home.listener(listener).port) as sock:
        sock.sendall(data)
    with home.wire("SASL") as client:
        assert log_in(client, "PLAIN").error_code == 0


# --- TLS ---


def test_a_client_with_a_certificate_is_its_name(home: SecureHome) -> None:
    context = ssl.create_default_context(cadata=authority().pem)
    context.load_cert_chain(home.files.client)
    before = home.counts("MUTUAL")
    with TlsClient(home.listener("MUTUAL").port, context) as client:
        assert is_served(client)
        assert user_of(home, "MUTUAL") == f"User:{CLIENT_NAME}"
    assert home.counts("MUTUAL") == (before[0] + 1, before[1])
    with home.wire("TLS") as client:
        assert is_served(client)
        assert user_of(home, "TLS") == "User:ANONYMOUS"


@pytest.mark.parametrize("shown", ["none", "of others"])
def test_a_client_without_a_certificate_that_is_trusted_is_not_served(
    home: SecureHome, caplog: pytest.LogCaptureFixture, tmp_path: Path, shown: str
) -> None:
    context = ssl.create_default_context(cadata=authority().pem)
    if shown == "of others":
        identity = Authority("others").issue_named("alice")
        (tmp_path / "other.pem").write_text(identity.key_pem() + identity.certificate_pem)
        context.load_cert_chain(tmp_path / "other.pem")
    before = home.counts("MUTUAL")
    with TlsClient(home.listener("MUTUAL").port, context) as client, pytest.raises((ssl.SSLError, OSError)):
        client.call(ApiKey.METADATA, topics=[])
    home.wait_for(lambda: home.listener("MUTUAL").authentications.failed == before[1] + 1)
    (line,) = lines(caplog)
    untrusted = "the client's certificate is not valid: unable to get"
    reason = "peer did not return a certificate" if shown == "none" else untrusted
    assert f"TLS handshake at listener MUTUAL failed: {reason}" in line


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL", "BOTH"])
def test_a_client_without_tls_is_refused_where_there_is_tls(
    home: SecureHome, caplog: pytest.LogCaptureFixture, listener: str
) -> None:
    before = home.counts(listener)
    with WireClient(home.listener(listener).port) as client:
        client.send(ApiKey.API_VERSIONS, 0)
        assert client.is_closed_by_broker()
    (line,) = lines(caplog)
    assert f"TLS handshake at listener {listener} failed: " in line
    assert home.counts(listener) == (before[0], before[1] + 1)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL"])
def test_a_client_with_tls_is_refused_where_there_is_none(
    home: SecureHome, caplog: pytest.LogCaptureFixture, listener: str
) -> None:
    before = home.counts(listener)
    with pytest.raises(OSError):
        TlsClient(home.listener(listener).port)
    home.wait_for(lambda: not home.listener(listener).connections)
    (line,) = lines(caplog)
    assert "a TLS client may have connected to a port without TLS" in line
    assert home.counts(listener) == (before[0], before[1] + (listener == "SASL"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_refused(home: SecureHome, caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.create_default_context(cadata=authority().pem)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    before = home.counts("TLS")
    with pytest.raises(OSError):
        TlsClient(home.listener("TLS").port, context)
    home.wait_for(lambda: home.listener("TLS").authentications.failed == before[1] + 1)
    assert lines(caplog)[0].endswith("failed: unsupported protocol")


def test_who_leaves_within_the_handshake_is_not_worth_a_line(
    home: SecureHome, caplog: pytest.LogCaptureFixture
) -> None:
    before = home.counts("TLS")
    for data in (b"", b"\x16\x03\x01\x02\x00"):
        with connected(home.listener("TLS").port) as sock:
            sock.sendall(data)
    home.wait_for(lambda: not home.listener("TLS").connections)
    assert lines(caplog) == []
    assert home.counts("TLS") == before


def test_what_is_not_tls_after_the_handshake_ends_the_connection(
    home: SecureHome, caplog: pytest.LogCaptureFixture
) -> None:
    with home.wire("TLS") as client:
        assert is_served(client)
        raw = client.socket.detach()
        with socket.socket(fileno=raw) as sock:
            sock.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            home.wait_for(lambda: not home.listener("TLS").connections)
    (line,) = lines(caplog)
    assert "the received bytes are not valid TLS" in line
