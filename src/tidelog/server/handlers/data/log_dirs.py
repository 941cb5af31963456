"""AlterReplicaLogDirs and DescribeLogDirs: moves between log directories, and their logs (KIP-113).

===========================================  ======================================================================
the partition, or the log directory          result
===========================================  ======================================================================
the future log's directory would have a      INVALID_TOPIC_EXCEPTION
name of more than 255 bytes
the log directory is not configured          LOG_DIR_NOT_FOUND
it, or the partition's own, is offline       KAFKA_STORAGE_ERROR
it is cordoned (KIP-1066)                    INVALID_REPLICA_ASSIGNMENT
the replica is not here yet                  REPLICA_NOT_AVAILABLE; it will be created in that log directory
a replica here, of a leader or a follower    NONE; the move begins. The current log directory cancels a move
===========================================  ======================================================================

Clients use the partitions during a move. If a request names several log directories for a partition, the last one
counts. Partitions of a request that are refused for the same reason share one line in the log.

A description has the logs and errors of each log directory (KIP-827, KIP-1066). A future log's ``offset_lag`` is its
distance to the current log's end. A current log's is its distance to the high watermark. Thread rule: the event loop
only. Moves begin, and disks are read, in a background thread. Source: Kafka's ``ReplicaManager``.
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.shortened_text import shortened
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.operation import Operation
from tidelog.server.network.request_context import RequestContext
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

if TYPE_CHECKING:
    from tidelog.protocol.message_types import data as wire
    from tidelog.server.broker import Broker

_log = logging.getLogger(__name__)

_LONGEST_NAME: Final = 255
_FUTURE_SUFFIX_BYTES: Final = 1 + 32 + len("-future")
_UNKNOWN_SPACE = -1


class _Directory(NamedTuple):
    path: Path
    refusal: tuple[ErrorCode, str] | None
    """The reason why no partition can move there."""


async def alter_replica_log_dirs(
    broker: Broker, context: RequestContext, request: wire.AlterReplicaLogDirsRequest
) -> wire.AlterReplicaLogDirsResponse:
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


def refuse_alter_replica_log_dirs(
    _context: RequestContext, request: wire.AlterReplicaLogDirsRequest, error: TidelogError
) -> wire.AlterReplicaLogDirsResponse:
    """Return the error for every partition."""
    return _results(dict.fromkeys(_wanted(request), error_code_of(error)))


def _wanted(request: wire.AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Return the log directory for each partition."""
    return {
        TopicPartition(topic.name, number): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    }


def _results(codes: Mapping[TopicPartition, ErrorCode]) -> wire.AlterReplicaLogDirsResponse:
    results: dict[str, list[wire.AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for name, code in codes.items():
        results[name.topic].append({"partition_index": name.partition, "error_code": code})
    return {"results": [{"topic_name": topic, "partitions": partitions} for topic, partitions in results.items()]}


async def _move(broker: Broker, partition: TopicPartition, directory: _Directory) -> ErrorCode:
    if len(partition.topic) + len(f"-{partition.partition}") + _FUTURE_SUFFIX_BYTES > _LONGEST_NAME:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
    if directory.refusal is not None:
        raise ApiError(*directory.refusal)
    try:
        _ = broker.replicas.partition(partition).log
    except ApiError as error:
        if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise
        broker.logs.prefer(partition, directory.path)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    await broker.in_thread(broker.logs.move, partition, directory.path)
    broker.replicas.check_directory(partition)
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


def refuse_describe_log_dirs(
    _context: RequestContext, _request: wire.DescribeLogDirsRequest, error: TidelogError
) -> wire.DescribeLogDirsResponse:
    """Return the error. Versions without ``error_code`` get only the empty results."""
    return {"error_code": error_code_of(error), "results": []}


async def describe_log_dirs(
    broker: Broker, context: RequestContext, request: wire.DescribeLogDirsRequest
) -> wire.DescribeLogDirsResponse:
    broker.authorizer.require(context, Operation.DESCRIBE)
    wanted: Collection[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
    return {"error_code": 0, "results": await broker.in_thread(_describe, broker.logs, wanted)}


def _describe(logs: LogManager, wanted: Collection[TopicPartition] | None) -> list[wire.DescribeLogDirsResult]:
    """Describe the log directories with the ``wanted`` partitions, or all. Thread rule: a background thread."""
    logs.handle_failures()
    online = [_describe_directory(logs, directory.path, directory.logs, wanted) for directory in logs.online]
    offline: list[wire.DescribeLogDirsResult] = [
        {"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "log_dir": str(path.absolute())} for path in logs.offline
    ]
    return online + offline


def _describe_directory(
    logs: LogManager,
    path: Path,
    found: Mapping[TopicPartition, PartitionLog],
    wanted: Collection[TopicPartition] | None,
) -> wire.DescribeLogDirsResult:
    topics: dict[str, list[wire.DescribeLogDirsPartition]] = defaultdict(list)
    for partition, log in sorted(dict(found).items()):
        if wanted is None or partition in wanted:
            topics[partition.topic].append(_describe_log(logs, partition, log))
    total_bytes, usable_bytes = _space(path)
    return {
        "error_code": 0,
        "log_dir": str(path.absolute()),
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
        "is_cordoned": path in logs.cordoned,
    }


def _describe_log(logs: LogManager, partition: TopicPartition, log: PartitionLog) -> wire.DescribeLogDirsPartition:
    current = logs.log(partition)
    is_future = log is not current
    lag = -1
    if current is not None:
        lag = current.end_offset - log.end_offset if is_future else max(current.high_watermark - log.end_offset, 0)
    return {
        "partition_index": partition.partition,
        "partition_size": log.size,
        "offset_lag": lag,
        "is_future_key": is_future,
    }


def _space(path: Path) -> tuple[int, int]:
    """Return the disk's total and usable bytes, or -1 for both if it cannot be read."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return _UNKNOWN_SPACE, _UNKNOWN_SPACE
    return usage.total, usage.free
