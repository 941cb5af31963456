"""ElectLeaders: the preferred replica is to lead, or, uncleanly, any that is alive (KIP-460).

Version 0 knows preferred leaders alone. Where all partitions are asked for, each topic is in the answer, with those of
its partitions that an election was tried for. Source: Kafka's ``ReplicationControlManager.electLeaders``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.requests import ElectionType, Outcome
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    broker.authorizer.require(context, Operation.ALTER)
    asked = request.topic_partitions
    partitions = None
    if asked is not None:
        partitions = [TopicPartition(topic.topic, number) for topic in asked for number in topic.partitions]
    outcomes = await broker.metadata.elect_leaders(_kind(request.election_type), partitions)
    others = () if partitions is not None else broker.metadata.image.topics.keys() - {name.topic for name in outcomes}
    return {
        "replica_election_results": [
            *_by_topic(outcomes),
            *({"topic": topic, "partition_result": []} for topic in others),
        ]
    }


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    outcome = Outcome.of(error)
    names = [TopicPartition(one.topic, number) for one in request.topic_partitions or () for number in one.partitions]
    return {"error_code": outcome.error, "replica_election_results": _by_topic(dict.fromkeys(names, outcome))}


def _kind(number: int) -> ElectionType:
    if number not in tuple(ElectionType):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {number}")
    return ElectionType(number)


def _by_topic(outcomes: Mapping[TopicPartition, Outcome]) -> list[dict[str, object]]:
    rows = sorted((name.topic, name.partition, outcome) for name, outcome in outcomes.items())
    return [
        {
            "topic": topic,
            "partition_result": [
                {"partition_id": number, "error_code": outcome.error, "error_message": outcome.message}
                for _, number, outcome in group
            ],
        }
        for topic, group in groupby(rows, key=itemgetter(0))
    ]
