"""WriteTxnMarkers: another broker's coordinator, or an operator, ends transactions in partitions of this broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.broker import Broker
from tidelog.server.request_context import RequestContext
from tidelog.server.transactions.markers import Marker
from tidelog.server.transactions.rules.topics import partitions_by_topic


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    written = await asyncio.gather(
        *(broker.transactions.write_markers(_marker(asked), _partitions(asked)) for asked in request.markers)
    )
    errors: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for asked, answers in zip(request.markers, written, strict=True):
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
