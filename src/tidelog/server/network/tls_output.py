"""The send queue of a connection with TLS: a ``SendQueue`` that encrypts piece by piece.

A file's bytes pass through memory, because ``sendfile`` cannot encrypt. Thread rule: the event loop only.
"""

from __future__ import annotations

import errno
import os
import socket

from tidelog.server.network.file_slice import FileSlice
from tidelog.server.network.send_queue import MAX_SEND_BYTES, SendQueue
from tidelog.server.network.tls_stream import TlsStream

_PIECE_BYTES = 128 * 1024
"""The bytes encrypted at once: eight TLS records."""


class TlsSendQueue(SendQueue):
    __slots__ = ("_stream",)

    def __init__(self, sock: socket.socket, stream: TlsStream) -> None:
        super().__init__(sock)
        self._stream = stream

    def send(self) -> bool:
        budget = MAX_SEND_BYTES
        try:
            self._stream.flush()
            while self._parts and budget > 0:
                piece = self._piece()
                self._stream.write(piece)
                self._mark_sent(len(piece))
                budget -= len(piece)
                self._stream.flush()
        except BlockingIOError:
            return False
        return not self._parts

    def _piece(self) -> bytes | memoryview:
        """Return the next bytes to send. Raise OSError if a file is shorter than its slice."""
        part = self._parts[0]
        if not isinstance(part, FileSlice):
            return memoryview(part)[self._sent : self._sent + _PIECE_BYTES]
        left = part.length - self._sent
        data = os.pread(part.file.fileno(), min(left, _PIECE_BYTES), part.position + self._sent)
        if not data:
            raise OSError(
                errno.EIO, f"a file ends at {part.position + self._sent}, {left} bytes before the end of its slice"
            )
        return data
