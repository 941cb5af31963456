"""The progress of work on many logs, for the functions that show it.

Thread rule: any thread adds to a counter, which calls its listener for one addition at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock

Advance = Callable[[int], None]
"""A function that receives the number of bytes done since its last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress after some work. Bytes are those of the ``.log`` files that the work reads."""

    logs_done: int
    logs_total: int
    bytes_done: int
    bytes_total: int
    elapsed_ms: int

    @property
    def left_ms(self) -> int | None:
        """The estimated remaining time in ms. None if nothing is done yet."""
        done, total = self.logs_done, self.logs_total
        if self.bytes_total:
            done, total = self.bytes_done, self.bytes_total
        return self.elapsed_ms * (total - done) // done if done else None


ProgressListener = Callable[[Progress], None]


class ProgressCounter:
    """The logs and bytes done of a known total."""

    def __init__(
        self, logs: int, bytes_total: int, listener: ProgressListener | None = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._logs_total = logs
        self._bytes_total = bytes_total
        self._listener = listener
        self._clock = clock
        self._begun_ms = clock.monotonic_ms()
        self._lock = threading.Lock()
        self._logs_done = self._bytes_done = 0

    def add(self, bytes_done: int, *, logs: int = 0) -> None:
        """Count finished bytes and logs, and call the listener."""
        with self._lock:
            self._bytes_done += bytes_done
            self._logs_done += logs
            if self._listener is not None:
                self._listener(
                    Progress(
                        logs_done=self._logs_done,
                        logs_total=self._logs_total,
                        bytes_done=self._bytes_done,
                        bytes_total=self._bytes_total,
                        elapsed_ms=self._clock.monotonic_ms() - self._begun_ms,
                    )
                )


def one_at_a_time(advance: Advance) -> Advance:
    """Return a function for several threads that makes one call of ``advance`` at a time."""
    lock = threading.Lock()

    def call(count: int) -> None:
        with lock:
            advance(count)

    return call
