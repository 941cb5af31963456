"""The asyncio side of a connection: bytes in and out, flow control, and the end.

The event loop receives into ``ResponseFrames`` directly, with plain TCP and with TLS, and with asyncio's loop and
uvloop's. The owner learns of each frame and of the end, once. Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from tidelog.client.connection.response_frames import ResponseFrames
from tidelog.protocol.errors import MalformedMessageError

OnFrame = Callable[[memoryview], None]
OnEnd = Callable[[Exception | None], None]


class Stream(asyncio.BufferedProtocol):
    def __init__(self, max_bytes: int) -> None:
        self.frames = ResponseFrames(max_bytes)
        self.on_frame: OnFrame = _ignore_frame
        self.on_end: OnEnd = _ignore_end
        self._transport: asyncio.Transport | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._has_ended = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._has_ended

    def write(self, parts: list[bytes]) -> None:
        assert self._transport is not None
        self._transport.writelines(parts)

    async def wait_until_writable(self) -> None:
        """Return once the bytes that wait to be sent are few, or the connection has ended."""
        await self._can_write.wait()

    @property
    def is_writable(self) -> bool:
        return self._can_write.is_set()

    def end(self, error: Exception | None) -> None:
        """Close the connection at once and tell the owner why. Idempotent."""
        if self._has_ended:
            return
        self._has_ended = True
        self._can_write.set()
        if self._transport is not None:
            self._transport.abort()
        self.on_end(error)
        self.on_frame, self.on_end = _ignore_frame, _ignore_end  # no cycle: the memory is free at once

    # --- calls by asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.frames.buffer()

    def buffer_updated(self, count: int) -> None:
        try:
            frames = self.frames.received(count)
        except MalformedMessageError as error:
            self.end(error)
            return
        for frame in frames:
            self.on_frame(frame)

    def eof_received(self) -> bool:
        return False  # asyncio closes the transport and calls connection_lost

    def connection_lost(self, error: Exception | None) -> None:
        self.end(error)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()


def _ignore_frame(frame: memoryview) -> None:
    """Drop a response that comes after the end."""


def _ignore_end(error: Exception | None) -> None:
    """Drop the report of an end that the owner knows."""
