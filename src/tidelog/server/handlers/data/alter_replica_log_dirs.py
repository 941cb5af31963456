"""AlterReplicaLogDirs: move partitions to other log directories of this broker, while they are written and read.

===========================================  ======================================================================
the partition, or the directory              answered with
===========================================  ======================================================================
a topic whose future directory would have    INVALID_TOPIC_EXCEPTION
a name of more than 255 bytes
a directory that is not configured           LOG_DIR_NOT_FOUND
an offline one, or the partition's own is    KAFKA_STORAGE_ERROR
not here yet                                 REPLICA_NOT_AVAILABLE; it will be made in that directory
here                                         nothing: the move has begun; asking for where it is now ends one
===========================================  ======================================================================

Thread rule: the loop's; moves begin in a thread. Source: Kafka's ``ReplicaManager.alterReplicaLogDirs`` (KIP-113).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.request_context import RequestContext
from tidelog.storage.manager.log_manager import LogManager

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_log = logging.getLogger(__name__)

_LONGEST_NAME: Final = 255
_FUTURE_SUFFIX_BYTES: Final = 1 + 32 + len("-future")


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    broker.authorizer.require(context, Operation.ALTER)
    return _answer({(name, path): await _move(broker, name, path) for name, path in _moves(request)})


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """The error for every partition."""
    return _answer(dict.fromkeys(_moves(request), error_code_of(error)))


def _moves(request: Struct) -> list[tuple[TopicPartition, Path]]:
    return [
        (TopicPartition(topic.name, number), Path(directory.path))
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    ]


def _answer(codes: Mapping[tuple[TopicPartition, Path], ErrorCode]) -> Mapping[str, Any]:
    results = defaultdict(list)
    for (name, _path), code in codes.items():
        results[name.topic].append({"partition_index": name.partition, "error_code": code})
    return {"results": [{"topic_name": topic, "partitions": partitions} for topic, partitions in results.items()]}


async def _move(broker: Broker, partition: TopicPartition, path: Path) -> ErrorCode:
    try:
        if len(partition.directory_name) + _FUTURE_SUFFIX_BYTES > _LONGEST_NAME:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        _require_directory(broker.logs, path)
        try:
            broker.replicas.partition(partition).leading_log()
        except ApiError as error:
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            broker.logs.prefer(partition, path)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        await broker.in_thread(broker.logs.move, partition, path)
    except TidelogError as error:
        _log.warning("%s cannot be moved to %s: %s", partition, path, error)
        return error_code_of(error)
    return ErrorCode.NONE


def _require_directory(logs: LogManager, path: Path) -> None:
    """ApiError for one that is not configured, or is offline."""
    if path in logs.offline:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
    if path not in [directory.path for directory in logs.online]:
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")
