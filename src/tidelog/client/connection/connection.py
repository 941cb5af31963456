"""A connection to a broker: several requests in flight, and each response with its request.

States::

    open -> closed       by the caller, the broker, a broken response, a request's timeout, or idleness

============================================  =========================================================================
event                                         effect
============================================  =========================================================================
``send``                                      requests are written in the order of the calls
a response to the oldest pending request      its ``send`` returns
a response with another correlation id, or    BrokenResponseError for all pending requests; closed
bytes that are no such response
``throttle_time_ms`` in a response (KIP-219)  later requests wait that long, within their own timeouts
no response within the timeout                RequestTimedOutError; closed, because responses keep the order of
                                              requests, and so no later one can come
a caller is cancelled                         its response is dropped when it comes; its timeout still applies
the session's lifetime comes to its end       the next request waits for a new authentication (KIP-368)
no request for ``connections.max.idle.ms``    closed
============================================  =========================================================================

A broker handles the requests of one connection one after the other. So a Fetch that waits for records delays the
requests behind it, and belongs on a connection of its own. Thread rule: the event loop only.
Source: Kafka's ``NetworkClient``, ``InFlightRequests``, ``SaslClientAuthenticator``.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tidelog.client.connection.api_versions import ApiVersions
from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.connection.stream import Stream
from tidelog.client.model.errors import (
    AuthenticationError,
    BrokenResponseError,
    ClientClosedError,
    ClientError,
    DisconnectedError,
    IdleConnectionError,
    RequestTimedOutError,
)
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import read_response_header, write_request_header
from tidelog.protocol.messages import read_response, write_request

Values = Mapping[str, Any]
"""A request's fields by name. Fields that the chosen version lacks are dropped."""
Encoder = Callable[[int], bytes]
"""Encodes the bytes after the header of a request of the version."""
Request = Values | Encoder
Decoder = Callable[[int, memoryview], Any]
"""Decodes the bytes after the header of a response of the version. It raises MalformedMessageError."""

_LAST_CORRELATION_ID: Final = 2**31 - 1
_EARLIEST_RENEWAL, _LATEST_RENEWAL = 0.85, 0.95
"""The share of a session's lifetime after which it is renewed, drawn at random between these, as in Kafka."""


@dataclass(slots=True, eq=False)
class _Pending:
    api: ApiKey
    version: int
    correlation_id: int
    decode: Decoder
    response: asyncio.Future[Any]
    timer: asyncio.TimerHandle


