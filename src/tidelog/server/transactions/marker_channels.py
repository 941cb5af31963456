"""Markers for leaders on other brokers: one queue for each broker, with one WriteTxnMarkers request in flight.

While a request is under way, the markers of further transactions gather in the broker's queue. The next request has all
of them, up to ``MAX_PARTITIONS``. Each entry gets the errors of its own partitions. Without a response
each partition gets NETWORK_EXCEPTION. ``completions`` repeats failed entries, and looks up their leaders again.

A crash loses the queues. The next coordinator sends the markers of prepared transactions again after its load.
Thread rule: the event loop only. Source: Kafka's ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.topic_partition import partitions_by_topic
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode, code_of
from tidelog.runtime.executor import Spawn
from tidelog.server.topics.node import SendToBroker
from tidelog.server.transactions.markers import Marker
from tidelog.server.transactions.owned_partitions import OwnedPartition

_log = logging.getLogger(__name__)

PURPOSE: Final = "transaction markers"
MAX_PARTITIONS: Final = 10_000
"""The number of partitions after which a request takes no further entry."""

Errors = Mapping[TopicPartition, ErrorCode]


@dataclass(slots=True, kw_only=True, eq=False)
class _Entry:
    """The marker of one transaction for one broker's partitions."""

    marker: Marker
    partitions: Sequence[TopicPartition]
    owner: OwnedPartition
    """The partition of ``__transaction_state`` with the transaction."""
    errors: asyncio.Future[Errors]


class MarkerChannels:
    def __init__(self, send: SendToBroker, spawn: Spawn) -> None:
        self._send = send
        self._spawn = spawn
        self._queues: dict[int, list[_Entry]] = {}
        """The entries that are in no request yet, by broker id."""
        self._sending: set[int] = set()
        """The brokers with a request in flight."""

    async def write(
        self, broker_id: int, marker: Marker, partitions: Sequence[TopicPartition], owner: OwnedPartition
    ) -> Errors:
        """Return the error of each partition, or nothing if ``cancel`` came first. Never raise."""
        errors: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        entry = _Entry(marker=marker, partitions=partitions, owner=owner, errors=errors)
        self._queues.setdefault(broker_id, []).append(entry)
        if broker_id not in self._sending:
            self._sending.add(broker_id)
            self._spawn(self._send_all(broker_id))
        return await errors

    def cancel(self, owner: OwnedPartition) -> None:
        """Drop the queued entries of a partition that this broker no longer leads. Requests in flight go on."""
        for broker_id, queue in self._queues.items():
            for entry in queue:
                if entry.owner is owner and not entry.errors.done():
                    entry.errors.set_result({})
            self._queues[broker_id] = [entry for entry in queue if entry.owner is not owner]

    def queued(self, broker_id: int) -> int:
        """Return the number of the broker's entries that are in no request yet."""
        return len(self._queues.get(broker_id, ()))

    async def _send_all(self, broker_id: int) -> None:
        try:
            while entries := self._take(broker_id):
                await self._send_entries(broker_id, entries)
        finally:
            self._sending.discard(broker_id)

    def _take(self, broker_id: int) -> list[_Entry]:
        """Take the entries of the next request from the queue."""
        queue, size, count = self._queues.pop(broker_id, []), 0, 0
        while count < len(queue) and (count == 0 or size + len(queue[count].partitions) <= MAX_PARTITIONS):
            size += len(queue[count].partitions)
            count += 1
        if count < len(queue):
            self._queues[broker_id] = queue[count:]
        return queue[:count]

    async def _send_entries(self, broker_id: int, entries: Sequence[_Entry]) -> None:
        request = {"markers": [_fields(entry) for entry in entries]}
        try:
            response = await self._send(broker_id, ApiKey.WRITE_TXN_MARKERS, request, purpose=PURPOSE)
        except TidelogError as error:
            _log.info("The markers of %d transactions for broker %d are not sent: %s", len(entries), broker_id, error)
            found, default = {}, ErrorCode.NETWORK_EXCEPTION
        else:
            found, default = _codes(response.markers), ErrorCode.UNKNOWN_SERVER_ERROR
        for entry in entries:
            if not entry.errors.done():
                producer_id = entry.marker.producer_id
                entry.errors.set_result({name: found.get((producer_id, name), default) for name in entry.partitions})


def _fields(entry: _Entry) -> dict[str, Any]:
    marker = entry.marker
    return {
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "transaction_result": marker.committed,
        "topics": [
            {"name": topic, "partition_indexes": numbers}
            for topic, numbers in partitions_by_topic(entry.partitions).items()
        ],
        "coordinator_epoch": marker.coordinator_epoch,
        "transaction_version": marker.transaction_version,
    }


def _codes(markers: Iterable[Any]) -> dict[tuple[int, TopicPartition], ErrorCode]:
    """Return a response's error codes by producer id and partition."""
    return {
        (marker.producer_id, TopicPartition(topic.name, result.partition_index)): code_of(result.error_code)
        for marker in markers
        for topic in marker.topics
        for result in topic.partitions
    }
