"""A connection with TLS. After the handshake it works as any other connection.

TLS may hold bytes that it has not returned yet, and the socket does not report those. If reading goes on, they are
looked for in the loop's next turn.
Thread rule: the event loop only.
"""

from __future__ import annotations

import logging
import socket
import ssl

from tidelog.server.network.authentication_counts import AuthenticationCounts
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Connection, ConnectionOwner, Service
from tidelog.server.network.tls_output import TlsSendQueue
from tidelog.server.network.tls_stream import TlsStream, reason_of
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
