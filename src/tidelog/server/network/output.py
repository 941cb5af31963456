"""What is still to be sent on a connection: bytes and parts of files, in order.

A file's bytes go by ``sendfile``, and where the file system or the socket cannot do that, through a buffer. One call of
``send`` sends a bounded amount, so that a fast reader of much does not keep the loop from the others.
Called by: Connection. Thread rule: the loop's.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from itertools import islice

from tidelog.server.network.file_slice import FileSlice, Part

AT_ONCE_BYTES = 1024 * 1024
"""The most of one call of ``send``, about."""
_JOINED_BYTES = 32 * 1024
"""An answer of bytes up to this size is copied into one piece: that takes less than to hand on several."""
_MOST_BUFFERS = 64
"""Of one system call; the least that POSIX allows is 16, Linux takes 1024."""
_BUFFER_BYTES = 64 * 1024
_NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})


class Output:
    __slots__ = ("_parts", "_sent", "_socket")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parts: deque[Part] = deque()
        self._sent = 0
        """Bytes of the first part that are gone."""

    def __len__(self) -> int:
        """Parts: a small answer is one, another several."""
        return len(self._parts)

    def add(self, parts: Sequence[Part]) -> None:
        """Small answers, which most are, become one part."""
        size = 0
        for part in parts:
            size += _JOINED_BYTES + 1 if isinstance(part, FileSlice) else len(part)
        if size <= _JOINED_BYTES:
            self._parts.append(b"".join(parts))  # type: ignore[arg-type] # no part of a file is among them
        else:
            self._parts.extend(part for part in parts if len(part))

    def send(self) -> bool:
        """As much as the socket takes now, within bounds; whether all is sent. OSError where the peer is gone, or a
        file has become shorter than its slice."""
        sock, budget = self._socket, AT_ONCE_BYTES
        try:
            while self._parts and budget > 0:
                first = self._parts[0]
                count = self._send_file(sock, first, budget) if isinstance(first, FileSlice) else self._send_bytes(sock)
                self._take_off(count)
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
        for part in islice(self._parts, _MOST_BUFFERS):
            if isinstance(part, FileSlice):
                return sock.sendmsg(buffers, (), socket.MSG_MORE)  # the file's bytes fill the packet
            buffers.append(memoryview(part)[self._sent :] if not buffers else memoryview(part))
        return sock.sendmsg(buffers)

    def _send_file(self, sock: socket.socket, part: FileSlice, budget: int) -> int:
        position, left = part.position + self._sent, min(part.length - self._sent, budget)
        try:
            count = os.sendfile(sock.fileno(), part.file.fileno(), position, left)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
            data = os.pread(part.file.fileno(), min(left, _BUFFER_BYTES), position)
            count = sock.send(data) if data else 0
        if count == 0:
            raise OSError(errno.EIO, f"a file ends at {position}, {part.length - self._sent} bytes before its slice")
        return count

    def _take_off(self, count: int) -> None:
        self._sent += count
        while self._parts and self._sent >= len(self._parts[0]):
            self._sent -= len(self._parts.popleft())
