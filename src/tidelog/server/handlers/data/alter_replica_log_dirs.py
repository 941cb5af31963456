"""AlterReplicaLogDirs: it moves partitions to other log directories while clients use them.

===========================================  ======================================================================
the partition, or the log directory          result
===========================================  ======================================================================
the future log's directory would have a      INVALID_TOPIC_EXCEPTION
name of more than 255 bytes
the log directory is not configured          LOG_DIR_NOT_FOUND
it, or the partition's own, is offline       KAFKA_STORAGE_ERROR
it is cordoned (KIP-1066)                    INVALID_REPLICA_ASSIGNMENT
the replica is not here yet                  REPLICA_NOT_AVAILABLE; it will be created in that log directory
the replica is here                          NONE; the move begins. The current log directory cancels a move
===========================================  ======================================================================

If a request names several log directories for a partition, the last one counts. Partitions of a request that are
refused for the same reason share one line in the log. Thread rule: the event loop only; moves begin in a background
thread. Source: Kafka's ``ReplicaManager.alterReplicaLogDirs`` (KIP-113).
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.server.authorization.operation import Operation
from tidelog.server.executor import yielding_to_loop
from tidelog.server.request_context import RequestContext
from tidelog.server.shortened_text import shortened
from tidelog.storage.manager.log_manager import LogManager

if TYPE_CHECKING:
    from tidelog.protocol.message_types.data import (
        AlterReplicaLogDirPartitionResult,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
    )
    from tidelog.server.broker import Broker

_log = logging.getLogger(__name__)

_LONGEST_NAME: Final = 255
_FUTURE_SUFFIX_BYTES: Final = 1 + 32 + len("-future")


class _Directory(NamedTuple):
    path: Path
    refusal: tuple[ErrorCode, str] | None
    """The reason why no partition can move there."""


async def handle(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    broker.authorizer.require(context, Operation.ALTER)
    directories: dict[str, _Directory] = {}
    codes: dict[TopicPartition, ErrorCode] = {}
    refused: dict[ErrorCode, str] = {}
    async for name, text in yielding_to_loop(_wanted(request).items()):
        if text not in directories:
            directories[text] = _directory(broker.logs, text)
        try:
            codes[name] = await _move(broker, name, directories[text])
        except TidelogError as error:
            codes[name] = code = error_code_of(error)
            if code not in refused:
                refused[code] = f"{shortened(str(name))} cannot be moved to {shortened(text)}: {error}"
    times = Counter(codes.values())
    for code, line in refused.items():
        _log.warning("%s (%s, %d in this request)", line, code.name, times[code])
    return _results(codes)


def refuse(
    _context: RequestContext, request: AlterReplicaLogDirsRequest, error: TidelogError
) -> AlterReplicaLogDirsResponse:
    """Return the error for every partition."""
    return _results(dict.fromkeys(_wanted(request), error_code_of(error)))


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Return the log directory for each partition."""
    return {
        TopicPartition(topic.name, number): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    }


def _results(codes: Mapping[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for name, code in codes.items():
        results[name.topic].append({"partition_index": name.partition, "error_code": code})
    return {"results": [{"topic_name": topic, "partitions": partitions} for topic, partitions in results.items()]}


async def _move(broker: Broker, partition: TopicPartition, directory: _Directory) -> ErrorCode:
    if len(partition.topic) + len(f"-{partition.partition}") + _FUTURE_SUFFIX_BYTES > _LONGEST_NAME:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
    if directory.refusal is not None:
        raise ApiError(*directory.refusal)
    try:
        broker.replicas.partition(partition).leading_log()
    except ApiError as error:
        if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise
        broker.logs.prefer(partition, directory.path)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    await broker.in_thread(broker.logs.move, partition, directory.path)
    return ErrorCode.NONE


def _directory(logs: LogManager, text: str) -> _Directory:
    path = Path(text)
    refusal = None
    if path in logs.offline:
        refusal = ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {text} is offline"
    elif path not in [directory.path for directory in logs.online]:
        refusal = ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {shortened(text)} is not found in the config."
    elif path in logs.cordoned:
        refusal = ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {text} is cordoned"
    return _Directory(path, refusal)
