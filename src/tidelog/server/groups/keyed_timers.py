"""Timers by key: setting a timer replaces the timer with the same key.

Keys are tuples such as ``("session", group_id, member_id)``. Each shard has its own ``KeyedTimers``, so that all its
timers end with it. Thread rule: the event loop only. Source: Kafka's ``CoordinatorTimer``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.server.timers import TimerHandle, Timers

Key = tuple[str, ...]


class KeyedTimers:
    """The timers of one shard, built on the broker's ``timers``."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._handles: dict[Key, TimerHandle] = {}

    def now_ms(self) -> int:
        return self._timers.now_ms()

    def set(self, key: Key, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` in ``delay_ms``. Cancel the timer that was set under ``key``."""
        self.cancel(key)

        def run() -> None:
            del self._handles[key]
            callback()

        self._handles[key] = self._timers.call_later(delay_ms, run)

    def is_set(self, key: Key) -> bool:
        return key in self._handles

    def cancel(self, key: Key) -> None:
        """Cancel the key's timer. Idempotent."""
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        while self._handles:
            self._handles.popitem()[1].cancel()
