"""The TLS context of a client, from Kafka's ``ssl`` keys.

=========================================  ============================================================================
key                                        meaning here
=========================================  ============================================================================
``ssl.truststore.…``                       the CAs that may sign the brokers' certificates; without it the system's
``ssl.keystore.…``                         the client's own key and certificate, if brokers require one
``ssl.endpoint.identification.algorithm``  ``https``: the certificate must have the broker's name; empty: any name
=========================================  ============================================================================

``security.tls_context`` has the keys that listeners have too. Source: Kafka's ``DefaultSslEngineFactory``.
"""

from __future__ import annotations

import ssl
from typing import Final

from tidelog.model import ConfigError
from tidelog.security.key_stores import key_chain, trusted_certificates
from tidelog.security.ssl_config import SslConfig
from tidelog.security.tls_context import load_key, load_trusted, new_context

_KEY_SETTINGS: Final = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
_NAME_CHECK: Final = "ssl.endpoint.identification.algorithm"


def client_context(config: SslConfig) -> ssl.SSLContext:
    """Read the files. Raise ConfigError with the mistake, but without a secret."""
    context = new_context(config, is_server=False)
    algorithm = config.text(_NAME_CHECK)
    if algorithm is not None and algorithm.lower() != "https":
        raise ConfigError(
            f"{config.named(_NAME_CHECK)}: {algorithm} is not supported; use https, or nothing to accept any name"
        )
    context.check_hostname = algorithm is not None
    trusted = trusted_certificates(config)
    if trusted is None:
        context.load_default_certs()
    else:
        load_trusted(context, trusted, config.named("ssl.truststore.location"))
    if any(map(config.text, _KEY_SETTINGS)):
        load_key(context, key_chain(config), config.named("ssl.keystore.location"))
    return context
