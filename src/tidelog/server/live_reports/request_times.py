"""The requests of all listeners of a node: counts, bytes and durations of each API, and of each connection.

``measured`` puts a service in front of the dispatcher (``kernel._request_meter``). It exists only while pages about the
node are served, so a broker without them pays nothing.

=========  ======================================================================================================
time       meaning
=========  ======================================================================================================
local      from the call of the handler until it returns a response, or an awaitable of it
total      from the call until the response is ready. The difference is the wait in a purgatory or for a thread
throttle   the time for which the connection is not read after the response
=========  ======================================================================================================

Requests that are handled in one call have the times of that call. There is no queue of requests, so there is no queue
time. Percentiles are those of the last ``RECENT`` requests. The rates cover the last minute: ``tick`` notes the counts.
Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple

from tidelog.kernel import ApiTimes, RequestMeter
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.frames import Frame
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply, Service

TICK_S: Final = 5
_TICKS: Final = 12
_KNOWN: Final = frozenset(int(api) for api in ApiKey)
"""The numbers of APIs. All are below 256."""
_LONGEST_CLIENT_ID: Final = 200


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

    def measured(self, service: Service) -> Service:
        """Return a service that measures the requests of another one."""
        return RequestMeter(self.apis, service.begin, add_api=self._add_api, name=_name_client, wait=_measure_wait)

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

    def _add_api(self, number: int) -> ApiTimes | None:
        if number in _KNOWN:
            self.apis[number] = ApiTimes()
        return self.apis.get(number)


def _measure_wait(
    reply: Awaitable[Reply], times: ApiTimes, client: ClientConnection, begun_s: float
) -> asyncio.Future[Reply]:
    waiting = asyncio.ensure_future(reply)
    waiting.add_done_callback(partial(_end_wait, times, client, begun_s))
    return waiting


def _end_wait(times: ApiTimes, client: ClientConnection, begun_s: float, done: asyncio.Future[Reply]) -> None:
    if done.cancelled() or done.exception() is not None:
        times.has_failed()
    else:
        times.response_is_ready(client.requests, perf_counter() - begun_s, done.result(), client.throttle_ms)


def _name_client(client: ClientConnection, frame: Frame) -> None:
    """Set the client id of a request's header, shortened, or None. It has the same place in all headers."""
    length = int.from_bytes(frame[8:10], "big", signed=True)
    if 0 <= length <= len(frame) - 10:
        client.client_id = bytes(frame[10 : 10 + min(length, _LONGEST_CLIENT_ID)]).decode("utf-8", "replace")
