"""The passwords in the dynamic settings of brokers: ZooKeeper has them encrypted, a metadata log as they are.

==================================  ===================================================================================
with ZooKeeper                      effect
==================================  ===================================================================================
a password is set                   it is encrypted with ``password.encoder.secret``; ConfigError without that key
settings take effect                passwords are decrypted with ``password.encoder.secret``, or else with
                                    ``password.encoder.old.secret``. One that cannot be decrypted is left out and logged
==================================  ===================================================================================

Each function returns the settings of a broker without ZooKeeper unchanged. Kafka encrypts with the new secret again at
its next start; here that needs a change of the setting. Thread rule: any thread.
Source: Kafka's ``DynamicBrokerConfig.toPersistentProps``, ``fromPersistentProps``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import broker_key
from tidelog.config.value_text import Password
from tidelog.model import ConfigError
from tidelog.security.password_encoder import PasswordEncoding, decode_password, encode_password
from tidelog.server.configs.changes import SettingChange

_SECRET: Final = "password.encoder.secret"
_OLD_SECRET: Final = "password.encoder.old.secret"
_log = logging.getLogger(__name__)


def encoded_texts(config: BrokerConfig, texts: Mapping[str, str]) -> dict[str, str]:
    """Return a broker's new settings with encrypted passwords. Raise ConfigError if they cannot be encrypted."""
    return {name: _encoded(config, text) if _is_password(config, name) else text for name, text in texts.items()}


def encoded_changes(config: BrokerConfig, changes: Sequence[SettingChange]) -> list[SettingChange]:
    """Return changes of a broker's settings, as ``encoded_texts`` does."""
    return [
        change._replace(value=_encoded(config, change.value))
        if change.value is not None and _is_password(config, change.key)
        else change
        for change in changes
    ]


def decoded_texts(config: BrokerConfig, texts: Mapping[str, str]) -> dict[str, str]:
    """Return a broker's settings with readable passwords. Leave out a password that cannot be decrypted."""
    found = {}
    for name, text in texts.items():
        try:
            found[name] = _decoded(config, text) if _is_password(config, name) else text
        except ConfigError as error:
            _log.error("The dynamic setting %s is ignored: %s", name, error.message)
    return found


def _is_password(config: BrokerConfig, name: str) -> bool:
    key = broker_key(name, config.keys) if config.uses_zookeeper else None
    return key is not None and key.is_secret


def _encoded(config: BrokerConfig, password: str) -> str:
    secret = config[_SECRET]
    if not isinstance(secret, Password):
        raise ConfigError(f"Password encoder secret not configured: set {_SECRET} on all brokers")
    factory = config["password.encoder.keyfactory.algorithm"]
    encoding = PasswordEncoding(
        cipher=str(config["password.encoder.cipher.algorithm"]),
        key_factory=None if factory is None else str(factory),
        key_bits=config.number("password.encoder.key.length"),
        iterations=config.number("password.encoder.iterations"),
    )
    return encode_password(password, secret.text, encoding)


def _decoded(config: BrokerConfig, text: str) -> str:
    failure = ConfigError(f"Password encoder secret not configured ({_SECRET})")
    for key in (_SECRET, _OLD_SECRET):
        secret = config[key]
        if isinstance(secret, Password):
            try:
                return decode_password(text, secret.text)
            except ConfigError as error:
                failure = error
    raise failure
