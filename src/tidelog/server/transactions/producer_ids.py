"""Producer ids, taken one by one from blocks of the controller.

The next block is requested when nine tenths of the current block are used, so that no client must wait for it. Ids of a
block that are left when the broker stops are never used: a cluster uses each id at most once.
Thread rule: the event loop only. Source: Kafka's ``RPCProducerIdManager`` (KIP-730).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.runtime.executor import Spawn

_PREFETCH_TENTHS = 9
_log = logging.getLogger(__name__)


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[range]], spawn: Spawn) -> None:
        """Callable ``allocate`` returns a block that no other broker has."""
        self._allocate = allocate
        self._spawn = spawn
        self._block = range(0)
        self._next_block = range(0)
        self._size = 0
        self._request: asyncio.Event | None = None
        """The event of the pending request, which is set when the request is over."""

    async def ready(self) -> None:
        """Return when an id is ready for ``take``, or when the request for a block has failed."""
        if not self._left:
            self._request_block()
            if self._request is not None:
                await self._request.wait()

    def take(self) -> int:
        """Take an id. Raise ApiError(COORDINATOR_LOAD_IN_PROGRESS) if there is none: the client retries."""
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
            self._size = len(self._block)
        if not self._block:
            self._request_block()
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is available yet")
        taken, self._block = self._block[0], self._block[1:]
        if len(self._block) * 10 <= self._size * (10 - _PREFETCH_TENTHS) and not self._next_block:
            self._request_block()
        return taken

    @property
    def _left(self) -> bool:
        return bool(self._block or self._next_block)

    def _request_block(self) -> None:
        if self._request is None:
            self._request = asyncio.Event()
            self._spawn(self._fetch(self._request))

    async def _fetch(self, request: asyncio.Event) -> None:
        try:
            self._next_block = await self._allocate()
        except TidelogError as error:
            _log.warning("Cannot allocate a block of producer ids: %s", error)
        finally:
            self._request = None
            request.set()
