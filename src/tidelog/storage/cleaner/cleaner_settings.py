"""The log cleaner's settings: Kafka's ``log.cleaner`` keys as fields, with Kafka's defaults.

Topic settings are not among them. Source: Kafka's ``CleanerConfig``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.columns import INT_MAX
from tidelog.config.settings_keys import from_key, read_settings
from tidelog.kernel import OffsetMap

MOST_THREADS = 100
"""Kafka has no upper limit; tidelog has one, so that the rest of the broker gets threads too."""
_LEAST_MAP_BYTES = 4096
_MAP_BYTES_A_KEY = 32
"""A slot has 24 bytes, and a tenth of the slots stay empty."""
_FULLEST = 0.99
"""A search in the map ends at an empty slot, so the map must not fill up. Kafka's key accepts any number."""


def enough_map_bytes(keys: int) -> int:
    """Return the bytes of a map that holds ``keys`` keys, at Kafka's load factor."""
    return _LEAST_MAP_BYTES + _MAP_BYTES_A_KEY * keys


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    threads: int = from_key("log.cleaner.threads")
    """The number of threads, at least 1. Read from a broker's properties, it is at most ``MOST_THREADS``."""
    dedupe_buffer_bytes: int = from_key("log.cleaner.dedupe.buffer.size")
    """The bytes for the offset maps of all threads together."""
    dedupe_load_factor: float = from_key("log.cleaner.io.buffer.load.factor")
    io_buffer_bytes: int = from_key("log.cleaner.io.buffer.size")
    """The bytes for the read and write buffers of all threads together."""
    io_max_bytes_per_second: float = from_key("log.cleaner.io.max.bytes.per.second")
    """The limit for the reads and writes of all threads together."""
    backoff_ms: int = from_key("log.cleaner.backoff.ms")
    """The wait of a thread that found nothing to clean, in ms."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read the settings from a broker's properties."""
        values = read_settings(cls, config)
        return cls(**values | {"threads": min(values["threads"], MOST_THREADS)})

    @property
    def map_bytes(self) -> int:
        """The bytes for one thread's map, at most 2 GiB: as in Kafka, the rest stays unused."""
        return min(self.dedupe_buffer_bytes // self.threads, INT_MAX)

    @property
    def thread_io_bytes(self) -> int:
        """The bytes for one thread's reads, and the same number again for its writes."""
        return self.io_buffer_bytes // self.threads // 2

    def new_map(self, key: bytes) -> OffsetMap:
        """Return a map for one thread. ``key`` is 16 random bytes, so that a client cannot choose colliding keys."""
        return OffsetMap(self.map_bytes, key=key, load_factor=min(self.dedupe_load_factor, _FULLEST))
