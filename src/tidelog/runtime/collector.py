"""The garbage collector, off for work whose objects stay alive."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Turn off garbage collection: the block's objects stay alive, and each collection would search them all again.

    Afterwards they count as old, so that the next collection of young objects does not search them either.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # else the program has frozen objects of its own, and keeps them so
            gc.freeze()
            gc.unfreeze()
        if was_on:
            gc.enable()
