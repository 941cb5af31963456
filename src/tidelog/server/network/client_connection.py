"""The client of a connection, as requests, quotas and log lines name it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidelog.kernel import ClientRequests
from tidelog.protocol.frames import Frame
from tidelog.server.security.principal import ANONYMOUS, Principal

CLOSE_AFTER_RESPONSE: Final = -1
"""The ``throttle_ms`` that closes the connection once the response is sent."""


@dataclass(slots=True, kw_only=True)
class ClientConnection:
    """A connection's client. The fields up to ``connection_id`` are constant. ``RequestTimes`` sets the last two
    fields; nothing sets them while no pages about the broker are served."""

    host: str
    """The IP address."""
    port: int
    listener: str
    """The name of the listener that accepted it."""
    connection_id: str
    """Kafka's form of the id: both addresses and a number."""
    principal: Principal = ANONYMOUS
    """The authenticated principal."""
    is_authenticated: bool = True
    """False until the client has authenticated, if the listener requires that."""
    software: tuple[str, str] = ("unknown", "unknown")
    """Name and version of the client's library, from its ApiVersions request."""
    on_connection_closed: Callable[[], object] | None = None
    """A callback for a close of the connection while its request is handled. The handler of a request that only waits
    sets it, such as a delayed fetch. Every other request runs to its end."""
    throttle_ms: int = 0
    """The throttle time after the current response. The connection is not read for that time."""
    is_exempt: bool = False
    """True if the current request does not count for the client's request quota. The dispatcher resets it for each
    request. A handler sets it before it first waits, so that all of the request's time is exempt."""
    following: deque[Frame] = field(default_factory=deque)
    """The complete frames after the current request. Its handler may remove the next ones if it handles them, too."""
    client_id: str | None = None
    """The client id of the first request."""
    requests: ClientRequests = field(default_factory=ClientRequests)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
