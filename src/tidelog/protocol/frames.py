"""Frames: a length of four bytes, then a message of that length.

The announced length is not trusted: a frame's buffer grows with the received bytes. A frame of 100 MB without any bytes
takes 64 KiB. Thread rule: the connection's thread.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING

from tidelog.protocol.errors import MalformedMessageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LENGTH = struct.Struct(">i")
_FIRST_BYTES = 64 * 1024
"""The largest initial size of a frame's buffer."""


_TLS_HELLO = 0x160301
"""The first three bytes of every TLS client: a handshake record with the version that all clients write."""


class FrameReader:
    """A reader that splits a stream into frames. Call ``receive`` with the bytes. To save a copy of a large frame,
    receive into ``space`` and call ``filled``."""

    __slots__ = ("_frame", "_frames", "_have", "_length", "_prefix", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        """The largest frame. A change applies from the next frame on."""
        self._frames: deque[bytearray] = deque()
        self._prefix = b""
        """The first bytes of an incomplete length."""
        self._frame: bytearray | None = None
        """The incomplete frame: room for some of its ``_length`` bytes, of which ``_have`` are received."""
        self._length = 0
        self._have = 0

    @property
    def held_bytes(self) -> int:
        """The memory of the incomplete frame in bytes."""
        return 0 if self._frame is None else len(self._frame)

    def next_frame(self) -> bytearray | None:
        """Remove and return the oldest complete frame, without its length."""
        return self._frames.popleft() if self._frames else None

    def receive(self, data: Buffer) -> None:
        """Add bytes of the stream. Raise MalformedMessageError if a length is negative or above the limit. The reader
        cannot be used after that."""
        view = memoryview(data)
        position, end = 0, len(view)
        while position < end:
            if self._frame is not None:
                space = self._room()
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
        return None if self._frame is None else self._room()

    def filled(self, count: int) -> None:
        """Record that ``count`` bytes were received into ``space``."""
        assert self._frame is not None
        self._have += count
        if self._have == self._length:
            self._frames.append(self._frame)
            self._frame = None

    def _take(self, view: memoryview, position: int, end: int) -> int:
        """Take the frame at ``position`` if it is complete, or else its length. Return the position after it."""
        length: int = _LENGTH.unpack_from(view, position)[0]
        start = position + _LENGTH.size
        if not 0 <= length <= end - start or length > self.max_bytes:
            self._begin_frame(length)
            return start
        self._frames.append(bytearray(view[start : start + length]))
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
        self._length = length
        self._frame = bytearray(min(length, _FIRST_BYTES))
        self._have = 0
        if length == 0:
            self.filled(0)

    def _room(self) -> memoryview:
        """Return at least one byte of free space in the incomplete frame. A full buffer is doubled."""
        frame = self._frame
        assert frame is not None
        if self._have == len(frame):
            frame.extend(bytes(min(self._length - self._have, self._have)))
        return memoryview(frame)[self._have :]


def length_prefix(parts: Iterable[Sized]) -> bytes:
    """Return the length that makes a frame of these parts."""
    return _LENGTH.pack(sum(map(len, parts)))
