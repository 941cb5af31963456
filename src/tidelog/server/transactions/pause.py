"""Let a coroutine wait by the broker's timers, which a test moves. Thread rule: the loop's."""

from __future__ import annotations

import asyncio

from tidelog.server.timers import Timers


async def pause(timers: Timers, duration_ms: int) -> None:
    """May be cancelled: nothing is left behind."""
    over = asyncio.Event()
    handle = timers.call_later(duration_ms, over.set)
    try:
        await over.wait()
    finally:
        handle.cancel()
