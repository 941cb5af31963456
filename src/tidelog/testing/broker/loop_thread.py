"""An event loop in a background thread, and calls to it from other threads.

Thread rule: any thread except the loop's, which would wait for itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import uvloop

PATIENCE_S: Final = 60
"""The timeout for work of a few milliseconds, on a machine that may be busy."""
_LOOK_AGAIN_S: Final = 0.005

Result = TypeVar("Result")


class LoopThread:
    """A loop that runs until ``stop``."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="tidelog-broker", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Run a coroutine function on the loop and return its result. Raise TimeoutError after ``PATIENCE_S``."""

        async def awaited() -> Result:
            return await work()

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(PATIENCE_S)

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function on the loop and return its result. No other thread may read state of the loop."""

        async def called() -> Result:
            return function()

        return self.run(called)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until ``is_so``, called on the loop, returns True. Raise TimeoutError after ``PATIENCE_S``."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.call(is_so):
            if time.monotonic() > deadline:
                raise TimeoutError("it never came to be")
            time.sleep(_LOOK_AGAIN_S)

    def stop(self) -> None:
        """Stop the loop and close it. Call this once."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()
