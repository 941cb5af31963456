"""The send queue of a connection: bytes and slices of files, sent in the order of ``add``.

A file's bytes are sent by ``sendfile``, or through a buffer if the file system or socket cannot do that. Each call of
``send`` sends a bounded amount, so that a fast reader does not keep the event loop from other connections.
Thread rule: the event loop only.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

MAX_SEND_BYTES = 1024 * 1024
"""The approximate maximum of one ``send``."""
_MAX_COPIED_BYTES = 32 * 1024
"""A response up to this size is copied into one piece: that is faster than sending several."""
_MAX_BUFFERS = 64
"""The most buffers of one system call. POSIX guarantees 16, and Linux takes 1024."""
_BUFFER_BYTES = 64 * 1024
_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})
IN_MEMORY: Final = (bytes, bytearray, memoryview)


class OpenFile(Protocol):
    def fileno(self) -> int: ...


class FileSlice(Protocol):
    """A slice of ``size`` bytes of ``file`` from ``position`` on, such as a ``SegmentRead``. Its length is ``size``. It
    keeps ``file`` alive, and the queue never closes it."""

    @property
    def file(self) -> OpenFile: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    def __len__(self) -> int: ...


Part = bytes | bytearray | memoryview | FileSlice


class SendQueue:
    __slots__ = ("_parts", "_sent", "_socket")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parts: deque[Part] = deque()
        self._sent = 0
        """The bytes of the first part that are sent."""

    def __len__(self) -> int:
        """Return the number of parts. A small response is one part, and a large one several."""
        return len(self._parts)

    def add(self, parts: Sequence[Part]) -> None:
        """Add a response. A small one, as most are, becomes one part."""
        size = 0
        for part in parts:
            size += len(part) if isinstance(part, IN_MEMORY) else _MAX_COPIED_BYTES + 1
        if size <= _MAX_COPIED_BYTES:
            self._parts.append(b"".join(parts))  # type: ignore[arg-type] # no part of a file is among them
        else:
            self._parts.extend(part for part in parts if len(part))

    def send(self) -> bool:
        """Send as much as the socket takes now, within bounds. Return True if everything is sent. Raise OSError if the
        client has closed the connection, or if a file is shorter than its slice."""
        sock, budget = self._socket, MAX_SEND_BYTES
        try:
            while self._parts and budget > 0:
                first = self._parts[0]
                count = self._send_bytes(sock) if isinstance(first, IN_MEMORY) else self._send_file(sock, first, budget)
                self._mark_sent(count)
                budget -= count
        except BlockingIOError:
            return False
        return not self._parts

    def clear(self) -> None:
        self._parts.clear()
        self._sent = 0

    def _send_bytes(self, sock: socket.socket) -> int:
        if len(self._parts) == 1 and not self._sent:
            return sock.send(self._parts[0])  # type: ignore[arg-type] # not a file's
        buffers: list[memoryview] = []
        for part in islice(self._parts, _MAX_BUFFERS):
            if not isinstance(part, IN_MEMORY):
                return sock.sendmsg(buffers, (), socket.MSG_MORE)  # MSG_MORE lets the file's bytes fill the packet
            buffers.append(memoryview(part)[self._sent :] if not buffers else memoryview(part))
        return sock.sendmsg(buffers)

    def _send_file(self, sock: socket.socket, part: FileSlice, budget: int) -> int:
        position, left = part.position + self._sent, min(part.size - self._sent, budget)
        try:
            count = os.sendfile(sock.fileno(), part.file.fileno(), position, left)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            data = os.pread(part.file.fileno(), min(left, _BUFFER_BYTES), position)
            count = sock.send(data) if data else 0
        if count == 0:
            raise OSError(
                errno.EIO, f"a file ends at {position}, {part.size - self._sent} bytes before the end of its slice"
            )
        return count

    def _mark_sent(self, count: int) -> None:
        self._sent += count
        while self._parts and self._sent >= len(self._parts[0]):
            self._sent -= len(self._parts.popleft())
