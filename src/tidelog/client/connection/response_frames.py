"""The bytes of a connection become frames, and a large frame is received into its own memory.

::

    buffer() -> received(count) -> the frames that are complete now, without their lengths

Small frames are copied out of one scratch buffer. A large frame gets its memory once its length is known and allowed,
and the rest of it is received there without another copy. That memory is numpy's: the operating system gives pages only
as bytes arrive, so an announced size costs nothing. Pure except memory. Thread rule: the connection's thread.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy

from tidelog.protocol.errors import MalformedMessageError

_LENGTH = struct.Struct(">i")
SCRATCH_BYTES: Final = 64 * 1024
_SMALLEST: Final = 4
"""The bytes of a correlation id, which every response has."""
_TLS_ALERT: Final = 0x1503
"""The first two bytes of a TLS server's alert, which it sends to a client without TLS."""


class ResponseFrames:
    __slots__ = ("_end", "_frame", "_have", "_scratch", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        """The largest frame. A change applies to frames whose length was not received yet."""
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._end = 0
        """The bytes in the scratch buffer: the beginning of an incomplete small frame."""
        self._frame: memoryview | None = None
        """The incomplete large frame, of which ``_have`` bytes are received."""
        self._have = 0

    @property
    def is_between_frames(self) -> bool:
        return self._frame is None and self._end == 0

    def buffer(self) -> memoryview:
        """Return the place for the next bytes of the stream. It is never empty."""
        return self._scratch[self._end :] if self._frame is None else self._frame[self._have :]

    def received(self, count: int) -> list[memoryview]:
        """Record that ``count`` bytes were received into ``buffer``. Return the frames that are complete now.

        Raise MalformedMessageError if a frame's length is not allowed. The stream cannot be read on after that.
        """
        if self._frame is None:
            self._end += count
            return self._split()
        self._have += count
        if self._have < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _split(self) -> list[memoryview]:
        """Take the complete frames out of the scratch buffer, and move the rest to its beginning."""
        scratch, position, end = self._scratch, 0, self._end
        frames = []
        while end - position >= _LENGTH.size:
            length: int = _LENGTH.unpack_from(scratch, position)[0]
            self._check(length)
            start = position + _LENGTH.size
            if start + length <= end:
                frames.append(memoryview(bytes(scratch[start : start + length])))
                position = start + length
            elif length > SCRATCH_BYTES - _LENGTH.size:
                self._frame = memoryview(numpy.empty(length, numpy.uint8).data)
                self._have = end - start
                self._frame[: self._have] = scratch[start:end]
                position = end
            else:
                break
        self._end = end - position
        if position and self._end:
            scratch[: self._end] = bytes(scratch[position:end])
        return frames

    def _check(self, length: int) -> None:
        if _SMALLEST <= length <= self.max_bytes:
            return
        if length >> 16 == _TLS_ALERT:
            raise MalformedMessageError("the peer sent a TLS alert: the port needs TLS (security.protocol)")
        if length > self.max_bytes:
            raise MalformedMessageError(
                f"a response announces {length} bytes, but receive.message.max.bytes is {self.max_bytes}"
            )
        raise MalformedMessageError(f"a response announces {length} bytes, but the smallest has {_SMALLEST}")
