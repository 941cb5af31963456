"""The server's side of a SASL mechanism: tokens in and out until the client has authenticated.

An error has two texts: one for the log, and one for the client. The client's text does not reveal if the name or the
password was wrong. Neither has a password or bytes of a token. Implementations: ``plain_exchange`` and
``scram_exchange`` implement it. Source: Java's ``SaslServer`` as Kafka uses it.
"""

from __future__ import annotations

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
