"""Settings classes whose fields are broker keys: each field names its key once. Thread rule: any thread."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS

_KEY = "broker key"
_KAFKAS = object()


def from_key(key: str, *, default: Any = _KAFKAS) -> Any:
    """Return a dataclass field for a broker key, by default with Kafka's default. Raise KeyError if it is unknown."""
    return field(default=BROKER_KEYS[key].default if default is _KAFKAS else default, metadata={_KEY: key})


def read_settings(settings: type[Any], config: BrokerConfig) -> dict[str, Any]:
    """Return the values of all fields with a key, by field name, in a broker's configuration."""
    return {one.name: config[one.metadata[_KEY]] for one in fields(settings) if _KEY in one.metadata}
