"""The settings of one log: Kafka's topic configuration keys as fields of an immutable value.

Names, types, defaults and ranges come from the tables in ``tidelog.config``. A field is its key with underscores. There
are three ways to create one:

================================  ==================================================================================
``LogConfig(segment_bytes=…)``    from values; tests and embedding may use segment sizes below Kafka's minimum
``LogConfig.from_properties``     from texts in a data directory, written by any release: lenient
``LogConfig.of``                  from a topic's settings over a broker's: refused where Kafka 4.1 refuses them
================================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.columns import INT_MAX, LONG_MAX
from tidelog.config.key import Key
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.topic_settings import TopicSettings
from tidelog.config.value_text import Value, parse_value
from tidelog.model import ConfigError
from tidelog.storage.segment.limits import SegmentLimits

_PRODUCER_KEY = "producer.id.expiration.ms"
_INTERNAL_SEGMENT_KEY = "internal.segment.bytes"

_ENGINE_RANGES = {
    "segment_bytes": (14, INT_MAX),
    "segment_index_bytes": (12, INT_MAX),
    "producer_id_expiration_ms": (1, LONG_MAX),
}
"""Ranges that the engine supports. Kafka's are narrower, or allow an index too small for one entry."""
_NO_CODEC = {"none": "uncompressed"}
"""The codec name ``none`` is accepted instead of the key's value ``uncompressed``."""


def _key(field_name: str) -> Key:
    name = property_name(field_name)
    return BROKER_KEYS[name] if name == _PRODUCER_KEY else TOPIC_KEYS[name]


def _default(field_name: str) -> Any:
    return _field_value(_key(field_name).default)


def _field_value(value: Any) -> Any:
    """Return a list as a set, because its order has no meaning."""
    return frozenset(value) if isinstance(value, tuple) else value


def property_name(field_name: str) -> str:
    """Return the Kafka key of a field."""
    return field_name.replace("_", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Sizes in bytes, times in milliseconds, counts in messages."""

    segment_bytes: int = _default("segment_bytes")
    segment_ms: int = _default("segment_ms")
    segment_jitter_ms: int = _default("segment_jitter_ms")
    segment_index_bytes: int = _default("segment_index_bytes")
    flush_messages: int = _default("flush_messages")
    flush_ms: int = _default("flush_ms")
    retention_bytes: int = _default("retention_bytes")
    retention_ms: int = _default("retention_ms")
    max_message_bytes: int = _default("max_message_bytes")
    max_decompressed_message_bytes: int = _default("max_decompressed_message_bytes")
    index_interval_bytes: int = _default("index_interval_bytes")
    delete_retention_ms: int = _default("delete_retention_ms")
    min_compaction_lag_ms: int = _default("min_compaction_lag_ms")
    max_compaction_lag_ms: int = _default("max_compaction_lag_ms")
    file_delete_delay_ms: int = _default("file_delete_delay_ms")
    min_cleanable_dirty_ratio: float = _default("min_cleanable_dirty_ratio")
    cleanup_policy: frozenset[str] = _default("cleanup_policy")
    compression_type: str = _default("compression_type")
    compression_gzip_level: int = _default("compression_gzip_level")
    compression_lz4_level: int = _default("compression_lz4_level")
    compression_zstd_level: int = _default("compression_zstd_level")
    preallocate: bool = _default("preallocate")
    message_timestamp_type: str = _default("message_timestamp_type")
    message_timestamp_before_max_ms: int = _default("message_timestamp_before_max_ms")
    message_timestamp_after_max_ms: int = _default("message_timestamp_after_max_ms")
    min_insync_replicas: int = _default("min_insync_replicas")
    """Unused by the log itself; the broker that appends to it checks this."""
    producer_id_expiration_ms: int = _default("producer_id_expiration_ms")
    """A broker setting in Kafka (``producer.id.expiration.ms``), kept here because the log applies it."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _ENGINE_RANGES:
                _key(field.name).check(_key_value(field.name, value))
                continue
            low, high = _ENGINE_RANGES[field.name]
            if not low <= value <= high:
                raise ConfigError(
                    f"Invalid value {value} for configuration {property_name(field.name)}:"
                    f" Value must be at least {low} and no more than {high}"
                )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, ignore_unknown: bool = False) -> Self:
        """Apply Kafka's keys and texts to the defaults; see ``with_properties``."""
        return cls().with_properties(properties, ignore_unknown=ignore_unknown)

    def with_properties(self, properties: Mapping[str, str], *, ignore_unknown: bool = False) -> Self:
        """Apply Kafka's keys and texts to these settings. Of topic keys without a field, only the type is checked.

        Raise ConfigError for an unknown key (unless ignored), a text of the wrong type or a value out of range.
        """
        values: dict[str, Value] = {}
        for name, text in properties.items():
            key = TOPIC_KEYS.get(name) or (BROKER_KEYS[name] if name == _PRODUCER_KEY else None)
            if key is None:
                if ignore_unknown:
                    continue
                raise ConfigError(f"Unknown topic config name: {name}")
            try:
                values[name] = parse_value(text, key.type)
            except ValueError as error:
                raise ConfigError(f"Invalid value {text} for configuration {name}: {error}") from None
        return self._with_values(values)

    @classmethod
    def of(cls, broker: BrokerConfig | None = None, topic_overrides: Mapping[str, str] | None = None) -> Self:
        """Apply a topic's overrides to the broker's defaults. Raise ConfigError with Kafka's message if invalid."""
        values = TopicSettings.of(topic_overrides or {}, broker).values
        config = cls()._with_values({name: value for name, value in values.items() if value is not None})
        return config if broker is None else replace(config, producer_id_expiration_ms=broker.number(_PRODUCER_KEY))

    def _with_values(self, values: Mapping[str, Any]) -> Self:
        """Apply typed values by key. ``internal.segment.bytes`` wins; keys without a field are left out."""
        named = {name.replace(".", "_"): value for name, value in values.items()}
        if _INTERNAL_SEGMENT_KEY in values:  # Kafka takes any number
            named["segment_bytes"] = max(values[_INTERNAL_SEGMENT_KEY], _ENGINE_RANGES["segment_bytes"][0])
        if "segment_index_bytes" in named:  # Kafka takes 4 bytes, too
            named["segment_index_bytes"] = max(named["segment_index_bytes"], _ENGINE_RANGES["segment_index_bytes"][0])
        known = {field.name for field in fields(self)}
        return replace(self, **{name: _field_value(value) for name, value in named.items() if name in known})

    @property
    def segment_limits(self) -> SegmentLimits:
        return SegmentLimits(
            segment_bytes=self.segment_bytes,
            max_segment_ms=self.max_segment_ms,
            jitter_below_ms=min(self.segment_jitter_ms, self.segment_ms),
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            preallocate=self.preallocate,
        )

    @property
    def max_segment_ms(self) -> int:
        """The most ms between the first and the last batch of a segment (KIP-354)."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def flushes_appends(self) -> bool:
        """True if an append may have to flush the log (``flush.messages``), so that it waits for the disk."""
        return self.flush_messages != LONG_MAX

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy


def _key_value(field_name: str, value: Any) -> Value:
    """Return the key's value for a field's value: the inverse of ``_field_value``."""
    if isinstance(value, frozenset):
        return tuple(sorted(value))
    found: Value = _NO_CODEC.get(value, value) if field_name == "compression_type" else value
    return found
