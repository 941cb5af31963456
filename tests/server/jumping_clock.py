"""A clock whose time of day a test changes. Its durations are the machine's."""

from __future__ import annotations

from tidelog.runtime.clock import SystemClock


class JumpingClock(SystemClock):
    __slots__ = ("ahead_ms",)

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms
