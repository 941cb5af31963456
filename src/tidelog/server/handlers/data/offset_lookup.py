"""ListOffsets and OffsetForLeaderEpoch: offsets of a partition by time, by position, or by leader epoch.

====================  ====  ==========  =====================================================================
timestamp                   since       offset
====================  ====  ==========  =====================================================================
a time, in ms               v1          the first record at or after the time
latest                -1    v1          the end of the records that the client may read
earliest              -2    v1          the first record
max timestamp         -3    v7          the first record with the largest timestamp (KIP-734)
earliest local        -4    v8          as earliest, because there is no tiered storage (KIP-405)
latest tiered         -5    v9          -1 (KIP-1005)
earliest to upload    -6    v11         -1 (KIP-1023)
any other             < 0               UNSUPPORTED_VERSION
====================  ====  ==========  =====================================================================

The end of a leader epoch shows where another log diverges (KIP-101, KIP-320). A search by time may decompress batches,
so it runs in a background thread. Thread rule: the event loop only. Source: Kafka's ``ReplicaManager.fetchOffset``,
``lastOffsetForLeaderEpoch``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from tidelog.model import Isolation, TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, topic
from tidelog.server.network.request_context import RequestContext
from tidelog.storage.log.view.list_offsets import ListedOffset, OffsetSpec

if TYPE_CHECKING:
    from tidelog.protocol.message_types import data as wire
    from tidelog.server.broker import Broker

_SINCE: Final[Mapping[int, int]] = {
    OffsetSpec.LATEST: 1,
    OffsetSpec.EARLIEST: 1,
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version that supports each special timestamp."""
_FIRST_WITH_NOT_AVAILABLE: Final = 5
_CONSUMER: Final = -1
_DEBUGGING: Final = -2
"""The replica id of a client that asks any replica, not only the leader."""
_COMMITTED: Final = 1
_UNKNOWN: Final[wire.EpochEndOffset] = {"error_code": 0, "leader_epoch": -1, "end_offset": -1}


def refuse_list_offsets(
    _context: RequestContext, request: wire.ListOffsetsRequest, error: TidelogError
) -> wire.ListOffsetsResponse:
    """Return the error for every partition."""
    code = error_code_of(error)
    return {
        "topics": [
            {
                "name": one.name,
                "partitions": [
                    {"partition_index": part.partition_index, "error_code": code, "timestamp": -1, "offset": -1}
                    for part in one.partitions
                ],
            }
            for one in request.topics
        ]
    }


async def list_offsets(
    broker: Broker, context: RequestContext, request: wire.ListOffsetsRequest
) -> wire.ListOffsetsResponse:
    asked = Counter((one.name, part.partition_index) for one in request.topics for part in one.partitions)
    allowed = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, (one.name for one in request.topics))
    topics: list[wire.ListOffsetsTopicResponse] = []
    for one in request.topics:
        partitions: list[wire.ListOffsetsPartitionResponse] = []
        for part in one.partitions:
            try:
                if one.name not in allowed:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if asked[one.name, part.partition_index] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                listed = _listed(await _list(broker, context.version, request, one.name, part))
            except TidelogError as error:
                listed = {"error_code": _code_for(context.version, error), "timestamp": -1, "offset": -1}
            partitions.append({"leader_epoch": -1, **listed, "partition_index": part.partition_index})
        topics.append({"name": one.name, "partitions": partitions})
    return {"topics": topics}


async def _list(
    broker: Broker, version: int, request: wire.ListOffsetsRequest, name: str, part: wire.ListOffsetsPartition
) -> ListedOffset | None:
    timestamp, leader_epoch = part.timestamp, part.current_leader_epoch
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.replicas.partition(TopicPartition(name, part.partition_index))
    isolation = Isolation.LOG_END
    if request.replica_id == _CONSUMER:
        committed = request.isolation_level == _COMMITTED
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    leader_only = request.replica_id != _DEBUGGING
    if timestamp >= 0 or timestamp == OffsetSpec.MAX_TIMESTAMP:
        found: ListedOffset | None = await broker.in_thread(
            partition.list_offset, timestamp, isolation, leader_epoch, leader_only=leader_only
        )
        return found
    return partition.list_offset(timestamp, isolation, leader_epoch, leader_only=leader_only)


def _listed(found: ListedOffset | None) -> wire.ListOffsetsPartitionResponse:
    if found is None:
        return {"error_code": 0, "timestamp": -1, "offset": -1}
    return {
        "error_code": 0,
        "timestamp": -1 if found.timestamp is None else found.timestamp,
        "offset": found.offset,
        "leader_epoch": -1 if found.leader_epoch is None else found.leader_epoch,
    }


def _code_for(version: int, error: TidelogError) -> ErrorCode:
    code = error_code_of(error)
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _FIRST_WITH_NOT_AVAILABLE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return code


def refuse_offset_for_leader_epoch(
    _context: RequestContext, request: wire.OffsetForLeaderEpochRequest, error: TidelogError
) -> wire.OffsetForLeaderEpochResponse:
    """Return the error for every partition."""
    code = error_code_of(error)
    return {
        "topics": [
            {"topic": one.topic, "partitions": [_failed(part, code) for part in one.partitions]}
            for one in request.topics
        ]
    }


def offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: wire.OffsetForLeaderEpochRequest
) -> wire.OffsetForLeaderEpochResponse:
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


def _end_of(broker: Broker, name: str, part: wire.OffsetForLeaderPartition, is_allowed: bool) -> wire.EpochEndOffset:
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


def _failed(part: wire.OffsetForLeaderPartition, code: ErrorCode) -> wire.EpochEndOffset:
    return {**_UNKNOWN, "partition": part.partition, "error_code": code}
