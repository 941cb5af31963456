"""What is known of a request besides what it asks."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.api_key import ApiKey
from tidelog.server.network.peer import Peer
from tidelog.server.principal import Principal


class RequestContext(NamedTuple):
    """A tuple, since one is made for every request."""

    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    peer: Peer
    received_ms: int
    """By the wall clock."""
    size: int = 0
    """Bytes of the request, its length not counted."""

    @property
    def principal(self) -> Principal:
        return self.peer.principal

    @property
    def client_host(self) -> str:
        return self.peer.host

    @property
    def connection_id(self) -> str:
        return self.peer.connection_id

    @property
    def listener(self) -> str:
        """The name of the listener the request came to."""
        return self.peer.listener

    @property
    def client_software(self) -> tuple[str, str]:
        """Name and version."""
        return self.peer.software
