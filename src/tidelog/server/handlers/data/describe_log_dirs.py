"""DescribeLogDirs: the log directories, their logs, and their errors.

A future log's ``offset_lag`` is its distance to the current log's end. A current log's is its distance to the high
watermark, which is 0 because all records are here. Thread rule: the event loop only; disks are read in a background
thread. Source: Kafka's ``ReplicaManager.describeLogDirs`` (KIP-113, KIP-827, KIP-1066).
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.server.authorization.operation import Operation
from tidelog.server.request_context import RequestContext
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

if TYPE_CHECKING:
    from tidelog.protocol.message_types.data import (
        DescribeLogDirsPartition,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
        DescribeLogDirsResult,
    )
    from tidelog.server.broker import Broker

_UNKNOWN_SPACE = -1


def refuse(_context: RequestContext, _request: DescribeLogDirsRequest, error: TidelogError) -> DescribeLogDirsResponse:
    """Return the error. Versions without ``error_code`` get only the empty results."""
    return {"error_code": error_code_of(error), "results": []}


async def handle(broker: Broker, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    broker.authorizer.require(context, Operation.DESCRIBE)
    wanted: Collection[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
    return {"error_code": 0, "results": await broker.in_thread(_describe, broker.logs, wanted)}


def _describe(logs: LogManager, wanted: Collection[TopicPartition] | None) -> list[DescribeLogDirsResult]:
    """Describe the log directories with the ``wanted`` partitions, or all. Thread rule: a background thread."""
    logs.handle_failures()
    online = [_describe_directory(logs, directory.path, directory.logs, wanted) for directory in logs.online]
    offline: list[DescribeLogDirsResult] = [
        {"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "log_dir": str(path.absolute())} for path in logs.offline
    ]
    return online + offline


def _describe_directory(
    logs: LogManager,
    path: Path,
    found: Mapping[TopicPartition, PartitionLog],
    wanted: Collection[TopicPartition] | None,
) -> DescribeLogDirsResult:
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
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


def _describe_log(logs: LogManager, partition: TopicPartition, log: PartitionLog) -> DescribeLogDirsPartition:
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
