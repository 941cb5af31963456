"""The settings of the client, with Kafka's defaults (``AdminClientConfig``, ``CommonClientConfigs``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidelog.client.model.address import Address, parse_servers
from tidelog.client.security.client_security import OPEN, ClientSecurity
from tidelog.client.security.client_tls import client_context
from tidelog.client.security.sasl_login import SaslLogin
from tidelog.config.client_config import ClientConfig
from tidelog.config.columns import INT_MAX
from tidelog.security.security_protocol import SecurityProtocol

DEFAULT_CLIENT_ID: Final = "tidelog"
_REBOOTSTRAP: Final = "rebootstrap"
_CANONICAL_NAMES: Final = "resolve_canonical_bootstrap_servers_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """The times are in ms. A buffer of -1 bytes has the operating system's size."""

    bootstrap: tuple[Address, ...]
    client_id: str = DEFAULT_CLIENT_ID
    security: ClientSecurity = field(default=OPEN, repr=False)
    request_timeout_ms: int = 30_000
    connection_setup_timeout_ms: int = 10_000
    """The time for TCP, TLS, ApiVersions and SASL together. It doubles after each failure."""
    connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 300_000
    """A connection without requests for this long is closed; -1 means never."""
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retries: int = INT_MAX
    """The number of times that the client repeats a failed request of its own."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    default_api_timeout_ms: int = 60_000
    """The time for an operation with its retries."""
    metadata_max_age_ms: int = 300_000
    rebootstraps: bool = True
    """True if the bootstrap servers are asked again once brokers are known."""
    rebootstrap_trigger_ms: int = 300_000
    """The time without metadata after which the known brokers are forgotten, if ``rebootstraps``."""
    uses_canonical_names: bool = False
    """True if a bootstrap server stands for the canonical names of its addresses."""
    hedge_ms: int = 1_000
    """The time after which a request that any broker can handle goes to another one too."""
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    """-1 for the operating system's own buffers, which grow with the connection's speed. Kafka's default is 65,536."""
    max_response_bytes: int = 100_000_000

    @classmethod
    def of(cls, config: ClientConfig) -> ClientSettings:
        """Return the settings of a configuration. Read the files of TLS. Raise ConfigError with the mistake."""
        number = config.number
        return cls(
            bootstrap=parse_servers("bootstrap.servers", config.texts("bootstrap.servers")),
            client_id=config.text("client.id") or DEFAULT_CLIENT_ID,
            security=_security(config),
            request_timeout_ms=number("request.timeout.ms"),
            connection_setup_timeout_ms=number("socket.connection.setup.timeout.ms"),
            connection_setup_timeout_max_ms=number("socket.connection.setup.timeout.max.ms"),
            connections_max_idle_ms=number("connections.max.idle.ms"),
            reconnect_backoff_ms=number("reconnect.backoff.ms"),
            reconnect_backoff_max_ms=number("reconnect.backoff.max.ms"),
            retries=number("retries"),
            retry_backoff_ms=number("retry.backoff.ms"),
            retry_backoff_max_ms=number("retry.backoff.max.ms"),
            default_api_timeout_ms=number("default.api.timeout.ms"),
            metadata_max_age_ms=number("metadata.max.age.ms"),
            rebootstraps=str(config["metadata.recovery.strategy"]).lower() == _REBOOTSTRAP,
            rebootstrap_trigger_ms=number("metadata.recovery.rebootstrap.trigger.ms"),
            uses_canonical_names=config.text("client.dns.lookup") == _CANONICAL_NAMES,
            send_buffer_bytes=_buffer(config, "send.buffer.bytes"),
            receive_buffer_bytes=_buffer(config, "receive.buffer.bytes"),
            max_response_bytes=number("receive.message.max.bytes"),
        )


def _security(config: ClientConfig) -> ClientSecurity:
    protocol = SecurityProtocol[str(config["security.protocol"]).upper()]
    return ClientSecurity(
        tls=client_context(config) if protocol.has_tls else None,
        sasl=SaslLogin.of(config) if protocol.has_sasl else None,
    )


def _buffer(config: ClientConfig, key: str) -> int:
    return config.number(key) if config.is_set(key) else -1
