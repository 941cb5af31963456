"""An event loop in a thread of its own, and the ways for other threads to have something done there.

Called by: the in-process broker, and tests of what lives on a loop. Thread rule: any thread but the loop's, which would
wait for itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import uvloop

PATIENCE_S: Final = 60
"""For what takes milliseconds, on a machine that has other things to do."""
_LOOK_AGAIN_S: Final = 0.005

Result = TypeVar("Result")


class LoopThread:
    """State: *running* -> ``stop``."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="tidelog-broker", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """The result of a coroutine function, run on the loop. TimeoutError after ``PATIENCE_S``."""

        async def awaited() -> Result:
            return await work()

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(PATIENCE_S)

    def call(self, function: Callable[[], Result]) -> Result:
        """The result of a function, called on the loop: the one way to look at what lives there."""

        async def called() -> Result:
            return function()

        return self.run(called)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Until ``is_so``, asked on the loop, is true. TimeoutError after ``PATIENCE_S``."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.call(is_so):
            if time.monotonic() > deadline:
                raise TimeoutError("it never came to be")
            time.sleep(_LOOK_AGAIN_S)

    def stop(self) -> None:
        """Nothing runs any more; once."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()
