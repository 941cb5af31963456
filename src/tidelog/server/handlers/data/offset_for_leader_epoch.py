"""OffsetForLeaderEpoch: the end of a leader epoch, which shows where another log diverges.

Thread rule: the event loop only. Source: Kafka's ``ReplicaManager.lastOffsetForLeaderEpoch`` (KIP-101, KIP-320).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, topic
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_UNKNOWN = {"error_code": 0, "leader_epoch": -1, "end_offset": -1}


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for every partition."""
    answer = _UNKNOWN | {"error_code": error_code_of(error)}
    topics = [
        {"topic": one.topic, "partitions": [answer | {"partition": part.partition} for part in one.partitions]}
        for one in request.topics
    ]
    return {"topics": topics}


def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    allowed = _allowed(broker.authorizer, context, [one.topic for one in request.topics])
    return {
        "topics": [
            {
                "topic": one.topic,
                "partitions": [_end_of(broker, one.topic, part, one.topic in allowed) for part in one.partitions],
            }
            for one in request.topics
        ]
    }


def _allowed(authorizer: Authorizer, context: RequestContext, names: Collection[str]) -> Collection[str]:
    """Return all topics for a broker, and the topics that a consumer may describe."""
    if authorizer.allows(context, Operation.CLUSTER_ACTION, CLUSTER, log_denial=False):
        return names
    return authorizer.allowed(context, Operation.DESCRIBE, topic, names)


def _end_of(broker: Broker, name: str, part: Struct, is_allowed: bool) -> dict[str, Any]:
    answer = _UNKNOWN | {"partition": part.partition}
    try:
        if not is_allowed:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = broker.replicas.partition(TopicPartition(name, part.partition))
        found = partition.epoch_end(part.leader_epoch, part.current_leader_epoch)
    except TidelogError as error:
        return answer | {"error_code": error_code_of(error)}
    return answer if found is None else answer | {"leader_epoch": found.epoch, "end_offset": found.end_offset}
