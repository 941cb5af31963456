"""The security of a client's connections: TLS, SASL, both or neither."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidelog.protocol.api_key import ApiKey

Exchange = Callable[[ApiKey, Mapping[str, Any]], Awaitable[Any]]
"""Sends one request of an authentication and returns its response."""


class Authenticator(Protocol):
    async def authenticate(self, exchange: Exchange, broker: str) -> int:
        """Authenticate a connection to ``broker``. Return the session's lifetime in ms, 0 for no limit (KIP-368).

        Raise AuthenticationError if the broker refuses the client, or does not prove that it knows the password.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    tls: ssl.SSLContext | None = None
    sasl: Authenticator | None = None


OPEN: Final = ClientSecurity()
"""The security of PLAINTEXT."""
