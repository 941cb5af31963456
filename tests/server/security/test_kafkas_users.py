"""SCRAM users are stored in the directory: our broker and Kafka's authenticate the other's users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from real_kafka.broker import Broker
from server.harness import WireClient
from server.security.logins import PASSWORD, SecureHome, log_in
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.security.scram_credential import ScramMechanism, salted_password
from tidelog.testing.broker.kept_port import keep_port

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SECURITY = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": MODULE,
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": MODULE,
}
SALT = b"a salt"


@contextmanager
def kafka(directory: Path, work: Path) -> Iterator[tuple[int, WireClient]]:
    """Yield the port of the SASL listener, and a client of the listener without authentication."""
    with keep_port() as place:
        port = place.getsockname()[1]
        broker = Broker(directory, work=work, properties=SECURITY, more_listeners=f"SASL://127.0.0.1:{port}")
        with broker:
            if not (directory / "meta.properties").exists():
                broker.format()
            broker.start()
            with WireClient(int(broker.bootstrap.rpartition(":")[2])) as client:
                yield port, client
            broker.stop()


def outcomes(port: int, *users: tuple[str, str]) -> list[bool]:
    """Return a list of bools: each user can authenticate with its password, by both mechanisms."""
    found = []
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        for user, password in users:
            with WireClient(port) as client:
                try:
                    found.append(log_in(client, mechanism, user, password).error_code == ErrorCode.NONE)
                except AssertionError:  # Kafka refuses an unknown user after the first token
                    found.append(False)
    return found


def set_passwords(client: WireClient, user: str, password: str) -> None:
    parts = [
        {
            "name": user,
            "mechanism": int(mechanism),
            "iterations": 4096,
            "salt": SALT,
            "salted_password": salted_password(mechanism, password, iterations=4096, salt=SALT),
        }
        for mechanism in ScramMechanism
    ]
    for part in parts:
        answer = client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=[], upsertions=[part])
        assert answer.results[0].error_code == 0, answer


@pytest.mark.parametrize("first", ["ours", "kafka"])
def test_users_are_let_in_by_whoever_serves_the_directory(tmp_path: Path, first: str) -> None:
    """Each broker sets a password, and changes a password that the other one set."""
    directory = tmp_path / "secure" / "data"
    turns = ["ours", "kafka", "ours"] if first == "ours" else ["kafka", "ours", "kafka"]
    passwords: dict[str, str] = {}
    for number, turn in enumerate(turns):
        new = {f"user{number}": f"{PASSWORD}{number}", "shared": f"shared{number}"}
        if turn == "kafka":
            with kafka(directory, tmp_path / "work") as (port, client):
                check(port, client, passwords, new)
        else:
            static = {"controller.quorum.voters": "1@127.0.0.1:1"}
            with SecureHome(tmp_path / "secure", static) as home, home.wire("PLAINTEXT") as client:
                check(home.listener("SASL").port, client, passwords, new)
        passwords |= new


def check(port: int, client: WireClient, before: dict[str, str], new: dict[str, str]) -> None:
    assert all(outcomes(port, *before.items()))
    for user, password in new.items():
        set_passwords(client, user, password)
    assert not any(outcomes(port, *((user, f"{password}!") for user, password in (before | new).items())))
    assert not any(outcomes(port, ("nobody", PASSWORD)))
