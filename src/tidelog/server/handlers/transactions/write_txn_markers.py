"""WriteTxnMarkers: another broker's coordinator, or an operator, ends transactions in partitions here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.topic_partition import partitions_by_topic
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.broker import Broker
from tidelog.server.network.request_context import RequestContext
from tidelog.server.transactions.markers import Marker

if TYPE_CHECKING:
    from tidelog.protocol.message_types import transactions as wire

_AT_ONCE: Final = 100
"""Markers to begin before other tasks of the event loop get a turn."""


def handle(
    broker: Broker, context: RequestContext, request: wire.WriteTxnMarkersRequest
) -> Awaitable[wire.WriteTxnMarkersResponse]:
    if not broker.authorizer.allows(context, Operation.ALTER, CLUSTER, log_denial=False):
        broker.authorizer.require(context, Operation.CLUSTER_ACTION)
    context.client.is_exempt = True
    return _write(broker, request)


async def _write(broker: Broker, request: wire.WriteTxnMarkersRequest) -> wire.WriteTxnMarkersResponse:
    tasks = [
        asyncio.ensure_future(broker.transactions.write_markers(_marker(marker), _partitions(marker)))
        async for marker in yielding_to_loop(request.markers, _AT_ONCE)
    ]
    return _by_producer(zip(request.markers, await asyncio.gather(*tasks), strict=True))


def refuse(
    _context: RequestContext, request: wire.WriteTxnMarkersRequest, error: TidelogError
) -> wire.WriteTxnMarkersResponse:
    """Return the error for every partition."""
    code = error_code_of(error)
    return _by_producer((marker, dict.fromkeys(_partitions(marker), code)) for marker in request.markers)


def _by_producer(
    results: Iterable[tuple[wire.WritableTxnMarker, Mapping[TopicPartition, ErrorCode]]],
) -> wire.WriteTxnMarkersResponse:
    """Return the response's fields by producer. A producer may have many markers."""
    errors: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker, codes in results:
        errors.setdefault(marker.producer_id, {}).update(codes)
    return {
        "markers": [{"producer_id": producer_id, "topics": _by_topic(codes)} for producer_id, codes in errors.items()]
    }


def _marker(marker: wire.WritableTxnMarker) -> Marker:
    return Marker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _partitions(marker: wire.WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes]


def _by_topic(errors: Mapping[TopicPartition, ErrorCode]) -> list[wire.WritableTxnMarkerTopicResult]:
    return [
        {
            "name": topic,
            "partitions": [
                {"partition_index": number, "error_code": errors[TopicPartition(topic, number)]} for number in numbers
            ],
        }
        for topic, numbers in partitions_by_topic(errors).items()
    ]
