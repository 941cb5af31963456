"""OffsetForLeaderEpoch: the end of a leader epoch, which shows where another log diverges.

Thread rule: the event loop only. Source: Kafka's ``ReplicaManager.lastOffsetForLeaderEpoch`` (KIP-101, KIP-320).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, topic
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types.data import (
        EpochEndOffset,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
        OffsetForLeaderPartition,
    )
    from tidelog.server.broker import Broker

_UNKNOWN: Final[EpochEndOffset] = {"error_code": 0, "leader_epoch": -1, "end_offset": -1}


def refuse(
    _context: RequestContext, request: OffsetForLeaderEpochRequest, error: TidelogError
) -> OffsetForLeaderEpochResponse:
    """Return the error for every partition."""
    code = error_code_of(error)
    return {
        "topics": [
            {"topic": one.topic, "partitions": [_failed(part, code) for part in one.partitions]}
            for one in request.topics
        ]
    }


def handle(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
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


def _end_of(broker: Broker, name: str, part: OffsetForLeaderPartition, is_allowed: bool) -> EpochEndOffset:
    try:
        if not is_allowed:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = broker.replicas.partition(TopicPartition(name, part.partition))
        found = partition.epoch_end(part.leader_epoch, part.current_leader_epoch)
    except TidelogError as error:
        return _failed(part, error_code_of(error))
    if found is None:
        return {**_UNKNOWN, "partition": part.partition}
    return {"partition": part.partition, "leader_epoch": found.epoch, "end_offset": found.end_offset, "error_code": 0}


def _failed(part: OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return {**_UNKNOWN, "partition": part.partition, "error_code": code}
