"""Timers by key: setting one takes the place of the one that was set under its key.

Keys are tuples, ``("session", group_id, member_id)``. A shard has its own, so that all it waits for ends with it.
Called by: the state machines of groups. Thread rule: the loop's thread. Source: Kafka's ``CoordinatorTimer``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.server.timers import TimerHandle, Timers

Key = tuple[str, ...]


class KeyedTimers:
    """Timers of one shard over the broker's ``timers``."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._handles: dict[Key, TimerHandle] = {}

    def now_ms(self) -> int:
        return self._timers.now_ms()

    def set(self, key: Key, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` in ``delay_ms``; what was set under ``key`` is cancelled."""
        self.cancel(key)

        def run() -> None:
            del self._handles[key]
            callback()

        self._handles[key] = self._timers.call_later(delay_ms, run)

    def is_set(self, key: Key) -> bool:
        return key in self._handles

    def cancel(self, key: Key) -> None:
        """Idempotent."""
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        while self._handles:
            self._handles.popitem()[1].cancel()
