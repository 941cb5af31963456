"""A clock that stands still: a test moves it, or who sleeps by it."""

from __future__ import annotations


class HeldClock:
    """``now`` in milliseconds."""

    def __init__(self, now: int) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now

    def sleep_ms(self, duration_ms: int) -> None:
        self.now += duration_ms
