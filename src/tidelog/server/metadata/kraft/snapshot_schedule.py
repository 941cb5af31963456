"""The schedule of metadata snapshots: the next is due after a number of bytes, or after a time.

Thread rule: the event loop, or a background thread while the metadata is loaded. Source: Kafka's ``SnapshotGenerator``.
"""

from __future__ import annotations

from tidelog.config.broker_config import BrokerConfig
from tidelog.runtime import Clock


class SnapshotSchedule:
    """The schedule of snapshots: the next is due after a number of bytes, or after a time."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._max_bytes = config.number("metadata.log.max.record.bytes.between.snapshots")
        self._max_ms = config.number("metadata.log.max.snapshot.interval.ms")
        self._clock = clock
        self._bytes = 0
        self._begun_ms = clock.monotonic_ms()

    def note(self, count: int) -> None:
        self._bytes += count

    @property
    def is_due(self) -> bool:
        waited_ms = self._clock.monotonic_ms() - self._begun_ms
        return self._bytes >= self._max_bytes or 0 < self._max_ms <= waited_ms

    def begin(self) -> None:
        self._bytes = 0
        self._begun_ms = self._clock.monotonic_ms()
