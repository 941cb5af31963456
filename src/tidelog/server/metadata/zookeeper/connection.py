"""The settings of a connection to ZooKeeper, from the ``zookeeper.`` keys of a broker before Kafka 4.

========================================================  =============================================================
key                                                       meaning here
========================================================  =============================================================
``zookeeper.connection.timeout.ms``                       the timeout of the connection and of each response; by default
                                                          ``zookeeper.session.timeout.ms``, and then 18 s
``zookeeper.ssl.client.enable``                           ``true``: TLS
``zookeeper.ssl.truststore.…``, ``…keystore.…``           the CAs and the client's key, as for Kafka's ``ssl`` keys;
                                                          without a type, the file's suffix decides (.pem, .p12, .jks)
``zookeeper.ssl.endpoint.identification.algorithm``       ``HTTPS`` by default: the certificate names the server
``zookeeper.ssl.enabled.protocols``, ``…cipher.suites``   as for Kafka's ``ssl`` keys
========================================================  =============================================================

Other keys, also ``zookeeper.connect``, have no effect. SASL is not among them: Kafka takes it from a JAAS file.
Source: Kafka's ``ZkConfigs``, KIP-515; ZooKeeper's ``KeyStoreFileType``.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from tidelog.client.security.client_tls import client_context
from tidelog.config.value_text import Value
from tidelog.model import ConfigError
from tidelog.security.key_stores import JKS, PEM, PKCS12
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.kazoo_client import ZooKeeperSettings

_PREFIX: Final = "zookeeper."
_TIMEOUTS: Final = ("zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms")
_TLS: Final = "zookeeper.ssl.client.enable"
_DEFAULTS: Final = {"ssl.endpoint.identification.algorithm": "HTTPS"}
_STORE_TYPES: Final = {".pem": PEM, ".p12": PKCS12}
_TIMEOUTS_MS: Final = range(1, 2**31)


def connection_settings(address: str, properties: Mapping[str, str]) -> ZooKeeperSettings:
    """Return the settings for ``host:2181/chroot`` and the properties of a broker. Raise ConfigError with the mistake,
    but without a secret."""
    parsed = ZooKeeperAddress.parse(address)
    tls = _context(properties)
    timeout = next((key for key in _TIMEOUTS if key in properties), None)
    if timeout is None:
        return ZooKeeperSettings(address=parsed, tls=tls)
    text = properties[timeout].strip()
    if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) in _TIMEOUTS_MS):
        raise ConfigError(f"{timeout}: {text!r} is not a number of ms above 0")
    return ZooKeeperSettings(address=parsed, timeout_ms=int(text), tls=tls)


def _context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    enabled = properties.get(_TLS, "false").strip().lower()
    if enabled not in ("true", "false"):
        raise ConfigError(f"{_TLS}: {enabled!r} is neither true nor false")
    return client_context(_ZooKeeperSsl(properties)) if enabled == "true" else None


class _ZooKeeperSsl:
    """The ``zookeeper.ssl`` keys as an ``SslConfig``."""

    owner = "the connection to ZooKeeper"

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def __getitem__(self, key: str) -> Value | None:
        return self.text(key)

    def text(self, key: str) -> str | None:
        """Return the text of a key. The type of a store without one depends on the name of its file."""
        found = self._properties.get(self.named(key), _DEFAULTS.get(key, "")).strip()
        if not found and key.endswith(".type"):
            location = self.text(f"{key.removesuffix('.type')}.location") or ""
            return _STORE_TYPES.get(PurePath(location).suffix, JKS)
        return found or None

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(filter(None, (part.strip() for part in (self.text(key) or "").split(","))))

    def named(self, key: str) -> str:
        return _PREFIX + key
