"""The limits of a run: bytes a second, and the free space that stays on the disk. Thread rule: the event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tidelog.model import TidelogError

_SHORTEST_WAIT_S = 0.01


class DiskLimitError(TidelogError):
    """The disk has less free space than the run must leave. Nothing was written after that."""


class RateLimit:
    """A limit of bytes a second over all fetches together: a fetch that was too large delays the next ones."""

    def __init__(self, bytes_per_second: int | None) -> None:
        """None is no limit."""
        self._rate = bytes_per_second
        self._free_at = 0.0

    @property
    def largest_fetch(self) -> int | None:
        """The most bytes of one fetch, so that the limit holds in each second; None is no limit."""
        return None if self._rate is None else max(1, self._rate // 2)

    async def wait(self) -> None:
        """Wait until the bytes so far are within the limit."""
        wait_s = self._free_at - asyncio.get_running_loop().time()
        if wait_s > _SHORTEST_WAIT_S:
            await asyncio.sleep(wait_s)

    def note(self, count: int) -> None:
        """Count fetched bytes."""
        if self._rate is not None:
            now = asyncio.get_running_loop().time()
            self._free_at = max(self._free_at, now) + count / self._rate


class DiskLimit:
    def __init__(self, path: Path, min_free: int, free_bytes: Callable[[], int]) -> None:
        self._path = path
        self._min_free = min_free
        self._free_bytes = free_bytes

    def require(self, count: int) -> None:
        """Raise DiskLimitError if ``count`` more bytes would leave less than the limit."""
        free = self._free_bytes()
        if free - count < self._min_free:
            raise DiskLimitError(
                f"the disk has {free:,} bytes free, and {count:,} more would leave less than --min-free"
                f" {self._min_free:,}. The copy is complete up to here; make space, and run the command again",
                path=self._path,
            )
