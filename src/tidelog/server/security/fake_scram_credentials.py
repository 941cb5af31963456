"""Fake credentials for unknown users, so that an exchange does not reveal which users exist.

A name gets the same salt each time, even after a restart, because it is derived from a lasting secret. The fake takes
the salt's form and the iterations from some existing user. Adding a user changes that choice for few names. The keys
match no password. Thread rule: any thread. Source: RFC 5802, section 5.1, which leaves it to the server. Kafka reveals
unknown users.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from tidelog.security.scram_credential import (
    MINIMUM_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    is_salt_of_kafka,
    salt_of,
)


def fake_credential(
    mechanism: ScramMechanism, user: str, users: Mapping[str, ScramCredential], secret: bytes
) -> ScramCredential:
    """Return the fake credential of ``user``. ``users`` has some existing users."""
    seed = hmac.digest(secret, f"{mechanism.title} {user}".encode(), "sha512")
    nearest = min(users, key=lambda name: hmac.digest(seed, name.encode(), "sha256"), default=None)
    model = None if nearest is None else users[nearest]
    return ScramCredential(
        mechanism=mechanism,
        iterations=MINIMUM_ITERATIONS if model is None else model.iterations,
        salt=_salt_like(b"" if model is None else model.salt, seed),
        stored_key=hmac.digest(secret, b"stored" + seed, mechanism.digest),
        server_key=hmac.digest(secret, b"server" + seed, mechanism.digest),
    )


def _salt_like(model: bytes, seed: bytes) -> bytes:
    if is_salt_of_kafka(model):
        return salt_of(int.from_bytes(seed[:32]))
    salt = b""
    while len(salt) < len(model):
        seed = hmac.digest(seed, b"salt", "sha512")
        salt += seed
    return salt[: len(model)]
