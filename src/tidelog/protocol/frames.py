"""Frames: a length of four bytes, and so many bytes of a message.

What a peer announces is not believed: a frame's buffer grows with the bytes that have come, so that a frame of 100 MB
of which nothing follows takes 64 KiB. Called by: connections. Thread rule: one connection's.
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
"""What a frame's buffer has room for at first, at most."""


_TLS_HELLO = 0x160301
"""The first three bytes of a client that begins with TLS: a handshake, in the version that all of them write."""


class FrameReader:
    """Cuts a stream into frames. ``receive`` what has come; or receive into ``space`` and tell ``filled``, which saves
    the copy of a large frame."""

    __slots__ = ("_frame", "_frames", "_have", "_length", "_prefix", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        """The most of a frame; of the next one, where it is changed."""
        self._frames: deque[bytearray] = deque()
        self._prefix = b""
        """The first bytes of a length that has not come whole."""
        self._frame: bytearray | None = None
        """The frame under way: room for some of its ``_length`` bytes, of which ``_have`` have come."""
        self._length = 0
        self._have = 0

    @property
    def held_bytes(self) -> int:
        """Memory of the frame under way."""
        return 0 if self._frame is None else len(self._frame)

    def next_frame(self) -> bytearray | None:
        """The oldest whole frame that was not handed out, without its length."""
        return self._frames.popleft() if self._frames else None

    def receive(self, data: Buffer) -> None:
        """MalformedMessageError for a length below 0 or above the limit; nothing can be received any more then."""
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
        """Where the next bytes of the stream belong, if a frame is under way. Release it before anything else."""
        return None if self._frame is None else self._room()

    def filled(self, count: int) -> None:
        """So many bytes have come into the ``space``."""
        assert self._frame is not None
        self._have += count
        if self._have == self._length:
            self._frames.append(self._frame)
            self._frame = None

    def _take(self, view: memoryview, position: int, end: int) -> int:
        """The frame whose length lies at ``position``, if it is whole; else its length. The position behind it."""
        length: int = _LENGTH.unpack_from(view, position)[0]
        start = position + _LENGTH.size
        if not 0 <= length <= end - start or length > self.max_bytes:
            self._begin_frame(length)
            return start
        self._frames.append(bytearray(view[start : start + length]))
        return start + length

    def _begin(self, view: memoryview) -> int:
        """Take the length off the front of ``view``, as much of it as is there; how many bytes that were."""
        missing = _LENGTH.size - len(self._prefix)
        self._prefix += view[:missing]
        if len(self._prefix) == _LENGTH.size:
            (length,) = _LENGTH.unpack(self._prefix)
            self._prefix = b""
            self._begin_frame(length)
        return min(missing, len(view))

    def _begin_frame(self, length: int) -> None:
        if not 0 <= length <= self.max_bytes:
            hint = "; a TLS client at a port without TLS begins so" if length >> 8 == _TLS_HELLO else ""
            raise MalformedMessageError(f"a frame of {length} bytes; {self.max_bytes} are the most{hint}")
        self._length = length
        self._frame = bytearray(min(length, _FIRST_BYTES))
        self._have = 0
        if length == 0:
            self.filled(0)

    def _room(self) -> memoryview:
        """Of the frame under way; at least one byte. What is full is doubled."""
        frame = self._frame
        assert frame is not None
        if self._have == len(frame):
            frame.extend(bytes(min(self._length - self._have, self._have)))
        return memoryview(frame)[self._have :]


def length_prefix(parts: Iterable[Sized]) -> bytes:
    """What goes before these parts to make them a frame."""
    return _LENGTH.pack(sum(map(len, parts)))
