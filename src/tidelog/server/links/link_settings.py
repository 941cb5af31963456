"""The settings of connections from this node to the other nodes of its cluster, from the node's own configuration.

=========================================  ============================================================================
connections                                settings
=========================================  ============================================================================
to the other brokers                       the inter-broker listener: ``sasl.mechanism.inter.broker.protocol``,
                                           ``replica.socket.timeout.ms``, ``replica.socket.receive.buffer.bytes``
to the controllers                         the first of ``controller.listener.names``:
                                           ``sasl.mechanism.controller.protocol``, ``controller.socket.timeout.ms``
=========================================  ============================================================================

The protocol is the listener's in ``listener.security.protocol.map``. Keys of TLS and SASL may have the listener's
prefix, as on the server's side, so a node's own certificate is its client certificate too. The login module of the
mechanism has ``username`` and ``password`` for these connections. Source: Kafka's ``ChannelBuilders``,
``BrokerBlockingSender``, ``NodeToControllerChannelManagerImpl``.
"""

from __future__ import annotations

from typing import Final

from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.security.client_security import ClientSecurity
from tidelog.client.security.client_tls import client_context
from tidelog.client.security.sasl_login import SaslLogin
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.value_text import Value
from tidelog.model import ConfigError
from tidelog.server.network.endpoint import inter_broker_listener, protocol_of
from tidelog.server.security.listener_config import ListenerConfig

_BETWEEN_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
_TO_CONTROLLERS: Final = "sasl.mechanism.controller.protocol"
_RECEIVE_BUFFER: Final = "replica.socket.receive.buffer.bytes"
_BACKOFF_MS, _BACKOFF_MAX_MS = 20, 500
"""The back-off of connections to controllers. A request to a controller that is away fails at once, and the cores wait
before the next one."""


class LinkConfig(ListenerConfig):
    """The client's side of a listener. ``mechanism_key`` names the mechanism for ``sasl.mechanism``."""

    def __init__(self, config: BrokerConfig, listener: str, mechanism_key: str) -> None:
        super().__init__(config, listener)
        self._mechanism_key = mechanism_key
        self._mechanism = str(config[mechanism_key])

    @property
    def owner(self) -> str:
        return f"a connection to listener {self.listener}"

    def __getitem__(self, key: str) -> Value | None:
        if key == "sasl.mechanism":
            return self._mechanism
        if key == "sasl.jaas.config":
            return self.of_mechanism(self._mechanism, key)
        return super().__getitem__(key)

    def named(self, key: str) -> str:
        if key == "sasl.mechanism":
            return self._mechanism_key
        if key == "sasl.jaas.config":
            return f"{self.prefix}{self._mechanism.lower()}.{key}"
        return super().named(key)


def broker_link_settings(config: BrokerConfig) -> ClientSettings:
    """Return the settings for other brokers. Read the files of TLS. Raise ConfigError with the mistake.

    This broker's own listener must offer the mechanism, as in Kafka: the brokers' listeners are alike. The receive
    buffer has the operating system's size unless its key is set.
    """
    own = LinkConfig(config, inter_broker_listener(config), _BETWEEN_BROKERS)
    security = _security(config, own)
    if security.sasl is not None and own.text("sasl.mechanism") not in own.texts("sasl.enabled.mechanisms"):
        raise ConfigError(
            f"{_BETWEEN_BROKERS}: listener {own.listener} does not offer {own.text('sasl.mechanism')}"
            f" ({own.named('sasl.enabled.mechanisms')})"
        )
    return ClientSettings(
        bootstrap=(),
        client_id=f"broker-{config.node_id}",
        security=security,
        request_timeout_ms=config.number("replica.socket.timeout.ms"),
        connection_setup_timeout_ms=config.number("socket.connection.setup.timeout.ms"),
        connection_setup_timeout_max_ms=config.number("socket.connection.setup.timeout.max.ms"),
        connections_max_idle_ms=config.number("connections.max.idle.ms"),
        receive_buffer_bytes=config.number(_RECEIVE_BUFFER) if _RECEIVE_BUFFER in config.settings else -1,
    )


def controller_link_settings(config: BrokerConfig) -> ClientSettings:
    """Return the settings for the controllers, as ``broker_link_settings`` does. Raise ConfigError with the mistake."""
    listener = config.texts("controller.listener.names")[0].upper()
    return ClientSettings(
        bootstrap=(),
        client_id=f"broker-{config.node_id}-to-controller",
        security=_security(config, LinkConfig(config, listener, _TO_CONTROLLERS)),
        request_timeout_ms=config.number("controller.socket.timeout.ms"),
        connection_setup_timeout_ms=config.number("socket.connection.setup.timeout.ms"),
        connection_setup_timeout_max_ms=config.number("socket.connection.setup.timeout.max.ms"),
        connections_max_idle_ms=config.number("connections.max.idle.ms"),
        reconnect_backoff_ms=_BACKOFF_MS,
        reconnect_backoff_max_ms=_BACKOFF_MAX_MS,
    )


def _security(config: BrokerConfig, own: LinkConfig) -> ClientSecurity:
    protocol = protocol_of(config, own.listener)
    return ClientSecurity(
        tls=client_context(own) if protocol.has_tls else None,
        sasl=SaslLogin.of(own) if protocol.has_sasl else None,
    )
