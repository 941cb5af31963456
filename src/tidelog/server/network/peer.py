"""Who is at the other end of a connection, as requests, quotas and log lines name them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Peer:
    """Constant but for ``software`` and ``held_back_ms``."""

    host: str
    """Its address, in numbers."""
    port: int
    listener: str
    """The name of the listener it came to."""
    connection_id: str
    """As Kafka writes it: both addresses and a number."""
    software: tuple[str, str] = ("unknown", "unknown")
    """Name and version of the client's library, as its ApiVersions request said."""
    held_back_ms: int = 0
    """For how long its connection is not read after the answer that is under way: it had more than its quota."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
