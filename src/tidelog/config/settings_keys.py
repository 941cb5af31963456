"""Which broker keys the fields of a settings class come from. Values; any thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS


class SettingsKeys:
    def __init__(self, keys: Mapping[str, str]) -> None:
        """``keys``: field to key."""
        self._keys = keys

    def default(self, field: str) -> Any:
        """Kafka's; KeyError for no such field."""
        return BROKER_KEYS[self._keys[field]].default

    def read(self, config: BrokerConfig) -> dict[str, Any]:
        """All fields, as a broker's properties say."""
        return {field: config[key] for field, key in self._keys.items()}
