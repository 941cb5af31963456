"""The server's side of a SASL mechanism, tokens in and out until the client has authenticated, and that of PLAIN.

An error has two texts: one for the log, and one for the client. The client's text does not reveal if the name or the
password was wrong. Neither has a password or bytes of a token. ``scram_exchange`` has the SCRAM mechanisms.

PLAIN (RFC 4616) is one token with name and password. The listener's ``sasl.jaas.config`` has the users as
``user_NAME="password"``. A comparison takes the same time for known and unknown users.
Source: Java's ``SaslServer`` as Kafka uses it; Kafka's ``PlainSaslServer``, ``PlainServerCallbackHandler``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Protocol

from tidelog.model import TidelogError


class SaslError(TidelogError):
    """A failed authentication. The message is for the log."""

    def __init__(self, message: str, *, client_message: str | None = None) -> None:
        """Create the error. ``client_message`` is the client's message if it says more than invalid credentials."""
        super().__init__(message)
        self.client_message = client_message


class SaslExchange(Protocol):
    @property
    def user(self) -> str | None:
        """The authenticated user, or None before that."""
        ...

    def respond(self, token: bytes) -> bytes:
        """Return the next token. Raise SaslError on a failure, and for any token after the end."""
        ...


OTHER_USER = "Authentication failed: Client requested an authorization id that is different from username"
"""Kafka's message for a client that requests another user's authorization id."""


_INVALID = "Authentication failed: Invalid username or password"


class PlainExchange:
    def __init__(self, passwords: Mapping[str, str]) -> None:
        """Create the exchange. ``passwords`` has them by user."""
        self._passwords = passwords
        self._user: str | None = None
        self._is_over = False

    @property
    def user(self) -> str | None:
        return self._user

    def respond(self, token: bytes) -> bytes:
        if self._is_over:
            raise SaslError("a second token came, but PLAIN has only one")
        self._is_over = True
        wanted, user, password = _parts(token)
        known = self._passwords.get(user)
        is_right = hmac.compare_digest(_digest(password), _digest(known or ""))
        if known is None or not is_right:
            raise SaslError("a wrong name or password", client_message=_INVALID)
        if wanted not in ("", user):
            raise SaslError("it requested another user's authorization id", client_message=OTHER_USER)
        self._user = user
        return b""


def _parts(token: bytes) -> tuple[str, str, str]:
    try:
        wanted, user, password = token.decode().split("\0")
    except ValueError:
        raise SaslError("its token is not a name and a password") from None
    if not user or not password:
        raise SaslError("its token lacks a name or a password")
    return wanted, user, password


def _digest(text: str) -> bytes:
    """Return a hash of fixed length, so that the comparison's time does not reveal the length of a password."""
    return hashlib.sha256(text.encode()).digest()
