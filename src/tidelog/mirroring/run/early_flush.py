"""The flush of copied records while the run goes on, so that its end has little left to flush.

A log is flushed once it has ``FLUSH_BYTES`` of new records. One log is flushed at a time, in a background thread, and
appends go on meanwhile. Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tidelog.model import ClosedError
from tidelog.runtime.executor import InThread
from tidelog.storage.log.partition_log import PartitionLog

FLUSH_BYTES: Final = 32 * 1024 * 1024


class EarlyFlush:
    def __init__(self, in_thread: InThread, on_failure: Callable[[BaseException], None]) -> None:
        self._in_thread = in_thread
        self._on_failure = on_failure
        self._unflushed: dict[PartitionLog, int] = {}
        self._flushing: asyncio.Task[None] | None = None

    def note(self, log: PartitionLog, count: int) -> None:
        """Count the bytes of an append."""
        self._unflushed[log] = unflushed = self._unflushed.get(log, 0) + count
        if unflushed >= FLUSH_BYTES and self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def end(self) -> None:
        """Return when no log is due any more."""
        while self._flushing is not None:
            await self._flushing

    async def _flush(self) -> None:
        """Flush the log with the most new records, as long as one has enough of them."""
        try:
            while self._unflushed:
                log = max(self._unflushed, key=self._unflushed.__getitem__)
                if self._unflushed[log] < FLUSH_BYTES:
                    break
                del self._unflushed[log]
                try:
                    await self._in_thread(log.flush)
                except ClosedError:
                    continue  # its topic was removed
        except Exception as error:
            self._on_failure(error)
        finally:
            self._flushing = None
