"""A sleep that uses the broker's timers, which tests control. Thread rule: the event loop only."""

from __future__ import annotations

import asyncio

from tidelog.server.timers import Timers


async def pause(timers: Timers, duration_ms: int) -> None:
    """Sleep for ``duration_ms``. Cancellation leaves no timer behind."""
    over = asyncio.Event()
    handle = timers.call_later(duration_ms, over.set)
    try:
        await over.wait()
    finally:
        handle.cancel()
