"""A listener: its bound sockets and the connections that they accept.

A host name is bound at every address that it resolves to, so that a client may try any of them. If the operating system
has no file descriptor left, the listener stops accepting for a while. The next search for idle connections runs when
the longest idle one would expire.
Thread rule: the event loop only. Source: Kafka's ``SocketServer``, ``Acceptor``, ``Selector``'s idle expiry.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket

from tidelog.model import ConfigError
from tidelog.runtime.metrics.sampled.sampled_meter import SampledMeter
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.runtime.timers import TimerHandle, Timers
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Connection, Service
from tidelog.server.network.endpoint import ListenerEndpoint
from tidelog.server.network.limits import ConnectionCounts, NetworkLimits
from tidelog.server.network.sasl_authenticator import AuthenticatorSetup, SaslAuthenticator
from tidelog.server.network.tls_connection import TlsConnection
from tidelog.server.security.listener_security import OPEN, AuthenticationCounts, ListenerSecurity
from tidelog.server.security.sasl_settings import SaslSettings, ScramCredentialsOf
from tidelog.server.security.scram_exchange import NO_CREDENTIALS

_MAX_ACCEPTS = 64
_SCRATCH_BYTES = 128 * 1024
"""The receive buffer's size: room for the five batches of 16 KB that a producer has in flight."""
_PAUSE_MS = 1000
"""The pause after an accept failed because no descriptor was left."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = logging.getLogger(__name__)


class Listener:
    """A listener and its states: *new* -> ``open`` (bound; clients queue up) -> ``start`` (accepting) -> ``close``."""

    def __init__(
        self,
        endpoint: ListenerEndpoint,
        *,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        service: Service,
        limits: NetworkLimits,
        counts: ConnectionCounts,
        security: ListenerSecurity = OPEN,
        credentials_of: ScramCredentialsOf = lambda _mechanism: NO_CREDENTIALS,
    ) -> None:
        """Create the listener. ``counts`` covers all listeners, and ``credentials_of`` returns the SCRAM users."""
        self.endpoint = endpoint
        self.port = endpoint.port
        """The bound port once the listener is open."""
        self.loop = loop
        self.timers = timers
        self.service = service
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self.max_request_bytes = limits.socket_request_max_bytes
        self.connections: set[Connection] = set()
        self.accepted = 0
        """Connections accepted since the start."""
        self.rejected = 0
        """Accepted connections that were closed unserved: their address had too many, or they came too fast."""
        self.accepts = SampledMeter(timers.monotonic_ms)
        """The rate of connections that were served."""
        self.waits = SampledTimes(timers.monotonic_ms)
        """The waits of connections that came too fast for the broker or for this listener."""
        self.address_waits = SampledTimes(timers.monotonic_ms)
        """The waits of connections that came too fast for their address."""
        self.request_bytes = 0
        """The bytes of requests that are being read or handled."""
        self.authentications = AuthenticationCounts()
        self.security = security
        """The security of new connections."""
        self._credentials_of = credentials_of
        self._limits = limits
        self._counts = counts
        self._sockets: list[socket.socket] = []
        self._is_accepting = False
        self._pause: TimerHandle | None = None
        self._sweep: TimerHandle | None = None
        self._waiting_for_memory: list[Connection] = []
        self._unserved: dict[socket.socket, TimerHandle] = {}
        """Accepted connections that wait for their timer, which serves or closes them."""
        counts.add_listener(endpoint.name)

    def open(self) -> None:
        """Bind the sockets. Raise ConfigError if the host or port is not available; nothing stays bound then."""
        try:
            for family, address in _addresses(self.endpoint.host):
                sock = self._bound(family, address)
                self._sockets.append(sock)
                self.port = sock.getsockname()[1]
        except OSError as error:
            self.close()
            raise ConfigError(f"cannot bind {self.endpoint}: {error.strerror or error}") from error

    def start(self) -> None:
        self._start_accepting()

    def close(self) -> None:
        """Stop accepting, and abort every connection and its request; idempotent."""
        self._stop_accepting()
        for timer in (self._pause, self._sweep, *self._unserved.values()):
            if timer is not None:
                timer.cancel()
        for sock in (*self._sockets, *self._unserved):
            sock.close()
        self._unserved.clear()
        for connection in list(self.connections):
            connection.abort()

    # --- calls by connections ---

    def has_room(self, connection: Connection) -> bool:
        limit = self._limits.queued_max_request_bytes
        if limit < 0 or self.request_bytes < limit:
            return True
        self._waiting_for_memory.append(connection)
        return False

    def add_request_bytes(self, count: int) -> None:
        self.request_bytes += count
        if count < 0 and self._waiting_for_memory and self.request_bytes < self._limits.queued_max_request_bytes:
            waiting, self._waiting_for_memory = self._waiting_for_memory, []
            for connection in waiting:
                connection.resume()

    def connection_ended(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._counts.remove(self.endpoint.name, connection.client.host)

    def connection_rejected(self, connection: Connection) -> None:
        if not connection.client.is_authenticated:
            self.authentications.failed += 1

    # --- accepting ---

    def _bound(self, family: socket.AddressFamily, address: str) -> socket.socket:
        is_any = address == "::"
        sock = socket.create_server(
            (address, self.port),
            family=family,
            backlog=self._limits.socket_listen_backlog_size,
            dualstack_ipv6=is_any and socket.has_dualstack_ipv6(),
        )
        sock.setblocking(False)
        _set_buffer(sock, socket.SO_RCVBUF, self._limits.socket_receive_buffer_bytes)
        return sock

    def _start_accepting(self) -> None:
        self._pause = None
        if not self._is_accepting and self._sockets and self._sockets[0].fileno() >= 0:
            self._is_accepting = True
            for sock in self._sockets:
                self.loop.add_reader(sock.fileno(), self._accept, sock)

    def _stop_accepting(self) -> None:
        if self._is_accepting:
            self._is_accepting = False
            for sock in self._sockets:
                self.loop.remove_reader(sock.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_MAX_ACCEPTS):
            if self._counts.is_full(self.endpoint.name):
                self._stop_accepting()
                self._counts.call_when_room(self._start_accepting)
                return
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._accept_later(error)
                    return
                continue  # the client has closed it already
            if self._delay_if_too_fast(sock, address):
                return
            self._serve(sock, address)

    def _accept_later(self, error: OSError) -> None:
        _log.error("Cannot accept connections at %s for now: %s", self.endpoint, error.strerror)
        self._stop_accepting()
        self._pause = self.timers.call_later(_PAUSE_MS, self._start_accepting)

    def _delay_if_too_fast(self, sock: socket.socket, address: tuple[str, int]) -> bool:
        """Return True if the connection is served later. Until then the listener accepts no other."""
        name = self.endpoint.name
        is_protected = self._counts.is_protected(name)
        wait_ms = self._counts.rates.count(name, self.timers.monotonic_ms(), is_protected=is_protected)
        if wait_ms:
            self.waits.record(wait_ms)
            self._stop_accepting()
            self._unserved[sock] = self.timers.call_later(wait_ms, lambda: self._serve_after_wait(sock, address))
        return wait_ms > 0

    def _serve_after_wait(self, sock: socket.socket, address: tuple[str, int]) -> None:
        """Serve a connection after its wait, or wait again until there is room."""
        if self._counts.is_full(self.endpoint.name):
            self._counts.call_when_room(lambda: self._serve_after_wait(sock, address))
        elif self._unserved.pop(sock, None) is not None:
            self._serve(sock, address)
            self._start_accepting()

    def _serve(self, sock: socket.socket, address: tuple[str, int]) -> None:
        name, host, port = self.endpoint.name, address[0].removeprefix("::ffff:"), address[1]
        self.accepted += 1
        is_protected = self._counts.is_protected(name)
        now_ms = self.timers.monotonic_ms()
        if wait_ms := self._counts.rates.count_address(name, host, now_ms, is_protected=is_protected):
            self.rejected += 1
            self.address_waits.record(wait_ms)
            self._unserved[sock] = self.timers.call_later(wait_ms, lambda: self._drop_unserved(sock))
            return
        if not self._counts.add(name, host):
            self.rejected += 1
            _log.info(
                "Connection of %s refused: the address already has %d connections", host, self._counts.limit_of(host)
            )
            sock.close()
            return
        self.accepts.mark()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        _set_buffer(sock, socket.SO_SNDBUF, self._limits.socket_send_buffer_bytes)
        connection_id = f"{self.endpoint.host}:{self.port}-{host}:{port}-0-{self.accepted}"
        client = ClientConnection(host=host, port=port, listener=self.endpoint.name, connection_id=connection_id)
        self.connections.add(self._connected(sock, client))
        if self._sweep is None and self._limits.connections_max_idle_ms > 0:
            self._sweep = self.timers.call_later(self._limits.connections_max_idle_ms, self._close_idle)

    def _drop_unserved(self, sock: socket.socket) -> None:
        self._unserved.pop(sock, None)
        sock.close()

    def _connected(self, sock: socket.socket, client: ClientConnection) -> Connection:
        tls, sasl = self.security.tls, self.security.sasl
        client.is_authenticated = tls is None and sasl is None
        service: Service = self.service
        max_bytes = self.max_request_bytes
        if sasl is not None:
            max_bytes = sasl.max_receive_bytes
            service = SaslAuthenticator(
                self._authenticator_setup(sasl), lambda next_: connection.hand_over(next_, self.max_request_bytes)
            )
        if tls is None:
            connection = Connection(sock, client, self, service, max_bytes)
        else:
            counts = self.authentications if sasl is None else None
            connection = TlsConnection(sock, client, self, service, max_bytes, settings=tls, counts=counts)
        return connection

    def _authenticator_setup(self, settings: SaslSettings) -> AuthenticatorSetup:
        return AuthenticatorSetup(
            settings=settings,
            service=self.service,
            credentials_of=self._credentials_of,
            timers=self.timers,
            counts=self.authentications,
        )

    def _close_idle(self) -> None:
        self._sweep = None
        now_ms, longest_ms = self.timers.monotonic_ms(), self._limits.connections_max_idle_ms
        for connection in [one for one in self.connections if one.is_idle]:
            if now_ms - connection.last_active_ms >= longest_ms:
                _log.debug("Connection of %s closed: it was idle", connection.client)
                connection.close()
        if self.connections:
            oldest_ms = min(one.last_active_ms for one in self.connections)
            delay_ms = max(oldest_ms + longest_ms - now_ms, longest_ms // 10, 1)
            self._sweep = self.timers.call_later(delay_ms, self._close_idle)


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    """Return the addresses to bind. An empty host is one socket for all addresses, of both families if IPv6 exists."""
    if host == "":
        return [(socket.AF_INET6, "::")] if socket.has_dualstack_ipv6() else [(socket.AF_INET, "0.0.0.0")]
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((info[0], str(info[4][0])) for info in found))


def _set_buffer(sock: socket.socket, option: int, size: int) -> None:
    if size >= 0:
        sock.setsockopt(socket.SOL_SOCKET, option, size)
