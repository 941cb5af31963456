"""A rate that several threads together keep below a limit: whoever was too fast takes a nap.

Measured over periods of at least ``CHECK_EVERY_MS``: a period that was faster than the limit is made as long as it
should have been. One thread naps at a time; others that come along wait behind it. The limit may change at any time,
in the middle of a nap too.
Called by: the log cleaner. Thread rule: any thread. Source: Kafka's ``Throttler``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock

CHECK_EVERY_MS = 300
_SLICE_MS = 100
_LEAST = 1e-9
"""What 0 is taken for, a limit below it, and no number: whoever naps waits until it changes, or ``check`` ends it."""


class Throttle:
    def __init__(self, per_second: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """``per_second``: bytes, or whatever is counted."""
        self.per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._began_ms = clock.monotonic_ms()
        self._seen = 0
        self.total = 0
        """Counted since it was made."""

    def maybe_throttle(self, amount: int, check: Callable[[], None] = lambda: None) -> None:
        """Count ``amount``, and nap if that was too fast.

        ``check`` is called before each tenth of a second of a nap; what it raises ends the nap.
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
