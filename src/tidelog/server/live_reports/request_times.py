"""The requests of all listeners of a node: counts, bytes and durations of each API, and of each connection.

``measured`` puts a service in front of the dispatcher. It exists only while pages about the node are served, so a
broker without them pays nothing. A request costs two looks at the clock and some additions.

=========  ======================================================================================================
time       meaning
=========  ======================================================================================================
local      from the call of the handler until it returns a response, or an awaitable of it
total      from the call until the response is ready. The difference is the wait in a purgatory or for a thread
throttle   the time for which the connection is not read after the response
=========  ======================================================================================================

There is no queue of requests, so there is no queue time. Percentiles are those of the last ``RECENT`` requests. The
rates cover the last minute: ``tick`` notes the counts. Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple

from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.frames import Frame
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply, Service

RECENT: Final = 1024
"""A power of two."""
_MASK: Final = RECENT - 1
TICK_S: Final = 5
_TICKS: Final = 12
_KNOWN: Final = frozenset(int(api) for api in ApiKey)
"""The numbers of APIs. All are below 256."""
_LONGEST_CLIENT_ID: Final = 200


class ApiTimes:
    """The requests of one API since the start."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "count",
        "done",
        "local_s",
        "longest_s",
        "recent_s",
        "throttle_ms",
        "throttled",
        "waiting",
        "waits_s",
    )

    def __init__(self) -> None:
        self.count = 0
        self.waiting = 0
        """The requests whose response is not ready."""
        self.done = 0
        self.bytes_in = self.bytes_out = 0
        self.local_s = self.waits_s = self.longest_s = 0.0
        self.recent_s = [0.0] * RECENT
        """The total times of the last requests, in a ring."""
        self.throttled = self.throttle_ms = 0

    @property
    def total_s(self) -> float:
        """The total times of all requests."""
        return self.local_s + self.waits_s

    def percentile_s(self, share: float) -> float:
        """Return a percentile of the total times of the last requests; 0 without any."""
        recent = sorted(self.recent_s[: min(self.done, RECENT)])
        return recent[min(len(recent) - 1, int(share * len(recent)))] if recent else 0.0


class _Counts(NamedTuple):
    requests: int
    bytes_in: int
    bytes_out: int


_NONE = _Counts(0, 0, 0)


class Rates(NamedTuple):
    """The requests of the last minute, or since the start if that is shorter, and rates a second."""

    last_minute: int
    requests: float
    bytes_in: float
    bytes_out: float


class RequestTimes:
    """``apis`` has the APIs that were requested, by their numbers."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiTimes] = {}
        self._noted: deque[tuple[float, dict[int, _Counts]]] = deque([(perf_counter(), {})], maxlen=_TICKS + 1)

    def measured(self, service: Service) -> MeasuredService:
        """Return a service that measures the requests of another one."""
        return MeasuredService(self, service)

    def tick(self) -> None:
        """Note the counts, every ``TICK_S`` seconds."""
        counts = {number: _Counts(one.count, one.bytes_in, one.bytes_out) for number, one in self.apis.items()}
        self._noted.append((perf_counter(), counts))

    def rates(self, number: int) -> Rates:
        """Return an API's rates over the last minute."""
        noted_s, counts = self._noted[0]
        span_s = max(perf_counter() - noted_s, 1e-3)
        now, before = self.apis[number], counts.get(number, _NONE)
        return Rates(
            now.count - before.requests,
            (now.count - before.requests) / span_s,
            (now.bytes_in - before.bytes_in) / span_s,
            (now.bytes_out - before.bytes_out) / span_s,
        )


class MeasuredService:
    """A service in front of another one."""

    def __init__(self, times: RequestTimes, service: Service) -> None:
        self._apis = times.apis
        self._service = service
        self._begin = service.begin

    def begin(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Handle a request as ``Service.begin`` does."""
        size = len(frame)
        number = frame[1] if size > 1 and not frame[0] else -1
        times = self._apis.get(number)
        if times is None:
            if number not in _KNOWN:
                return self._begin(frame, client)  # which refuses it
            times = self._apis[number] = ApiTimes()
        if not client.requests:
            client.client_id = _client_id(frame)
        client.api = number
        _note_request(times, client, size)
        following = client.following
        sizes = [len(one) for one in following] if following else None
        begun_s = perf_counter()
        reply = self._begin(frame, client)
        spent_s = perf_counter() - begun_s
        times.local_s += spent_s
        if sizes is not None:
            for another in sizes[: len(sizes) - len(following)]:  # requests that were handled together with this one
                _note_request(times, client, another)
                _note_reply(times, client, spent_s, None)
        if reply is None or isinstance(reply, list):
            _note_reply(times, client, spent_s, reply)
            return reply
        client.begun_s = begun_s
        times.waiting += 1
        waiting = asyncio.ensure_future(reply)
        waiting.add_done_callback(partial(_note_done, times, client, begun_s, spent_s))
        return waiting


def _note_request(times: ApiTimes, client: ClientConnection, size: int) -> None:
    client.requests += 1
    client.bytes_in += size
    times.count += 1
    times.bytes_in += size


def _note_done(
    times: ApiTimes, client: ClientConnection, begun_s: float, local_s: float, done: asyncio.Future[Reply]
) -> None:
    times.waiting -= 1
    if not done.cancelled() and done.exception() is None:
        total_s = perf_counter() - begun_s
        times.waits_s += total_s - local_s
        _note_reply(times, client, total_s, done.result())


def _note_reply(times: ApiTimes, client: ClientConnection, total_s: float, reply: Reply) -> None:
    done = times.done
    times.recent_s[done & _MASK] = total_s
    times.done = done + 1
    if total_s > times.longest_s:
        times.longest_s = total_s
    if reply is not None:
        size = 0
        for part in reply:  # faster than ``sum`` for two or three parts
            size += len(part)
        client.bytes_out += size
        times.bytes_out += size
    if client.throttle_ms > 0:
        times.throttled += 1
        times.throttle_ms += client.throttle_ms


def _client_id(frame: Frame) -> str | None:
    """Return the client id of a request's header, shortened, or None. It has the same place in all headers."""
    length = int.from_bytes(frame[8:10], "big", signed=True)
    if length < 0 or len(frame) < 10 + length:
        return None
    return bytes(frame[10 : 10 + min(length, _LONGEST_CLIENT_ID)]).decode("utf-8", "replace")
