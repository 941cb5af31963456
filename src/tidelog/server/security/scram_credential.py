"""What is kept of a SCRAM user's password: enough to check who knows it, too little to say that one knows it.

::

    salted password = PBKDF2(password, salt, iterations)
    client key      = HMAC(salted password, "Client Key")
    stored key      = H(client key)                          checks the client's proof
    server key      = HMAC(salted password, "Server Key")    signs the server's answer

A password is its UTF-8 bytes, as in Kafka: they are not normalized. Pure but for ``random_salt``; any thread.
Source: RFC 5802, section 3; RFC 7677; Kafka's ``ScramFormatter`` and ``UserScramCredentialRecord``.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tidelog.server.security.scram_mechanism import MINIMUM_ITERATIONS, ScramMechanism

_SALT_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LONGEST_SALT = 26
"""Digits of 130 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """Its text does not show the keys."""

    mechanism: ScramMechanism
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of_password(
        cls,
        mechanism: ScramMechanism,
        password: str,
        *,
        iterations: int = MINIMUM_ITERATIONS,
        salt: bytes | None = None,
    ) -> Self:
        """Takes milliseconds. ``salt`` None: a new one."""
        salt = random_salt() if salt is None else salt
        salted = salted_password(mechanism, password, iterations=iterations, salt=salt)
        return cls.of_salted_password(mechanism, salted, iterations=iterations, salt=salt)

    @classmethod
    def of_salted_password(cls, mechanism: ScramMechanism, salted: bytes, *, iterations: int, salt: bytes) -> Self:
        """Of what clients send who set a password: they salt it themselves (KIP-554)."""
        client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
        return cls(
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            stored_key=hashlib.new(mechanism.digest, client_key).digest(),
            server_key=hmac.digest(salted, b"Server Key", mechanism.digest),
        )

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Of a ``UserScramCredentialRecord``. ValueError for a mechanism that there is not."""
        return cls(
            mechanism=ScramMechanism(fields["mechanism"]),
            iterations=fields["iterations"],
            salt=bytes(fields["salt"]),
            stored_key=bytes(fields["storedKey"]),
            server_key=bytes(fields["serverKey"]),
        )

    def fields(self, user: str) -> Mapping[str, Any]:
        """Of the ``UserScramCredentialRecord`` that gives it to ``user``."""
        return {
            "name": user,
            "mechanism": int(self.mechanism),
            "salt": self.salt,
            "storedKey": self.stored_key,
            "serverKey": self.server_key,
            "iterations": self.iterations,
        }


def salted_password(mechanism: ScramMechanism, password: str, *, iterations: int, salt: bytes) -> bytes:
    """What an administrator's client makes of a password before it sends it."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def random_salt() -> bytes:
    """130 bits as a number to the base of 36, as Kafka's clients make them: nobody can tell a salt of theirs from one
    of ours."""
    return salt_of(secrets.randbits(_SALT_BITS))


def salt_of(number: int) -> bytes:
    """The same of a number that the caller has; what is beyond 130 bits does not count."""
    number %= 1 << _SALT_BITS
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits.encode()


def is_salt_of_kafka(salt: bytes) -> bool:
    """Whether it looks like those. So does none at all."""
    return len(salt) <= _LONGEST_SALT and not salt.strip(_DIGITS.encode())
