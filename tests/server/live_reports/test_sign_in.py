"""The check of visitors against the users of the broker."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.harness import BrokerHome
from server.security.logins import PASSWORD, SecureHome, secure_broker
from tidelog.security.scram_credential import ScramCredential
from tidelog.server.authorization.authorizer import STANDARD_AUTHORIZER
from tidelog.server.live_reports import sign_in
from tidelog.server.live_reports.reported_node import ReportedNode
from tidelog.server.live_reports.sign_in import check_visitor


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHome]:
    with secure_broker(tmp_path_factory.mktemp("users")) as running:
        running.set_password("scram-only", "pass:word ü")
        yield running


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "_FAILURE_DELAY_MS", 1)


def may(home: BrokerHome, name: str, password: str) -> bool:
    reported = ReportedNode(node=home.server, started_ms=0)
    return home.run(lambda: check_visitor(reported, name, password, "10.0.0.9"))


def test_users_of_plain_and_of_scram(home: SecureHome) -> None:
    assert may(home, "alice", PASSWORD), "a user of both"
    assert may(home, "bob", "bob's"), "a user of PLAIN alone"
    assert may(home, "scram-only", "pass:word ü")


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wr0ng"),
        ("alice", ""),
        ("", PASSWORD),
        ("nobody", PASSWORD),
        ("scram-only", PASSWORD),
        ("alice", PASSWORD + "\0"),
        ("bob\0bob", "bob's"),
        ("alice", "x" * 5000),
        ("\ud800", "\udfff"),
    ],
)
def test_others_are_refused_without_their_password_in_the_log(
    home: SecureHome, name: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert not may(home, name, password)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "10.0.0.9" in line
    assert not password or password not in line
    assert not name or repr(name) not in line


def test_a_refusal_takes_a_while(home: SecureHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "_FAILURE_DELAY_MS", 150)
    begun_s = time.monotonic()
    assert not may(home, "alice", "wrong")
    assert time.monotonic() - begun_s >= 0.15


def test_an_unknown_user_costs_the_same_hashes(home: SecureHome, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    check = sign_in._is_password_of

    def counted(credential: ScramCredential, password: str) -> bool:
        hashed.append(credential.iterations)
        return check(credential, password)

    monkeypatch.setattr(sign_in, "_is_password_of", counted)
    may(home, "alice", "wrong")
    known, hashed[:] = list(hashed), []
    may(home, "nobody", "wrong")
    assert hashed == known == [4096, 4096]


def test_with_an_authorizer_a_visitor_needs_permission(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    guarded = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:bob;User:ANONYMOUS",
    }
    with secure_broker(tmp_path, guarded) as home:
        assert may(home, "bob", "bob's")
        assert not may(home, "alice", PASSWORD), "alice has no ACLs"
        assert "ClusterAction" in caplog.text
