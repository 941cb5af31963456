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
``zookeeper.sasl.jaas.config``                            a user of SASL, in JAAS syntax; Kafka takes it from a file of
                                                          the JVM, which is not read
``zookeeper.set.acl``                                     ``true``: only this user can write the znodes that it creates
========================================================  =============================================================

Other keys, also ``zookeeper.connect``, have no effect. Only sessions of brokers have the last two.
Source: Kafka's ``ZkConfigs``, KIP-515; ZooKeeper's ``KeyStoreFileType``.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from tidelog.client.security.client_tls import client_context
from tidelog.config.value_text import Value
from tidelog.model import ConfigError
from tidelog.security.jaas_config import parse_jaas_config
from tidelog.security.key_stores import JKS, PEM, PKCS12
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.settings import DigestLogin, ZooKeeperSettings

_PREFIX: Final = "zookeeper."
_CONNECTION_TIMEOUT: Final = "zookeeper.connection.timeout.ms"
_SESSION_TIMEOUT: Final = "zookeeper.session.timeout.ms"
_TLS: Final = "zookeeper.ssl.client.enable"
_KEY_STORE: Final = "zookeeper.ssl.keystore.location"
_JAAS: Final = "zookeeper.sasl.jaas.config"
_LOGIN_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_SET_ACL: Final = "zookeeper.set.acl"
_DEFAULTS: Final = {"ssl.endpoint.identification.algorithm": "HTTPS"}
_STORE_TYPES: Final = {".pem": PEM, ".p12": PKCS12}
_TIMEOUTS_MS: Final = range(1, 2**31)


def connection_settings(address: str, properties: Mapping[str, str]) -> ZooKeeperSettings:
    """Return the settings for ``host:2181/chroot`` and the properties of a broker. Raise ConfigError with the mistake,
    but without a secret."""
    defaults = ZooKeeperSettings(address=ZooKeeperAddress.parse(address), tls=_context(properties))
    session_ms = _timeout(properties, _SESSION_TIMEOUT, defaults.session_timeout_ms)
    timeout_ms = _timeout(properties, _CONNECTION_TIMEOUT, session_ms)
    login = _login(properties)
    sets_acls = _flag(properties, _SET_ACL)
    if sets_acls and login is None and _KEY_STORE not in properties:
        raise ConfigError(f"{_SET_ACL} needs a user: set {_JAAS}, or {_KEY_STORE} with {_TLS}")
    return replace(defaults, timeout_ms=timeout_ms, session_timeout_ms=session_ms, login=login, sets_acls=sets_acls)


def _timeout(properties: Mapping[str, str], key: str, default_ms: int) -> int:
    text = properties.get(key, str(default_ms)).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) in _TIMEOUTS_MS):
        raise ConfigError(f"{key}: {text!r} is not a number of ms above 0")
    return int(text)


def _flag(properties: Mapping[str, str], key: str) -> bool:
    text = properties.get(key, "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key}: {text!r} is neither true nor false")
    return text == "true"


def _context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    return client_context(_ZooKeeperSsl(properties)) if _flag(properties, _TLS) else None


def _login(properties: Mapping[str, str]) -> DigestLogin | None:
    text = properties.get(_JAAS)
    if text is None:
        return None
    try:
        module = parse_jaas_config(text)
    except ConfigError as error:
        raise ConfigError(f"{_JAAS}: {error}") from None
    username, password = (module.options.get(name) for name in ("username", "password"))
    if module.name != _LOGIN_MODULE or not username or password is None:
        raise ConfigError(f'{_JAAS}: it has to be {_LOGIN_MODULE} required username="NAME" password="PASSWORD";')
    return DigestLogin(username, password)


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
