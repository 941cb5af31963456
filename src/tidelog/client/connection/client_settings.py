"""The settings of the client, with Kafka's defaults (``AdminClientConfig``, ``CommonClientConfigs``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.client.model.address import Address
from tidelog.client.security.client_security import OPEN, ClientSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The times are in ms. A buffer of -1 bytes has the operating system's size."""

    bootstrap: tuple[Address, ...]
    client_id: str = "tidelog"
    security: ClientSecurity = field(default=OPEN, repr=False)
    request_timeout_ms: int = 30_000
    connection_setup_timeout_ms: int = 10_000
    """The time for TCP, TLS, ApiVersions and SASL together. It doubles after each failure."""
    connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 300_000
    """A connection without requests for this long is closed; -1 means never."""
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    default_api_timeout_ms: int = 60_000
    """The time for an operation with its retries."""
    metadata_max_age_ms: int = 300_000
    hedge_ms: int = 1_000
    """The time after which a request that any broker can handle goes to another one too."""
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    """Kafka's default is 65,536. The operating system's own buffers grow with the connection's speed, so that a large
    Fetch is up to twice as fast."""
    max_response_bytes: int = 100_000_000
