"""A client that tries names cannot distinguish unknown users from known ones."""

from __future__ import annotations

from pathlib import Path

from server.security.logins import SecureHome, handshake, token
from server.security.test_scram_exchange import Client
from tidelog.security.scram_credential import ScramCredential, ScramMechanism, is_salt_of_kafka
from tidelog.server.security.fake_scram_credentials import fake_credential

SHA_256 = ScramMechanism.SHA_256


def test_users_there_are_not_look_as_those_that_there_are() -> None:
    """Fake credentials have the combinations of real ones. Salts of 16 bytes have 5,000 iterations here, and Kafka's
    salts have 4,096. A new user changes few of them."""
    kafkas = ScramCredential.of_password(SHA_256, "secret")
    others = ScramCredential.of_password(SHA_256, "secret", iterations=5000, salt=bytes(range(16)))
    users = {f"user {number}": kafkas if number % 2 else others for number in range(20)}
    names = [f"nobody {number}" for number in range(200)]
    seen = {name: fake_credential(SHA_256, name, users, b"secret") for name in names}
    assert {(one.iterations, is_salt_of_kafka(one.salt)) for one in seen.values()} == {(4096, True), (5000, False)}
    assert {len(one.salt) for one in seen.values() if one.iterations == 5000} == {16}
    assert len({one.salt for one in seen.values()}) == len(names)
    more = {**users, "one more": kafkas}
    assert sum(fake_credential(SHA_256, name, more, b"secret") != seen[name] for name in names) < 30


def test_they_are_the_same_after_a_restart(tmp_path: Path) -> None:
    seen: list[list[list[str]]] = []
    for _ in range(2):
        with SecureHome(tmp_path) as home:
            if not seen:
                home.set_password("alice")
            seen.append([challenge(home, user) for user in ("alice", "mallory")])
    assert seen[0] == seen[1]


def challenge(home: SecureHome, user: str) -> list[str]:
    """Return salt and iterations."""
    with home.wire("SASL") as client:
        handshake(client, SHA_256.title)
        answer = token(client, Client(user=user).first())
        message: bytes = answer.auth_bytes
        return message.decode().split(",")[1:]
