"""The settings of one log: Kafka's topic configuration keys as fields, with Kafka 4.1's defaults.

Owns the names, defaults and ranges, nothing else: an immutable value, made once and read by every room of the engine.
``LogConfig(segment_bytes=...)`` and ``LogConfig.from_properties({"segment.bytes": "..."})`` are the two ways in.
Source: Kafka's ``LogConfig`` and ``ServerLogConfigs``; ``segment.bytes`` keeps the lower bound of the format (14)
rather than the broker's (1 MiB), as Kafka's own ``internal.segment.bytes`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Self

from tidelog.model import ConfigError
from tidelog.storage.segment.limits import SegmentLimits

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1
_DAY_MS = 24 * 60 * 60 * 1000

_RANGES: dict[str, tuple[int, int]] = {
    "segment_bytes": (14, _INT_MAX),
    "segment_ms": (1, _LONG_MAX),
    "segment_jitter_ms": (0, _LONG_MAX),
    "segment_index_bytes": (12, _INT_MAX),
    "flush_messages": (1, _LONG_MAX),
    "flush_ms": (0, _LONG_MAX),
    "retention_bytes": (-(2**63), _LONG_MAX),
    "retention_ms": (-1, _LONG_MAX),
    "max_message_bytes": (0, _INT_MAX),
    "index_interval_bytes": (0, _INT_MAX),
    "delete_retention_ms": (0, _LONG_MAX),
    "min_compaction_lag_ms": (0, _LONG_MAX),
    "max_compaction_lag_ms": (1, _LONG_MAX),
    "file_delete_delay_ms": (0, _LONG_MAX),
    "compression_gzip_level": (-1, 9),
    "compression_lz4_level": (1, 17),
    "compression_zstd_level": (-131072, 22),
    "message_timestamp_before_max_ms": (0, _LONG_MAX),
    "message_timestamp_after_max_ms": (0, _LONG_MAX),
    "producer_id_expiration_ms": (1, _LONG_MAX),
}

_CHOICES: dict[str, tuple[str, ...]] = {
    "compression_type": ("producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd"),
    "message_timestamp_type": ("CreateTime", "LogAppendTime"),
}

_POLICIES = ("compact", "delete")
_INTERNAL_KEYS = {"internal.segment.bytes": "segment_bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Sizes in bytes, times in milliseconds, counts in messages."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    flush_messages: int = _LONG_MAX
    flush_ms: int = _LONG_MAX
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    max_message_bytes: int = 1024 * 1024 + 12
    index_interval_bytes: int = 4096
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _LONG_MAX
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    preallocate: bool = False
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    producer_id_expiration_ms: int = _DAY_MS
    """A broker setting in Kafka (``producer.id.expiration.ms``); here because the log is what applies it."""

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{property_name(name)} is {value}, allowed is {low} to {high}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{property_name(name)} is '{getattr(self, name)}', allowed is {', '.join(choices)}")
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            raise ConfigError(f"min.cleanable.dirty.ratio is {self.min_cleanable_dirty_ratio}, allowed is 0 to 1")
        if not self.cleanup_policy <= set(_POLICIES):
            raise ConfigError(f"cleanup.policy is {sorted(self.cleanup_policy)}, allowed is {', '.join(_POLICIES)}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, ignore_unknown: bool = False) -> Self:
        """Kafka's keys and texts over the defaults; see ``with_properties``."""
        return cls().with_properties(properties, ignore_unknown=ignore_unknown)

    def with_properties(self, properties: Mapping[str, str], *, ignore_unknown: bool = False) -> Self:
        """Kafka's keys and texts over these settings.

        ConfigError for an unknown key (unless those are ignored) or a text that is not of its type.
        """
        known = {property_name(field.name): field.name for field in fields(self)} | _INTERNAL_KEYS
        values: dict[str, object] = {}
        for key, text in properties.items():
            if key not in known:
                if ignore_unknown:
                    continue
                raise ConfigError(f"'{key}' is not a topic setting that tidelog knows")
            values[known[key]] = _parsed(key, known[key], text)
        return replace(self, **values)  # type: ignore[arg-type]

    @property
    def segment_limits(self) -> SegmentLimits:
        return SegmentLimits(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            segment_jitter_ms=self.segment_jitter_ms,
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            preallocate=self.preallocate,
        )

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy


def property_name(field_name: str) -> str:
    """Kafka's spelling of a field's name."""
    return field_name.replace("_", ".")


def _parsed(key: str, field_name: str, text: str) -> object:
    default = {field.name: field.default for field in fields(LogConfig)}[field_name]
    assert default is not MISSING
    try:
        match default:
            case bool():
                return {"true": True, "false": False}[text.strip().lower()]
            case int():
                return int(text)
            case float():
                return float(text)
            case frozenset():
                return frozenset(part.strip() for part in text.split(",") if part.strip())
            case _:
                return text.strip()
    except (ValueError, KeyError):
        raise ConfigError(f"{key} is '{text}', which is not a {type(default).__name__}") from None
