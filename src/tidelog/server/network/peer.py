"""Who is at the other end of a connection, as requests, quotas and log lines name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidelog.server.principal import ANONYMOUS, Principal

FOR_EVER: Final = -1
"""As ``held_back_ms``: the connection is closed once the answer is sent."""


@dataclass(slots=True, kw_only=True)
class Peer:
    """Constant from the beginning to ``connection_id``."""

    host: str
    """Its address, in numbers."""
    port: int
    listener: str
    """The name of the listener it came to."""
    connection_id: str
    """As Kafka writes it: both addresses and a number."""
    principal: Principal = ANONYMOUS
    """Who it has shown to be."""
    is_known: bool = True
    """False until it has shown that, at a listener where it has to."""
    software: tuple[str, str] = ("unknown", "unknown")
    """Name and version of the client's library, as its ApiVersions request said."""
    on_gone: Callable[[], object] | None = None
    """Called when the connection is closed while a request of it is answered: by a handler that only waits for the
    peer's sake, and need not then. Every other request is carried out to its end."""
    held_back_ms: int = 0
    """For how long its connection is not read after the answer that is under way: it had more than its quota."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
