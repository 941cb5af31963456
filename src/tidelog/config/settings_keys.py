"""The broker keys from which the fields of a settings class are read. Thread rule: any thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS


class SettingsKeys:
    def __init__(self, keys: Mapping[str, str]) -> None:
        """``keys`` maps a field to its broker key."""
        self._keys = keys

    def default(self, field: str) -> Any:
        """Return Kafka's default for a field. Raise KeyError if the field is unknown."""
        return BROKER_KEYS[self._keys[field]].default

    def read(self, config: BrokerConfig) -> dict[str, Any]:
        """Return the values of all fields in a broker's configuration."""
        return {field: config[key] for field, key in self._keys.items()}
