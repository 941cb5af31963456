"""A limit on the rate of several threads together: a thread that was too fast sleeps.

The rate is measured over periods of at least ``CHECK_EVERY_MS``. A period that was too fast is extended by a sleep
until its rate meets the limit. One thread sleeps at a time, and the others wait for it. The limit may change at any
time, also during a sleep. Thread rule: any thread. Source: Kafka's ``Throttler``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock

CHECK_EVERY_MS = 300
_SLICE_MS = 100
_LEAST = 1e-9
"""The lowest limit, also used for NaN. A thread then sleeps until the limit changes or ``check`` raises."""


class Throttle:
    def __init__(self, per_second: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """``per_second`` is the limit in bytes, or in any other unit."""
        self.per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._began_ms = clock.monotonic_ms()
        self._seen = 0
        self.total = 0
        """The amount counted since the start."""

    def maybe_throttle(self, amount: int, check: Callable[[], None] = lambda: None) -> None:
        """Count ``amount``, and sleep if the rate is above the limit.

        ``check`` is called before each tenth of a second of a sleep. An error that it raises ends the sleep.
        """
        with self._lock:
            self.total += amount
            self._seen += amount
            if self._elapsed_ms() <= CHECK_EVERY_MS or not self._seen:
                return
            while (left_ms := round(self._seen * 1000 / max(_LEAST, self.per_second)) - self._elapsed_ms()) > 0:
                check()
                self._clock.sleep_ms(min(left_ms, _SLICE_MS))
            self._began_ms = self._clock.monotonic_ms()
            self._seen = 0

    def _elapsed_ms(self) -> int:
        return self._clock.monotonic_ms() - self._began_ms
