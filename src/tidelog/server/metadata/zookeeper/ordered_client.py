"""A client of kazoo for an event loop: it reports states, events and responses in the server's sequence.

kazoo itself hands responses and events to two threads, which lose that sequence, and it sends requests of one session
in a later one. Here the thread of the connection reports everything itself. Each connection has a number, and a request
names the connection for which it is meant: over a later one it is not sent.

====================  ==============================================================================================
kazoo's problem       here
====================  ==============================================================================================
strange response      the connection ends, and the next attempt follows; kazoo's thread would end
no authentication     the next attempt follows after a second, as in Kafka; kazoo would give up
silent server         the connection ends after two thirds of the session's timeout; kazoo would not notice while
                      there are requests
unsent requests       they fail with their connection; kazoo would send them over the next one
====================  ==============================================================================================

Thread rule: ``submit`` and ``end`` are for any thread, and the reports come in the connection's thread. This module
imports kazoo, so it is imported after ``require_kazoo``. Source: Kafka's ``ZooKeeperClient``, ZooKeeper's
``ClientCnxn``.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.connection import STOP_CONNECTING, ConnectionHandler
from kazoo.protocol.serialization import SASL, Watch
from kazoo.protocol.states import KeeperState

from tidelog.server.metadata.zookeeper.digest_md5 import DigestMd5
from tidelog.server.metadata.zookeeper.kazoo_connection import client_options
from tidelog.server.metadata.zookeeper.settings import DigestLogin, ZooKeeperSettings

_RETRY: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}
"""The pauses between attempts to connect, in seconds."""
_AUTHENTICATION_PAUSE_S: Final = 1.0


class Response(Protocol):
    """The receiver of a response. The connection's thread calls one of the methods once."""

    def set(self, value: Any, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class Reports(Protocol):
    """The receiver of states and events, in the connection's thread."""

    def state(self, state: str, connection: int, session_id: int, /) -> None:
        """Take one of kazoo's ``KeeperState``. It comes before the outstanding requests fail."""
        ...

    def event(self, kind: int, path: str, /) -> None:
        """Take an event of a watch: ZooKeeper's number of its kind, and the absolute path."""
        ...


class OrderedClient(KazooClient):  # type: ignore[misc]
    def __init__(self, settings: ZooKeeperSettings, reports: Reports) -> None:
        options = client_options(settings, settings.session_timeout_ms)
        super().__init__(**options, connection_retry=_RETRY)
        self._connection = _OrderedConnection(self, self._conn_retry.copy(), self.logger, settings.login)
        self.last_failure = ""
        """The reason why the last attempt to connect failed."""
        self._reports = reports
        self._submitting = threading.Lock()  # no request is queued while the state changes
        self._number = 0

    def submit(self, request: Any, response: Response, connection: int) -> bool:
        """Send a request over the connection of that number. Return False if it has ended; then nothing is sent."""
        with self._submitting:
            if connection != self._number or self._state != KeeperState.CONNECTED:
                return False
            self._queue.append((request, response))
            self._connection.wake()
            return True

    def end(self, patience_s: float) -> None:
        """End the session, and wait for it. ZooKeeper has this time to respond, or the session ends by its timeout."""
        timer = threading.Timer(patience_s, self._connection.abandon)
        timer.start()
        try:
            self.stop()
            self.close()
        finally:
            timer.cancel()

    def report_event(self, kind: int, path: str) -> None:
        self._reports.event(kind, path)

    def _session_callback(self, state: str) -> None:
        """Change the state. kazoo reports a connection before its authentication, which is too early."""
        if state == self._state or (state == KeeperState.CONNECTED and not self._connection.is_ready):
            return
        with self._submitting:
            self._number += state == KeeperState.CONNECTED
            self._reports.state(state, self._number, self._session_id or 0)
            super()._session_callback(state)


class _OrderedConnection(ConnectionHandler):  # type: ignore[misc]
    def __init__(self, client: OrderedClient, retry: Any, logger: logging.Logger, login: DigestLogin | None) -> None:
        super().__init__(client, retry, logger=logger, sasl_options=None if login is None else {})
        self.is_ready = False
        """The connection is authenticated, if the settings have a user."""
        self._login = login
        self._last_read = 0.0

    def wake(self) -> None:
        """Make the thread look at the queue."""
        self._write_sock.send(b"\0")

    def abandon(self) -> None:
        """Break the connection."""
        with suppress(OSError, AttributeError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _connect_attempt(self, *arguments: Any) -> Any:
        try:
            status = super()._connect_attempt(*arguments)
        except Exception as error:
            self._failed(error)
            self.client._session_callback(KeeperState.CONNECTING)
            return None
        if status is STOP_CONNECTING and not self.client._stopped.is_set():
            self.client._stopped.wait(_AUTHENTICATION_PAUSE_S)
            return None
        return status

    def _connect(self, *arguments: Any) -> Any:
        self.is_ready = False
        try:
            timeouts = super()._connect(*arguments)
        except Exception as error:
            self._failed(error)
            raise
        self.is_ready = True
        self._last_read = time.monotonic()
        self.client._session_callback(KeeperState.CONNECTED)
        return timeouts

    def _failed(self, error: Exception) -> None:
        self.client.last_failure = str(error) or type(error).__name__

    def _authenticate_with_sasl(self, _host: str, timeout: float) -> None:
        """Authenticate with DIGEST-MD5. A server that ends meanwhile is no reason to give up the session."""
        assert self._login is not None
        exchange = DigestMd5(self._login, secrets.token_urlsafe(24))
        challenge = self._exchange(1, b"", timeout)
        try:
            exchange.check(self._exchange(2, exchange.respond(challenge), timeout))
        except ValueError as error:
            raise AuthFailedError(str(error)) from None

    def _exchange(self, xid: int, message: bytes, timeout: float) -> bytes:
        """Return the server's message in reply to one of the client."""
        self._submit(SASL(message), timeout, xid)
        header, buffer, offset = self._read_header(timeout)
        if header.xid != xid or header.err:
            raise AuthFailedError("the server refuses the user or the password")
        reply, _ = SASL.deserialize(buffer, offset)
        return reply or b""

    def _read_socket(self, read_timeout: float) -> Any:
        response = super()._read_socket(read_timeout)
        self._last_read = time.monotonic()
        return response

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        if time.monotonic() - self._last_read > read_timeout:
            raise ConnectionDropped(f"no response within {read_timeout:g} s")
        super()._send_request(read_timeout, connect_timeout)

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        self.client.report_event(watch.type, watch.path)
