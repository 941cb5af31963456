"""What the log cleaner goes by besides the topics' settings: Kafka's ``log.cleaner`` keys as fields, with its defaults.

A value. Called by: the log manager, ``tidelog compact``. Source: Kafka's ``CleanerConfig``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.columns import INT_MAX
from tidelog.config.settings_keys import SettingsKeys
from tidelog.kernel import OffsetMap

_KEYS = SettingsKeys(
    {
        "threads": "log.cleaner.threads",
        "dedupe_buffer_bytes": "log.cleaner.dedupe.buffer.size",
        "dedupe_load_factor": "log.cleaner.io.buffer.load.factor",
        "io_buffer_bytes": "log.cleaner.io.buffer.size",
        "io_max_bytes_per_second": "log.cleaner.io.max.bytes.per.second",
        "backoff_ms": "log.cleaner.backoff.ms",
    }
)
MOST_THREADS = 100
"""Kafka starts any number, twice as many with each change; here the rest of the broker has to have threads too."""
_LEAST_MAP_BYTES = 4096
_MAP_BYTES_A_KEY = 32
"""A slot has 24, and of the slots a tenth stays empty."""
_FULLEST = 0.99
"""A map needs an empty slot to find the end of a search; Kafka's key takes any number."""


def enough_map_bytes(keys: int) -> int:
    """What a map takes that holds so many keys, at Kafka's load factor."""
    return _LEAST_MAP_BYTES + _MAP_BYTES_A_KEY * keys


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    threads: int = _KEYS.default("threads")
    """At least 1; of a broker's properties at most ``MOST_THREADS``."""
    dedupe_buffer_bytes: int = _KEYS.default("dedupe_buffer_bytes")
    """For the maps from keys to offsets of all threads together."""
    dedupe_load_factor: float = _KEYS.default("dedupe_load_factor")
    io_buffer_bytes: int = _KEYS.default("io_buffer_bytes")
    """For what all threads together read and write."""
    io_max_bytes_per_second: float = _KEYS.default("io_max_bytes_per_second")
    """Read and written by all threads together."""
    backoff_ms: int = _KEYS.default("backoff_ms")
    """How long a thread waits that found nothing to clean."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """As a broker's properties say."""
        values = _KEYS.read(config)
        return cls(**values | {"threads": min(values["threads"], MOST_THREADS)})

    @property
    def map_bytes(self) -> int:
        """For the map of one thread; what is above 2 GiB is left, as in Kafka."""
        return min(self.dedupe_buffer_bytes // self.threads, INT_MAX)

    @property
    def thread_io_bytes(self) -> int:
        """For what one thread reads, and as much for what it writes."""
        return self.io_buffer_bytes // self.threads // 2

    def new_map(self, key: bytes) -> OffsetMap:
        """For one thread; ``key``: 16 random bytes, so that nobody can choose keys that collide."""
        return OffsetMap(self.map_bytes, key=key, load_factor=min(self.dedupe_load_factor, _FULLEST))
