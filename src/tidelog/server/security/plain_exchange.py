"""SASL PLAIN (RFC 4616): one token with name and password, checked against the settings. Pure.

The listener's ``sasl.jaas.config`` has the users as ``user_NAME="password"``. A comparison takes the same time for
known and unknown users. Source: Kafka's ``PlainSaslServer``, ``PlainServerCallbackHandler``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from tidelog.server.security.sasl_exchange import OTHER_USER, SaslError

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
