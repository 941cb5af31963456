"""A broker's session with ZooKeeper, on an event loop.

==============  ================================================================================================
state           meaning
==============  ================================================================================================
CONNECTING      there is no session yet, or the old one has ended
CONNECTED       requests are accepted
DISCONNECTED    the connection is lost, and the next one may keep the session
EXPIRED         the session has ended, and its ephemeral znodes with it; CONNECTING and CONNECTED follow with
                another ``session_id``
AUTH_FAILED     ZooKeeper refuses the user; the next attempt follows, with another session
CLOSED          the last state
==============  ================================================================================================

States, events and responses arrive in the sequence in which the server sent them: an event for a change comes before
the response to a later read of it. On a lost connection ``on_state`` comes first; then every outstanding request fails
with ConnectionLostError. A request without a connection fails at once.

Thread rule: the event loop only. kazoo's thread stays inside. Source: Kafka's ``ZooKeeperClient``, ``KafkaZkClient``.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tidelog.model import ZnodeError, ZooKeeperError
from tidelog.runtime.metrics import Histogram
from tidelog.server.metadata.zookeeper import session_metrics
from tidelog.server.metadata.zookeeper.kazoo_client import MAX_CHILDREN, require_kazoo
from tidelog.server.metadata.zookeeper.operations import (
    MAX_COMMIT_BYTES,
    ConnectionLostError,
    Create,
    Operation,
    ReadZnode,
    SessionExpiredError,
    ZnodeConflictError,
    encoded_bytes,
)
from tidelog.server.metadata.zookeeper.session_metrics import SessionMeters
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings

if TYPE_CHECKING:
    from tidelog.server.metadata.zookeeper.session_requests import Request

_PIPELINED: Final = 256
"""The most requests of one call without a response."""


class SessionState(enum.Enum):
    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    DISCONNECTED = "DISCONNECTED"
    EXPIRED = "EXPIRED_SESSION"
    AUTH_FAILED = "AUTH_FAILED"
    CLOSED = "CLOSED"


class EventKind(enum.Enum):
    CREATED = 1
    DELETED = 2
    CHANGED = 3
    """The data of the znode changed."""


class ZnodeEvent(NamedTuple):
    kind: EventKind
    path: str
    """The path below the chroot."""


_Deliver: TypeAlias = Callable[..., None]
_MEASURED: Final = {
    SessionState.CONNECTED: session_metrics.CONNECTS,
    SessionState.DISCONNECTED: session_metrics.DISCONNECTS,
    SessionState.EXPIRED: session_metrics.EXPIRES,
    SessionState.AUTH_FAILED: session_metrics.AUTH_FAILURES,
}
_KINDS: Final = {kind.value for kind in EventKind}


class ZooKeeperSession:
    def __init__(
        self,
        settings: ZooKeeperSettings,
        *,
        on_event: Callable[[ZnodeEvent], None],
        on_state: Callable[[SessionState], None],
    ) -> None:
        """Raise ConfigError if kazoo is not installed."""
        require_kazoo("zookeeper.connect")
        from tidelog.server.metadata.zookeeper.ordered_client import OrderedClient
        from tidelog.server.metadata.zookeeper.session_requests import Requests

        self.state = SessionState.CONNECTING
        self.session_id = 0
        """The id of the newest session; 0 before the first."""
        self.meters = SessionMeters()
        self._settings = settings
        self._servers = ",".join(settings.address.servers)
        self._on_event = on_event
        self._on_state = on_state
        self._loop = asyncio.get_running_loop()
        self._requests = Requests(settings.address, sets_acls=settings.sets_acls)
        self._root_requests = Requests(settings.address._replace(chroot=""), sets_acls=settings.sets_acls)
        self._client = OrderedClient(settings, _Reports(self._deliver, self._change_state, self._receive_event))
        self._connection = 0  # the number of the newest one
        self._first_state = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, and create the chroot with its parents if it is missing. Raise ZooKeeperError if that fails."""
        try:
            self._client.start_async()
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                await self._first_state
                await self._create_chroot()
        except TimeoutError:
            await self.close()
            reason = f" (the last attempt: {self._client.last_failure})" if self._client.last_failure else ""
            raise ZooKeeperError(
                f"ZooKeeper at {self._servers} did not accept a session within {self._settings.timeout_ms / 1000:g} s:"
                f" is it running, and is this its client port{' with TLS' if self._settings.tls else ''}?{reason}"
            ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the session, with its ephemeral znodes. Closing twice is a no-op."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def watch_all(self) -> None:
        """Watch all znodes while this connection lasts. Raise ZooKeeperError if ZooKeeper is older than 3.6."""
        await self._send(self._requests.watch_all())

    async def sync(self) -> None:
        """Let the server catch up with the leader: later reads see every change that was committed before."""
        await self._send(self._requests.sync())

    async def read(self, paths: Sequence[str]) -> list[ReadZnode | None]:
        """Return each znode, or None if it is missing."""
        return await self._pipelined(self._requests.read(path) for path in paths)

    async def list_children(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """Return the sorted names of each znode's children, or None if the znode is missing. Raise ZnodeError if a
        znode has more children than a cluster can have."""
        counts = await self._pipelined(self._requests.count_children(path) for path in paths)
        for path, count in zip(paths, counts, strict=True):
            if count is not None and count > MAX_CHILDREN:
                raise ZnodeError(
                    f"znode {path} has {count:,} children, and at most {MAX_CHILDREN:,} are read: Kafka did not write"
                    " them"
                )
        return await self._pipelined(self._requests.list_children(path) for path in paths)

    async def commit(self, operations: Sequence[Operation]) -> list[str | None]:
        """Apply all operations at once. Return the path that each Create made, and None for the others.

        Raise ZnodeConflictError if an operation does not fit the znodes, and ConnectionLostError if the outcome is
        unknown. Raise ZooKeeperError without a request if the commit is larger than ZooKeeper accepts.
        """
        if not operations:
            return []
        if (size := sum(map(encoded_bytes, operations))) > MAX_COMMIT_BYTES:
            raise ZooKeeperError(
                f"a change of {operations[0].path} and {len(operations) - 1} other znodes has {size:,} bytes, and"
                f" ZooKeeper accepts {MAX_COMMIT_BYTES:,}"
            )
        committed: list[str | None] = await self._send(self._requests.commit(operations))
        return committed

    async def _create_chroot(self) -> None:
        names = self._settings.address.chroot.split("/")[1:]
        for depth in range(len(names)):
            path = "/" + "/".join(names[: depth + 1])
            if await self._send(self._root_requests.read(path)) is None:
                with suppress(ZnodeConflictError):  # another broker was faster
                    await self._send(self._root_requests.commit([Create(path)]))

    async def _close(self) -> None:
        await asyncio.to_thread(self._client.end, self._settings.session_timeout_ms / 1000 / 3)
        if self.state is not SessionState.CLOSED:  # the client never started
            self._change_state(SessionState.CLOSED.value, self._connection, self.session_id)

    async def _pipelined(self, requests: Iterable[Request]) -> list[Any]:
        waiting: deque[asyncio.Future[Any]] = deque()
        results: list[Any] = []
        try:
            for request in requests:
                if len(waiting) == _PIPELINED:
                    results.append(await waiting.popleft())
                waiting.append(self._send(request))
            while waiting:
                results.append(await waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()
        return results

    def _send(self, request: Request) -> asyncio.Future[Any]:
        """Send a request. Raise ConnectionLostError or SessionExpiredError if there is no connection."""
        future: asyncio.Future[Any] = self._loop.create_future()
        response = _Response(self._deliver, request, future, self.meters.latency, time.perf_counter())
        if self.state is SessionState.EXPIRED:
            raise SessionExpiredError(f"ZooKeeper at {self._servers}: the session has ended")
        is_open = self.state is SessionState.CONNECTED and self._closing is None
        if not is_open or not self._client.submit(request.body, response, self._connection):
            raise ConnectionLostError(f"ZooKeeper at {self._servers}: there is no connection")
        return future

    def _change_state(self, name: str, connection: int, session_id: int) -> None:
        state = SessionState(name)
        if state is SessionState.CONNECTING and self.state is SessionState.CONNECTED:
            state = SessionState.DISCONNECTED
        if state is self.state:
            return
        self.state = state
        if state is SessionState.CONNECTED:
            self._connection = connection
            self.session_id = session_id
        self._measure(state)
        self._resolve_first(state)
        self._on_state(state)

    def _measure(self, state: SessionState) -> None:
        self.meters.is_connected = state is SessionState.CONNECTED
        if state in _MEASURED:
            self.meters.mark(_MEASURED[state])
        if state is SessionState.CONNECTED and self._settings.login is not None:
            self.meters.mark(session_metrics.AUTHENTICATIONS)

    def _resolve_first(self, state: SessionState) -> None:
        if self._first_state.done():
            return
        if state is SessionState.CONNECTED:
            self._first_state.set_result(None)
        elif state is SessionState.AUTH_FAILED:
            self._first_state.set_exception(
                ZooKeeperError(
                    f"ZooKeeper at {self._servers} does not authenticate the user of zookeeper.sasl.jaas.config:"
                    f" {self._client.last_failure}"
                )
            )

    def _receive_event(self, kind: int, path: str) -> None:
        if kind in _KINDS and self._closing is None:
            below = path[len(self._settings.address.chroot) :] or "/"
            self._on_event(ZnodeEvent(EventKind(kind), below))

    def _deliver(self, callback: Callable[..., None], *values: Any) -> None:
        """Call back on the loop. The connection's thread calls this."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *values)


class _Reports(NamedTuple):
    """Brings the client's reports to the loop."""

    deliver: _Deliver
    on_state: Callable[[str, int, int], None]
    on_event: Callable[[int, str], None]

    def state(self, state: str, connection: int, session_id: int) -> None:
        self.deliver(self.on_state, state, connection, session_id)

    def event(self, kind: int, path: str) -> None:
        self.deliver(self.on_event, kind, path)


class _Response(NamedTuple):
    """Brings a response to the loop, as a value or an error of tidelog."""

    deliver: _Deliver
    request: Request
    future: asyncio.Future[Any]
    latency: Histogram
    begun_s: float

    def set(self, result: Any) -> None:
        self._measure()
        try:
            value = self.request.value(result)
        except ZooKeeperError as error:
            self.deliver(_fail, self.future, error)
        else:
            self.deliver(_resolve, self.future, value)

    def set_exception(self, error: Exception) -> None:
        self._measure()
        failure = self.request.failure(error)
        if failure is None:
            self.deliver(_resolve, self.future, None)
        else:
            self.deliver(_fail, self.future, failure)

    def _measure(self) -> None:
        self.latency.update((time.perf_counter() - self.begun_s) * 1000)


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
