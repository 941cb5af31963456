"""The context of a request: its header, its client and its arrival time."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.api_key import ApiKey
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.security.principal import Principal


class RequestContext(NamedTuple):
    """The context of one request. It is a tuple because one is created for every request."""

    api: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    client: ClientConnection
    received_ms: int
    """The wall clock's time in ms."""
    size: int = 0
    """The request's bytes without the length prefix."""

    @property
    def principal(self) -> Principal:
        return self.client.principal

    @property
    def client_host(self) -> str:
        return self.client.host

    @property
    def client_address(self) -> str:
        """The host as Java's ``InetAddress`` prints it without a name, ``/127.0.0.1``. Groups store it."""
        return f"/{self.client_host}"

    @property
    def connection_id(self) -> str:
        return self.client.connection_id

    @property
    def listener(self) -> str:
        """The name of the listener that received the request."""
        return self.client.listener
