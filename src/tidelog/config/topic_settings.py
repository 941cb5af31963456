"""The settings of one topic: its own values over the broker's defaults over Kafka's.

A ``TopicSettings`` is immutable. ``TopicSettings.of`` rejects the values that Kafka rejects when a topic is created or
altered. Source: Kafka's ``LogConfig.validate``, ``LogConfig.fromProps``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.checks import check_tiered_topic, check_topic, number
from tidelog.config.key import Key
from tidelog.config.synonyms import TOPIC_SYNONYMS, first_set, in_topic_units
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.value_text import Value, format_value
from tidelog.model import ConfigError

if TYPE_CHECKING:
    from tidelog.config.broker_config import BrokerConfig

_REDACTED = "(redacted)"
_AS_RETENTION = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """``values`` has every topic setting, None without a value and default. ``overrides`` are the topic's own texts."""

    values: Mapping[str, Value | None]
    overrides: Mapping[str, str]

    @classmethod
    def of(
        cls,
        overrides: Mapping[str, str],
        broker: BrokerConfig | None = None,
        *,
        before: Mapping[str, str] | None = None,
    ) -> TopicSettings:
        """Raise ConfigError for an unknown key, an invalid value, or settings that contradict each other.

        With a broker, its defaults are below the overrides, and the rules for tiered storage are checked too.
        ``before`` are then the topic's overrides before this change.
        """
        keys = TOPIC_KEYS if broker is None else broker.topic_keys
        values: dict[str, Value | None] = {key.name: key.default for key in keys.values()}
        if broker is not None:
            values.update(broker.topic_defaults())
        values.update(parse_topic_settings(overrides, keys=keys))
        check_topic(values)
        if broker is not None:
            was_tiered = (before or {}).get("remote.storage.enable", "").lower() == "true"
            check_tiered_topic(
                values, was_tiered=was_tiered, system_is_tiered=bool(broker["remote.log.storage.system.enable"])
            )
        return cls(values=values, overrides=dict(overrides))

    def __getitem__(self, key: str) -> Value | None:
        return self.values[key]

    @property
    def local_retention_ms(self) -> int:
        return self._local("local.retention.ms", "retention.ms")

    @property
    def local_retention_bytes(self) -> int:
        return self._local("local.retention.bytes", "retention.bytes")

    def overrides_text(self) -> str:
        """Return the overrides for a log line, with secrets and unknown keys redacted."""
        return (
            "{" + ", ".join(f"{key}={redacted_text(key, text)}" for key, text in sorted(self.overrides.items())) + "}"
        )

    def _local(self, key: str, retention_key: str) -> int:
        local = number(self.values, key)
        return number(self.values, retention_key) if local == _AS_RETENTION else local


def parse_topic_settings(
    texts: Mapping[str, str], *, ignore_unknown: bool = False, keys: Mapping[str, Key] = TOPIC_KEYS
) -> dict[str, Value]:
    """Parse each text by itself. Raise ConfigError for an invalid value or, unless ignored, an unknown key."""
    values = {}
    for name, text in texts.items():
        key = keys.get(name)
        if key is not None:
            values[name] = key.parse(text)
        elif not ignore_unknown:
            raise ConfigError(f"Unknown topic config name: {name}")
    return values


class BrokerText(NamedTuple):
    """A topic setting from a broker's key: the text in the topic's units, and the key."""

    text: str
    broker_key: str


def topic_texts(broker_texts: Mapping[str, str]) -> dict[str, BrokerText]:
    """Return broker settings as topic settings, by topic key. Raise ConfigError if a text cannot be converted."""
    found = {}
    for topic_key, synonyms in TOPIC_SYNONYMS.items():
        synonym = first_set(synonyms, broker_texts)
        if synonym is None:
            continue
        text = broker_texts[synonym.name]
        if topic_key.endswith(".ms"):
            value = BROKER_KEYS[synonym.name].parse(text)
            text = format_value(in_topic_units(topic_key, synonym, value))
        found[topic_key] = BrokerText(text, synonym.name)
    return found


def redacted_text(name: str, text: str) -> str:
    """Return the text, redacted for a password or an unknown key, whose value may be a secret."""
    key = TOPIC_KEYS.get(name) or BROKER_KEYS.get(name)
    return _REDACTED if key is None or key.is_secret else text
