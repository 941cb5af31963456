"""DeleteRecords: it deletes records below an offset. Offset -1 stands for the high watermark.

The response waits until the partition's log, and its future log during a move, start at the offset or above. After the
timeout it has REQUEST_TIMED_OUT. Records of internal topics cannot be deleted. Thread rule: the event loop only. Logs
change in a background thread, which may wait for the disk. Source: Kafka's ``ReplicaManager.deleteRecords``,
``DelayedDeleteRecords`` (KIP-107).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import topic
from tidelog.server.network.request_context import RequestContext
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.purgatory import wait_until
from tidelog.server.replicas.record_deletion import deletable, delete_below, low_watermark

if TYPE_CHECKING:
    from tidelog.protocol.message_types import data as wire
    from tidelog.server.broker import Broker


def refuse(
    _context: RequestContext, request: wire.DeleteRecordsRequest, error: TidelogError
) -> wire.DeleteRecordsResponse:
    """Return the error for every partition."""
    code = error_code_of(error)
    return {
        "topics": [
            {
                "name": one.name,
                "partitions": [
                    {"partition_index": part.partition_index, "low_watermark": -1, "error_code": code}
                    for part in one.partitions
                ],
            }
            for one in request.topics
        ]
    }


async def handle(
    broker: Broker, context: RequestContext, request: wire.DeleteRecordsRequest
) -> wire.DeleteRecordsResponse:
    deadline_ms = broker.timers.monotonic_ms() + request.timeout
    deletions = [(one.name, [_Deletion(part) for part in one.partitions]) for one in request.topics]
    allowed = broker.authorizer.allowed(context, Operation.DELETE, topic, (name for name, _parts in deletions))
    for name, parts in deletions:
        for part in parts:
            if name in allowed:
                await part.begin(broker, name)
            else:
                part.deny()
    for _name, parts in deletions:
        for part in parts:
            await part.finish(broker, deadline_ms - broker.timers.monotonic_ms())
    return {"topics": [{"name": name, "partitions": [part.result() for part in parts]} for name, parts in deletions]}


class _Deletion:
    """The deletion in one partition."""

    def __init__(self, part: wire.DeleteRecordsPartition) -> None:
        self._index = part.partition_index
        self._offset = part.offset
        self._partition: Partition | None = None
        self._wanted = 0
        self._low_watermark = -1
        self._error = ErrorCode.NONE

    def deny(self) -> None:
        self._error = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    async def begin(self, broker: Broker, name: str) -> None:
        try:
            if name in INTERNAL_TOPICS:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            self._partition = partition = broker.replicas.partition(TopicPartition(name, self._index))
            log, self._wanted = deletable(partition, self._offset)
            if await broker.in_thread(delete_below, partition, log, self._wanted):
                partition.check_delayed()
            self._low_watermark = low_watermark(partition)
        except TidelogError as error:
            self._error = error_code_of(error)

    async def finish(self, broker: Broker, timeout_ms: int) -> None:
        """Wait until all logs of the partition have reached the offset."""
        partition = self._partition
        if self._error or partition is None or self._low_watermark >= self._wanted:
            return
        met = await wait_until(self._is_over, (partition,), broker.timers, timeout_ms)
        if not met and not self._is_over(partition):
            self._error = ErrorCode.REQUEST_TIMED_OUT

    def result(self) -> wire.DeleteRecordsPartitionResult:
        return {"partition_index": self._index, "low_watermark": self._low_watermark, "error_code": self._error}

    def _is_over(self, partition: Partition) -> bool:
        try:
            self._low_watermark = low_watermark(partition)
        except TidelogError as error:
            self._error = error_code_of(error)
        return bool(self._error) or self._low_watermark >= self._wanted
