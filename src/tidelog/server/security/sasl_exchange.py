"""The server's side of a SASL mechanism: the client's tokens in, the server's out, until it is clear who the client is.

What goes wrong has two texts: one for the log, and one for the client, which must not learn whether it was the name or
the password. Neither has a password in it, nor bytes of a token.
Implementations: ``plain_exchange``, ``scram_exchange``. Source: Java's ``SaslServer`` as Kafka uses it.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.model import TidelogError


class SaslError(TidelogError):
    """The client is not let in. The message is for the log."""

    def __init__(self, message: str, *, told: str | None = None) -> None:
        """``told``: what the client is told, where that is more than that its credentials are not valid."""
        super().__init__(message)
        self.told = told


class SaslExchange(Protocol):
    @property
    def user(self) -> str | None:
        """Who the client is; None until it has shown it."""
        ...

    def respond(self, token: bytes) -> bytes:
        """What to answer a token. SaslError; nothing is taken any more then, nor once there is a ``user``."""
        ...


OTHER_USER = "Authentication failed: Client requested an authorization id that is different from username"
"""What Kafka tells a client that wants to be somebody else."""
