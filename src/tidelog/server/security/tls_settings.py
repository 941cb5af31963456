"""The TLS settings of a listener, from Kafka's ``ssl`` keys; validated when the broker starts.

===========================  ==========================================================================================
key                          meaning here
===========================  ==========================================================================================
``ssl.keystore.…``           the listener's key and certificates: ``key_stores``
``ssl.truststore.…``         the CAs that may sign clients' certificates
``ssl.client.auth``          for SASL_SSL it counts only if it is set for that listener, as in Kafka
``ssl.principal.mapping.rules``  the mapping from a client's certificate to its user
===========================  ==========================================================================================

``security.tls_context`` has the keys that clients have too. Source: Kafka's ``SslFactory``, ``SslChannelBuilder``.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from tidelog.model import ConfigError
from tidelog.security.key_stores import key_chain, trusted_certificates
from tidelog.security.tls_context import load_key, load_trusted, new_context
from tidelog.server.security.certificate_principal import PrincipalRules, distinguished_name
from tidelog.server.security.listener_config import ListenerConfig
from tidelog.server.security.principal import ANONYMOUS, Principal

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    context: ssl.SSLContext
    rules: PrincipalRules

    @classmethod
    def of(cls, config: ListenerConfig, *, has_sasl: bool = False) -> TlsSettings:
        """Read the files. Raise ConfigError with the mistake, but without a secret."""
        context = new_context(config, is_server=True)
        load_key(context, key_chain(config), config.named("ssl.keystore.location"))
        _set_client_auth(context, config, has_sasl=has_sasl)
        return cls(context=context, rules=PrincipalRules(str(config["ssl.principal.mapping.rules"] or "DEFAULT")))

    def principal_of(self, certificate: bytes | None) -> Principal | None:
        """Return the principal of a DER certificate; None if no rule matches. Raise ValueError for other bytes."""
        if certificate is None:
            return ANONYMOUS
        user = self.rules.user_of(distinguished_name(certificate))
        return None if user is None else Principal("User", user)


def _set_client_auth(context: ssl.SSLContext, config: ListenerConfig, *, has_sasl: bool) -> None:
    asked = config.own("ssl.client.auth") if has_sasl else config["ssl.client.auth"]
    context.verify_mode = _CLIENT_AUTH[str(asked or "none")]
    trusted = trusted_certificates(config)
    if trusted is not None:
        load_trusted(context, trusted, config.named("ssl.truststore.location"))
    if context.verify_mode is ssl.CERT_NONE:
        return
    if trusted is None:
        raise ConfigError(
            f"{config.named('ssl.client.auth')}: {asked} needs ssl.truststore.location with the trusted certificates"
        )
