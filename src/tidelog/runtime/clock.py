"""Clocks as a parameter, so that a test can control the time. Thread rule: any thread."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return milliseconds since the epoch, as in records. The clock may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds from an arbitrary start. They never decrease."""
        ...

    def sleep_ms(self, duration_ms: int) -> None: ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)


SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class FixedClock:
    """A clock that always shows the same time, so that all tasks of a job agree. Durations are the machine's."""

    epoch_ms: int

    def now_ms(self) -> int:
        return self.epoch_ms

    def monotonic_ms(self) -> int:
        return SYSTEM_CLOCK.monotonic_ms()

    def sleep_ms(self, duration_ms: int) -> None:
        SYSTEM_CLOCK.sleep_ms(duration_ms)