class Connection:
    """A connection. ``open_connection`` makes it ready for requests."""

    def __init__(self, stream: Stream, broker: str, settings: ClientSettings) -> None:
        """Take an open stream. ``broker`` names the peer in messages, such as ``broker 1 at kafka-1:9092``."""
        self.broker = broker
        self.versions = ApiVersions(broker=broker, ranges={})
        """The broker's versions, known after the set-up."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called once if the connection ends, unless its owner closes it or it was idle."""
        self._stream = stream
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._pending: deque[_Pending] = deque()
        self._next_id = 0
        self._turn = asyncio.Lock()
        """Held by the one request that waits to be written. The lock is fair, so requests keep their order."""
        self._waiting = 0
        """The requests that are not written yet."""
        self._throttled_until = self._renew_at = 0.0
        """Times of the loop's clock; 0 means none."""
        self._end_reason: ClientError | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._last_active = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        stream.on_frame, stream.on_end = self._frame_received, self._stream_ended
        if settings.connections_max_idle_ms >= 0:
            self._watch_idleness(settings.connections_max_idle_ms / 1000)

    @property
    def is_open(self) -> bool:
        return self._stream.is_open

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._pending)

    @property
    def throttled_ms(self) -> int:
        """The time for which the broker wants no further request."""
        return max(0, round((self._throttled_until - self._loop.time()) * 1000))

    async def send(
        self,
        api: ApiKey,
        values: Request,
        *,
        at_most: int | None = None,
        at_least: int | None = None,
        timeout_ms: int | None = None,
        decode: Decoder | None = None,
    ) -> Any:
        """Send a request and return its response, a Struct or the result of ``decode``.

        ``at_most`` and ``at_least`` bound the version; without them it is the highest common one. ``timeout_ms``
        replaces ``request.timeout.ms``. Raise UnsupportedVersionError, RequestTimedOutError, DisconnectedError, or
        AuthenticationError if a session cannot be renewed.
        """
        version = self.versions.version_of(api, at_most=at_most, at_least=at_least)
        return await self.send_version(api, version, values, timeout_ms=timeout_ms, decode=decode)

    async def send_version(
        self,
        api: ApiKey,
        version: int,
        values: Request,
        *,
        timeout_ms: int | None = None,
        decode: Decoder | None = None,
    ) -> Any:
        """Send a request of this version, whether or not the broker supports it, as ``send`` does."""
        timeout_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._loop.time() + timeout_ms / 1000
        body = write_request(api, version, values) if isinstance(values, Mapping) else values(version)
        if self._may_write:
            return await self._write(api, version, body, timeout_ms, deadline, decode)
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline), self._turn:
                await self._wait_until_allowed()
                response = self._write(api, version, body, timeout_ms, deadline, decode)
        except TimeoutError:
            raise RequestTimedOutError(self._unsent_text(api, timeout_ms)) from None
        finally:
            self._waiting -= 1
        return await response

    async def authenticate(self) -> None:
        """Authenticate by SASL, if the settings have it. Raise AuthenticationError."""
        sasl = self._settings.security.sasl
        if sasl is not None:
            lifetime_ms = await sasl.authenticate(self._exchange, self.broker)
            share = random.uniform(_EARLIEST_RENEWAL, _LATEST_RENEWAL)
            self._renew_at = self._loop.time() + lifetime_ms / 1000 * share if lifetime_ms > 0 else 0.0

    def close(self, reason: ClientError | None = None) -> None:
        """Close the connection. Pending requests raise ``reason``, or else ClientClosedError. Idempotent."""
        self._stream.end(reason or ClientClosedError(f"the connection to {self.broker} was closed by its owner"))

    # --- before a request is written ---

    @property
    def _may_write(self) -> bool:
        """True if a request need not wait: no other one does, and ``_wait_until_allowed`` would return at once."""
        now = self._loop.time()
        return (
            self._end_reason is None
            and not self._waiting
            and self._throttled_until <= now
            and self._stream.is_writable
            and not 0 < self._renew_at <= now
        )

    async def _wait_until_allowed(self) -> None:
        """Wait for the end of throttling, for space to write, and for a new authentication if it is due."""
        self._require_open()
        while (wait_s := self._throttled_until - self._loop.time()) > 0:
            await asyncio.wait({self._ended}, timeout=wait_s)
            self._require_open()
        if not self._stream.is_writable:
            await self._stream.wait_until_writable()
            self._require_open()
        if 0 < self._renew_at <= self._loop.time():
            try:
                await self.authenticate()
            except ClientError as error:
                self.close(error)
                raise
            self._require_open()

    def _require_open(self) -> None:
        if self._end_reason is not None:
            raise self._end_reason

    async def _exchange(self, api: ApiKey, values: Values) -> Any:
        """Send a request of an authentication. The caller holds the turn, or is alone during the set-up."""
        self._require_open()
        version = self.versions.version_of(api)
        timeout_ms = self._settings.request_timeout_ms
        body = write_request(api, version, values)
        return await self._write(api, version, body, timeout_ms, self._loop.time() + timeout_ms / 1000, None)

    def _write(
        self, api: ApiKey, version: int, body: bytes, timeout_ms: int, deadline: float, decode: Decoder | None
    ) -> asyncio.Future[Any]:
        """Write a request and return the future of its response."""
        self._next_id = correlation_id = self._next_id % _LAST_CORRELATION_ID + 1
        header = write_request_header(api, version, correlation_id, self._settings.client_id)
        pending: _Pending = _Pending(
            api,
            version,
            correlation_id,
            partial(read_response, api) if decode is None else decode,
            self._loop.create_future(),
            self._loop.call_at(deadline, lambda: self._time_out(pending, timeout_ms)),
        )
        self._pending.append(pending)
        self._last_active = self._loop.time()
        self._stream.write([length_prefix([header, body]), header, body])
        return pending.response

    # --- calls by the stream and by timers ---

    def _frame_received(self, frame: memoryview) -> None:
        self._last_active = self._loop.time()
        try:
            if not self._pending:
                raise MalformedMessageError("a response came although no request is pending")
            pending = self._pending[0]
            correlation_id, size = read_response_header(pending.api, pending.version, frame)
            if correlation_id != pending.correlation_id:
                raise MalformedMessageError(
                    f"a response has the correlation id {correlation_id}, but the oldest pending request, "
                    f"{pending.api.title} version {pending.version}, has {pending.correlation_id}"
                )
            response = pending.decode(pending.version, frame[size:])
        except MalformedMessageError as error:
            self._stream.end(error)
            return
        self._pending.popleft()
        pending.timer.cancel()
        throttle_ms = getattr(response, "throttle_time", 0)
        if throttle_ms > 0:
            self._throttled_until = max(self._throttled_until, self._last_active + throttle_ms / 1000)
        if not pending.response.done():  # the caller may be cancelled
            pending.response.set_result(response)

    def _stream_ended(self, error: Exception | None) -> None:
        self._end_reason = reason = self._reason_of(error)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._ended.set_result(None)
        pending, self._pending = self._pending, deque()
        for one in pending:
            one.timer.cancel()
            if not one.response.done():
                one.response.set_exception(type(reason)(f"{one.api.title} has no response: {reason.message}"))
                one.response.exception()  # no warning if its caller was cancelled
        if not isinstance(reason, ClientClosedError | IdleConnectionError):
            self.on_lost()

    def _reason_of(self, error: Exception | None) -> ClientError:
        match error:
            case ClientError():
                return error
            case MalformedMessageError():
                return BrokenResponseError(f"{self.broker} breaks Kafka's protocol: {error}; the connection was closed")
            case ssl.SSLError() if not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                return AuthenticationError(
                    f"TLS with {self.broker} failed: {tls_reason(error)}; does it need the client's certificate "
                    "(ssl.keystore.location)?"
                )
            case None:
                return DisconnectedError(f"{self.broker} has closed the connection")
            case _:
                return DisconnectedError(f"the connection to {self.broker} is lost: {error}")

    def _time_out(self, pending: _Pending, timeout_ms: int) -> None:
        text = f"{self.broker} has not responded to {pending.api.title} within {timeout_ms} ms"
        if not pending.response.done():
            pending.response.set_exception(RequestTimedOutError(text))
            pending.response.exception()
        self._stream.end(DisconnectedError(f"the connection was closed, because {text}"))

    def _unsent_text(self, api: ApiKey, timeout_ms: int) -> str:
        throttled_ms = self.throttled_ms
        why = f", because the broker throttles this client for {throttled_ms} ms more" if throttled_ms else ""
        return f"{api.title} could not be sent to {self.broker} within {timeout_ms} ms{why}"

    def _watch_idleness(self, longest_s: float) -> None:
        idle_s = self._loop.time() - self._last_active
        if idle_s >= longest_s and not self._pending:
            self.close(IdleConnectionError(f"the connection to {self.broker} was closed, because it was idle"))
            return
        again_s = longest_s if self._pending else longest_s - idle_s
        self._idle_timer = self._loop.call_later(max(again_s, 0.001), self._watch_idleness, longest_s)


def tls_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason as readable text."""
    return str(error.reason or error).lower().replace("_", " ")
