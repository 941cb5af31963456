"""A connection with TLS. After the handshake it works as any other connection.

TLS may hold bytes that it has not returned yet, and the socket does not report those. If reading goes on, they are
looked for in the loop's next turn. A file's bytes pass through memory, because ``sendfile`` cannot encrypt.
Thread rule: the event loop only.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl

from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Connection, ConnectionOwner, Service
from tidelog.server.network.send_queue import IN_MEMORY, MAX_SEND_BYTES, SendQueue
from tidelog.server.network.tls_stream import TlsStream, reason_of
from tidelog.server.security.listener_security import AuthenticationCounts
from tidelog.server.security.tls_settings import TlsSettings

_log = logging.getLogger(__name__)


class TlsConnection(Connection):
    __slots__ = ("_counts", "_handshake_done", "_settings", "_stream")

    def __init__(
        self,
        sock: socket.socket,
        client: ClientConnection,
        owner: ConnectionOwner,
        service: Service,
        max_request_bytes: int,
        *,
        settings: TlsSettings,
        counts: AuthenticationCounts | None,
    ) -> None:
        """Create the connection; ``counts`` counts authentications by TLS, and is None if SASL authenticates."""
        self._handshake_done = False
        self._settings = settings
        self._counts = counts
        self._stream = stream = TlsStream(sock, settings.context)
        super().__init__(sock, client, owner, service, max_request_bytes)
        self._socket = stream
        self._send_queue = TlsSendQueue(sock, stream)

    def _start_reading(self) -> None:
        super()._start_reading()
        self._read_pending_next_turn()

    def _on_readable(self) -> None:
        if self._handshake_done:
            super()._on_readable()
        else:
            self._do_handshake()
        self._read_pending_next_turn()

    def _end_stall(self) -> None:
        if self._handshake_done:
            super()._end_stall()

    def _read_pending_next_turn(self) -> None:
        if self._is_reading and self._stream.has_pending:
            self._read_next_turn()

    def _do_handshake(self) -> None:
        try:
            is_shaken = self._stream.do_handshake()
        except ssl.SSLError as error:
            self._fail(reason_of(error))
            return
        except (OSError, EOFError):
            self.close()
            return
        if is_shaken and self._counts is not None and not self._identify(self._counts):
            return
        self._handshake_done = is_shaken  # set last: a client without a principal must not be served
        self._send_out()

    def _identify(self, counts: AuthenticationCounts) -> bool:
        """Set the principal from the client's certificate. Return False if that failed and the connection was
        closed."""
        try:
            principal = self._settings.principal_of(self._stream.certificate)
        except ValueError as error:
            self._fail(f"the name in the client's certificate cannot be read: {error}")
            return False
        if principal is None:
            self._fail("no rule of ssl.principal.mapping.rules matches the name in the client's certificate")
            return False
        self.client.principal, self.client.is_authenticated = principal, True
        counts.successful += 1
        counts.successful_no_reauth += 1
        return True

    def _fail(self, reason: str) -> None:
        _log.warning(
            "Connection of %s closed: TLS handshake at listener %s failed: %s",
            self.client,
            self.client.listener,
            reason,
        )
        self._owner.connection_rejected(self)
        self.close()


_PIECE_BYTES = 128 * 1024
"""The bytes encrypted at once: eight TLS records."""


class TlsSendQueue(SendQueue):
    """A send queue that encrypts piece by piece."""

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
        if isinstance(part, IN_MEMORY):
            return memoryview(part)[self._sent : self._sent + _PIECE_BYTES]
        left = part.size - self._sent
        data = os.pread(part.file.fileno(), min(left, _PIECE_BYTES), part.position + self._sent)
        if not data:
            raise OSError(
                errno.EIO, f"a file ends at {part.position + self._sent}, {left} bytes before the end of its slice"
            )
        return data
