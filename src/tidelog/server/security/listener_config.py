"""The configuration of one listener: a value for the listener takes precedence over the broker's.

A listener's key is ``listener.name.NAME.KEY``, and its mechanism's is ``listener.name.NAME.MECHANISM.KEY``. Both names
are in lower case. Source: Kafka's ``valuesWithPrefixOverride``, ``ListenerName.saslMechanismConfigPrefix``.
"""

from __future__ import annotations

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.setting_texts import SettingTexts
from tidelog.config.value_text import Value


class ListenerConfig(SettingTexts):
    def __init__(self, config: BrokerConfig, listener: str) -> None:
        self.listener = listener
        self.prefix = f"listener.name.{listener.lower()}."
        self._config = config

    @property
    def owner(self) -> str:
        return f"listener {self.listener}"

    def __getitem__(self, key: str) -> Value | None:
        """Return the listener's value, else the broker's, else the default."""
        own = self.own(key)
        return self._config[key] if own is None else own

    def own(self, key: str) -> Value | None:
        """Return the value that is set for this listener alone."""
        return self._set(key, key)

    def of_mechanism(self, mechanism: str, key: str) -> Value | None:
        """Return the value that is set for one mechanism of this listener."""
        return self._set(f"{mechanism.lower()}.{key}", key)

    def named(self, key: str) -> str:
        """Return the name under which the value of ``key`` is set, for messages."""
        return self.prefix + key if self.prefix + key in self._config.settings else key

    def _set(self, name: str, key: str) -> Value | None:
        return self._config.listener_value(self.prefix + name, key)
