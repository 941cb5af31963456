"""OffsetForLeaderEpoch: where a leader epoch ended, so that a replica or consumer finds where its log parts from ours.

Thread rule: the loop's. Source: Kafka's ``ReplicaManager.lastOffsetForLeaderEpoch`` (KIP-101, KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_UNKNOWN = {"error_code": 0, "leader_epoch": -1, "end_offset": -1}


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """The error for every partition."""
    answer = _UNKNOWN | {"error_code": error_code_of(error)}
    topics = [
        {"topic": topic.topic, "partitions": [answer | {"partition": part.partition} for part in topic.partitions]}
        for topic in request.topics
    ]
    return {"topics": topics}


def handle(broker: Broker, _context: RequestContext, request: Struct) -> Mapping[str, Any]:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [_end_of(broker, topic.topic, part) for part in topic.partitions]}
            for topic in request.topics
        ]
    }


def _end_of(broker: Broker, topic: str, part: Struct) -> dict[str, Any]:
    answer = _UNKNOWN | {"partition": part.partition}
    try:
        partition = broker.replicas.partition(TopicPartition(topic, part.partition))
        found = partition.epoch_end(part.leader_epoch, part.current_leader_epoch)
    except TidelogError as error:
        return answer | {"error_code": error_code_of(error)}
    return answer if found is None else answer | {"leader_epoch": found.epoch, "end_offset": found.end_offset}
