"""A trusted certificate whose name maps to no user is refused. Its client is not served as an anonymous one."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.security.certificates import authority
from server.security.logins import SecureHome, TlsClient, is_served, secure_broker, user_of
from tidelog.protocol.api_key import ApiKey
from tidelog.server.security import tls_settings

UTF8, PRINTABLE, T61 = 0x0C, 0x13, 0x14
RULES = {"listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(svc-[a-z]+)$/$1/"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHome]:
    with secure_broker(tmp_path_factory.mktemp("secure"), RULES) as running:
        yield running


def context_of(tag: int, name: bytes, directory: Path) -> ssl.SSLContext:
    (directory / "client.pem").write_text(authority().issue_value(tag, name).pem)
    context = ssl.create_default_context(cadata=authority().pem)
    context.load_cert_chain(directory / "client.pem")
    return context


def refusal(home: SecureHome, context: ssl.SSLContext, caplog: pytest.LogCaptureFixture) -> str:
    """Return the line of the log."""
    before = home.counts("MUTUAL")
    with TlsClient(home.listener("MUTUAL").port, context) as client, pytest.raises((ssl.SSLError, OSError)):
        client.call(ApiKey.METADATA, topics=[])
    home.wait_for(lambda: not home.listener("MUTUAL").connections)
    assert home.counts("MUTUAL") == (before[0], before[1] + 1)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return line


def test_one_that_a_rule_is_about_is_served(home: SecureHome, tmp_path: Path) -> None:
    """The other tests prove something only if this one passes."""
    with TlsClient(home.listener("MUTUAL").port, context_of(T61, b"svc-a", tmp_path)) as client:
        assert is_served(client)
        assert user_of(home, "MUTUAL") == "User:svc-a"


@pytest.mark.parametrize(("tag", "name"), [(UTF8, b"bob"), (T61, b"Ren\xe9"), (PRINTABLE, b"bob@xxx.com")])
def test_one_that_no_rule_is_about_is_not(
    home: SecureHome, tmp_path: Path, caplog: pytest.LogCaptureFixture, tag: int, name: bytes
) -> None:
    line = refusal(home, context_of(tag, name, tmp_path), caplog)
    assert line.endswith("failed: no rule of ssl.principal.mapping.rules matches the name in the client's certificate")


def test_one_that_cannot_be_read_is_not(
    home: SecureHome, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_certificate: bytes) -> str:
        raise ValueError("it is not a certificate")

    monkeypatch.setattr(tls_settings, "distinguished_name", unreadable)
    line = refusal(home, context_of(UTF8, b"svc-a", tmp_path), caplog)
    assert line.endswith("failed: the name in the client's certificate cannot be read: it is not a certificate")
