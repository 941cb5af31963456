"""Fetch requests of the plain case, which compiled code takes from the frame to the response, at once or later.

A request that finds no records waits for them without a task. Each change of one of its partitions causes another read:

=====================================  ===============================================================
the read                               result
=====================================  ===============================================================
finds records                          the response
finds none                             the request waits on
is no longer plain, or fails           the general way takes the request, with the rest of its time
is the one at the end of its time      the response, with or without records
=====================================  ===============================================================

The wait ends if the client closes the connection. Thread rule: the event loop only. Source: Kafka's ``DelayedFetch``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.kernel import PlainFetch, PlainFetched
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError
from tidelog.protocol.frames import Frame
from tidelog.runtime.timers import Timers
from tidelog.server.fetching import partition_reads
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.purgatory import DelayedOperation

if TYPE_CHECKING:
    from tidelog.server.broker import Broker
    from tidelog.server.network.connection import Reply

General = Callable[[Frame, ClientConnection], "Reply | Awaitable[Reply]"]
"""The general way of requests."""


def find_partition(broker: Broker, topic: bytes, is_id: bool, number: int) -> Partition | None:
    """Return a partition of this broker by the bytes of its topic's id or name, as ``PlainPartitions`` needs it."""
    try:
        if is_id:
            return broker.replicas.by_topic_id(UUID(bytes=topic), number)
        return broker.replicas.partition(TopicPartition(topic.decode(), number))
    except (ApiError, UnicodeDecodeError):
        return None


class PlainFetches:
    def __init__(self, broker: Broker, general: General) -> None:
        self.general = general
        self._broker = broker
        self._plain = PlainFetch(partial(find_partition, broker))

    @property
    def timers(self) -> Timers:
        return self._broker.timers

    def begin(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Return the response, now or later, or None if the request is not plain."""
        found = self.read(frame)
        if found is None:
            return None
        client.is_exempt = False
        return _DelayedPlainFetch(self, frame, client, found).completed if found.parts is None else self.reply(found)

    def read(self, frame: Frame) -> PlainFetched | None:
        most_bytes, allows_rack = self._broker.config.number("fetch.max.bytes"), not self._broker.selects_by_rack
        return self._plain.read(frame, most_bytes, partition_reads.COPIED_BYTES, allows_rack)

    def reply(self, found: PlainFetched) -> Reply:
        """Return the response of a request that ends with it, or None if the request waits."""
        if found.parts is None:
            return None
        self._broker.server_metrics.count(ApiKey.FETCH, found.version)
        return found.parts

    def set_max_wait(self, frame: Frame, max_wait_ms: int) -> None:
        self._plain.set_max_wait(frame, max_wait_ms)


class _DelayedPlainFetch(DelayedOperation):
    """A plain request that waits for records. ``completed`` gets its response."""

    __slots__ = ("_client", "_end_ms", "_fetches", "_frame", "_general", "_partitions", "_timer")

    def __init__(self, fetches: PlainFetches, frame: Frame, client: ClientConnection, found: PlainFetched) -> None:
        super().__init__()
        self._fetches = fetches
        self._frame = frame
        self._client = client
        self._partitions: list[Partition] = found.partitions
        self._general: asyncio.Future[Reply] | None = None
        self._end_ms = fetches.timers.monotonic_ms() + found.max_wait_ms
        self._timer = fetches.timers.call_later(found.max_wait_ms, partial(self.check, self._read_last))
        for partition in self._partitions:
            partition.purgatory.add(self, self._read_again)
        client.on_connection_closed = self.completed.cancel
        self.completed.add_done_callback(self._end)

    def _read_again(self) -> Reply:
        found = self._fetches.read(self._frame)
        if found is None:
            return self._hand_over(max(0, self._end_ms - self._fetches.timers.monotonic_ms()))
        return self._fetches.reply(found)

    def _read_last(self) -> Reply:
        self._fetches.set_max_wait(self._frame, 0)
        found = self._fetches.read(self._frame)
        return self._hand_over(0) if found is None else self._fetches.reply(found)

    def _hand_over(self, left_ms: int) -> Reply:
        """Return the response of the general way, or None if that has to wait, too."""
        self._stop_waiting()
        self._fetches.set_max_wait(self._frame, left_ms)
        reply = self._fetches.general(self._frame, self._client)
        if not isinstance(reply, Awaitable):
            return reply
        self._general = asyncio.ensure_future(reply)
        self._general.add_done_callback(self._take_over)
        return None

    def _take_over(self, general: asyncio.Future[Reply]) -> None:
        """Complete the request as the general way has done."""
        if self.completed.done():
            return
        if general.cancelled():
            self.completed.cancel()
        elif (error := general.exception()) is not None:
            self.completed.set_exception(error)
        else:
            self.completed.set_result(general.result())

    def _stop_waiting(self) -> None:
        self._timer.cancel()
        self._client.on_connection_closed = None
        for partition in self._partitions:
            partition.purgatory.discard(self)

    def _end(self, _completed: object) -> None:
        if self._general is None:
            self._stop_waiting()
        else:
            self._general.cancel()
