"""Frames: a length of four bytes, then a message of that length.

The announced length is not trusted. The memory of a large frame is numpy's: the operating system gives pages only as
bytes arrive, so a frame of 100 MB without any bytes takes none. Thread rule: the connection's thread.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING, Final

import numpy

from tidelog.protocol.errors import MalformedMessageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Frame = bytearray | memoryview
"""The bytes of a frame without its length. They are writable."""

_LENGTH = struct.Struct(">i")
_LARGE_BYTES: Final = 64 * 1024
"""The length from which a frame has numpy's memory."""
_TLS_HELLO = 0x160301
"""The first three bytes of every TLS client: a handshake record with the version that all clients write."""


class FrameReader:
    """A reader that splits a stream into frames. Call ``receive`` with the bytes. To save a copy of a large frame,
    receive into ``space`` and call ``filled``."""

    __slots__ = ("_frame", "_have", "_prefix", "complete", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        """The largest frame. A change applies from the next frame on."""
        self.complete: deque[Frame] = deque()
        """The complete frames, without their lengths."""
        self._prefix = b""
        """The first bytes of an incomplete length."""
        self._frame: Frame | None = None
        """The incomplete frame, of which ``_have`` bytes are received."""
        self._have = 0

    @property
    def held_bytes(self) -> int:
        """The memory of the incomplete frame in bytes."""
        return 0 if self._frame is None else min(len(self._frame), max(self._have, _LARGE_BYTES))

    def next_frame(self) -> Frame | None:
        """Remove and return the oldest complete frame, without its length."""
        return self.complete.popleft() if self.complete else None

    def receive(self, data: Buffer) -> None:
        """Add bytes of the stream. Raise MalformedMessageError if a length is negative or above the limit. The reader
        cannot be used after that."""
        view = memoryview(data)
        position, end = 0, len(view)
        while position < end:
            if self._frame is not None:
                space = memoryview(self._frame)[self._have :]
                count = min(len(space), end - position)
                space[:count] = view[position : position + count]
                space.release()
                self.filled(count)
                position += count
            elif self._prefix or end - position < _LENGTH.size:
                position += self._begin(view[position:])
            else:
                position = self._take(view, position, end)

    def space(self) -> memoryview | None:
        """Return the buffer for the stream's next bytes, or None between frames. Release it before any other call."""
        return None if self._frame is None else memoryview(self._frame)[self._have :]

    def filled(self, count: int) -> None:
        """Record that ``count`` bytes were received into ``space``."""
        assert self._frame is not None
        self._have += count
        if self._have == len(self._frame):
            self.complete.append(self._frame)
            self._frame = None

    def _take(self, view: memoryview, position: int, end: int) -> int:
        """Take the frame at ``position`` if it is complete, or else its length. Return the position after it."""
        length: int = _LENGTH.unpack_from(view, position)[0]
        start = position + _LENGTH.size
        if not 0 <= length <= end - start or length > self.max_bytes:
            self._begin_frame(length)
            return start
        self.complete.append(bytearray(view[start : start + length]))
        return start + length

    def _begin(self, view: memoryview) -> int:
        """Take the available bytes of a length from ``view``. Return their number."""
        missing = _LENGTH.size - len(self._prefix)
        self._prefix += view[:missing]
        if len(self._prefix) == _LENGTH.size:
            (length,) = _LENGTH.unpack(self._prefix)
            self._prefix = b""
            self._begin_frame(length)
        return min(missing, len(view))

    def _begin_frame(self, length: int) -> None:
        if not 0 <= length <= self.max_bytes:
            hint = "; a TLS client may have connected to a port without TLS" if length >> 8 == _TLS_HELLO else ""
            raise MalformedMessageError(f"a frame announces {length} bytes, but the limit is {self.max_bytes}{hint}")
        is_large = length >= _LARGE_BYTES
        self._frame = memoryview(numpy.empty(length, numpy.uint8).data) if is_large else bytearray(length)
        self._have = 0
        if length == 0:
            self.filled(0)


def length_prefix(parts: Iterable[Sized]) -> bytes:
    """Return the length that makes a frame of these parts."""
    return _LENGTH.pack(sum(map(len, parts)))
