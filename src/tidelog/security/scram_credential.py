"""The SCRAM mechanisms, and the stored credential of a user, which verifies the password but does not reveal it.

::

    salted password = PBKDF2(password, salt, iterations)
    client key      = HMAC(salted password, "Client Key")
    stored key      = H(client key)                          verifies the client's proof
    server key      = HMAC(salted password, "Server Key")    signs the server's final message

A password is its UTF-8 bytes without normalization, as in Kafka. All is pure except ``random_salt``. Thread rule: any
thread. Source: RFC 5802, section 3; RFC 7677; Kafka's ``ScramMechanism``, ``ScramFormatter`` and
``UserScramCredentialRecord``.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

MINIMUM_ITERATIONS: Final = 4096
"""The minimum of a usable credential, and the default of a new one."""
MAXIMUM_ITERATIONS: Final = 16384
"""The maximum of a new credential, because each iteration takes time of the client or of the broker."""


class ScramMechanism(enum.IntEnum):
    """The mechanisms. The numbers are those of requests and of the metadata log."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def title(self) -> str:
        """The name that clients use: ``SCRAM-SHA-256``."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def digest(self) -> str:
        """The hash function's name in hashlib."""
        return self.name.replace("_", "").lower()


SCRAM_MECHANISMS: Final = {mechanism.title: mechanism for mechanism in ScramMechanism}


_SALT_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LONGEST_SALT = 26
"""The base-36 digits of 130 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """A credential. The ``repr`` hides the salt and the keys."""

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
        """Return the credential of a password. It takes milliseconds. With ``salt`` None the salt is random."""
        salt = random_salt() if salt is None else salt
        salted = salted_password(mechanism, password, iterations=iterations, salt=salt)
        return cls.of_salted_password(mechanism, salted, iterations=iterations, salt=salt)

    @classmethod
    def of_salted_password(cls, mechanism: ScramMechanism, salted: bytes, *, iterations: int, salt: bytes) -> Self:
        """Return the credential of a salted password, which is all that a client sends to set one (KIP-554)."""
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
        """Return the credential of a ``UserScramCredentialRecord``. Raise ValueError if the mechanism is unknown."""
        return cls(
            mechanism=ScramMechanism(fields["mechanism"]),
            iterations=fields["iterations"],
            salt=bytes(fields["salt"]),
            stored_key=bytes(fields["storedKey"]),
            server_key=bytes(fields["serverKey"]),
        )

    def fields(self, user: str) -> Mapping[str, Any]:
        """Return the fields of the ``UserScramCredentialRecord`` for ``user``."""
        return {
            "name": user,
            "mechanism": int(self.mechanism),
            "salt": self.salt,
            "storedKey": self.stored_key,
            "serverKey": self.server_key,
            "iterations": self.iterations,
        }


def salted_password(mechanism: ScramMechanism, password: str, *, iterations: int, salt: bytes) -> bytes:
    """Hash a password with its salt, as an administrator's client does before it sends it."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def random_salt() -> bytes:
    """Return 130 random bits as a base-36 number, as Kafka's clients do. The two cannot be distinguished."""
    return salt_of(secrets.randbits(_SALT_BITS))


def salt_of(number: int) -> bytes:
    """Return a salt in the same form from the low 130 bits of ``number``."""
    number %= 1 << _SALT_BITS
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits.encode()


def is_salt_of_kafka(salt: bytes) -> bool:
    """Return True if ``salt`` has that form. An empty salt counts too."""
    return len(salt) <= _LONGEST_SALT and not salt.strip(_DIGITS.encode())
