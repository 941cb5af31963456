"""WriteTxnMarkers: another broker's coordinator, or an operator, ends transactions in partitions here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.broker import Broker
from tidelog.server.executor import yielding_to_loop
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.markers import Marker
from tidelog.server.transactions.rules.topics import partitions_by_topic

_AT_ONCE: Final = 100
"""Markers to begin before other tasks of the event loop get a turn."""


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    if not broker.authorizer.allows(context, Operation.ALTER, CLUSTER, log_denial=False):
        broker.authorizer.require(context, Operation.CLUSTER_ACTION)
    tasks = [
        asyncio.ensure_future(broker.transactions.write_markers(_marker(asked), _partitions(asked)))
        async for asked in yielding_to_loop(request.markers, _AT_ONCE)
    ]
    return _answer(zip(request.markers, await asyncio.gather(*tasks), strict=True))


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for every partition."""
    code = error_code_of(error)
    return _answer((asked, dict.fromkeys(_partitions(asked), code)) for asked in request.markers)


def _answer(results: Iterable[tuple[Struct, Mapping[TopicPartition, ErrorCode]]]) -> Mapping[str, Any]:
    """Return the response's fields by producer. A producer may have many markers."""
    errors: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for asked, answers in results:
        errors.setdefault(asked.producer_id, {}).update(answers)
    return {
        "markers": [
            {"producer_id": producer_id, "topics": _by_topic(answers)} for producer_id, answers in errors.items()
        ]
    }


def _marker(asked: Struct) -> Marker:
    return Marker(
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        committed=asked.transaction_result,
        coordinator_epoch=asked.coordinator_epoch,
        transaction_version=asked.transaction_version,
    )


def _partitions(asked: Struct) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partition_indexes]


def _by_topic(errors: Mapping[TopicPartition, ErrorCode]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic,
            "partitions": [
                {"partition_index": number, "error_code": errors[TopicPartition(topic, number)]} for number in numbers
            ],
        }
        for topic, numbers in partitions_by_topic(errors).items()
    ]
