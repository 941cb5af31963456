"""A background thread that reports progress at intervals while a block runs.

Thread rule: one call at a time, and none after the block has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STEP_SECONDS = 0.5


@contextmanager
def telling_now_and_then(tell: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def tell_until_ended() -> None:
        while not ended.wait(_STEP_SECONDS):
            tell()

    teller = threading.Thread(target=tell_until_ended, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
