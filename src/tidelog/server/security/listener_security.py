"""The security of one listener: its protocol, the settings of TLS and SASL, and the counts of authentications.

Source: Kafka's ``SecurityProtocol``, ``ChannelBuilders``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.security.security_protocol import SecurityProtocol
from tidelog.server.security.listener_config import ListenerConfig
from tidelog.server.security.sasl_settings import SaslSettings
from tidelog.server.security.tls_settings import TlsSettings

_BUILDER = "principal.builder.class"
_KAFKAS_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @classmethod
    def of(cls, config: BrokerConfig, listener: str, protocol: SecurityProtocol) -> ListenerSecurity:
        """Return the security of a listener. Raise ConfigError with every mistake."""
        own = ListenerConfig(config, listener)
        mistakes: list[str] = []
        if own.text(_BUILDER) not in (None, _KAFKAS_BUILDER):
            mistakes.append(f"{own.named(_BUILDER)}: custom classes are not supported")
        tls = sasl = None
        try:
            tls = TlsSettings.of(own, has_sasl=protocol.has_sasl) if protocol.has_tls else None
        except ConfigError as error:
            mistakes.append(error.message)
        try:
            sasl = SaslSettings.of(own) if protocol.has_sasl else None
        except ConfigError as error:
            mistakes.append(error.message)
        if mistakes:
            raise ConfigError("; ".join(mistakes))
        return cls(protocol=protocol, tls=tls, sasl=sasl)


OPEN: Final = ListenerSecurity()
"""The security of a PLAINTEXT listener: every client is ANONYMOUS, and nothing is encrypted."""


@dataclass(slots=True)
class AuthenticationCounts:
    """The authentications by TLS or SASL since the start, for the metrics. A listener with neither counts nothing."""

    successful: int = 0
    failed: int = 0
    successful_no_reauth: int = 0
    """The successful authentications of clients that cannot authenticate again (KIP-368)."""
    successful_reauth: int = 0
    failed_reauth: int = 0
    expired: int = 0
    """The connections that were closed after the expiry, because the client did not authenticate again."""
