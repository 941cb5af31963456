"""One partition of a produce request on its way to its answer.

States: *looked at* -> *appended* -> *replicated*, or refused at any of them; in the end there is an ``answer``. What is
wrong with a partition is its answer, nobody else's: nothing here raises.
Called by: the produce handler. Thread rule: the loop's, but for the append that is handed to a thread.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from tidelog.model import InvalidRecordError, TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.produce import PartitionProduceData, PartitionProduceResponse, RecordError, TopicProduceData
from tidelog.server.handlers.data.produced_batch import NO_BATCH, look_at
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.topic_name import is_internal
from tidelog.server.work import InThread
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.config import LogConfig
from tidelog.storage.producer import NO_GUARD, AppendOrigin

_log = logging.getLogger(__name__)

_INLINE_BYTES: Final = 64 * 1024
"""Of a batch that is decompressed on the loop."""
_AS_IT_COMES: Final = ("producer", "uncompressed")
_NEVER: Final = 2**63 - 1
_KNOWN_ERRORS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Of appends: answered without the log start offset, and without a word in the log file."""


class ProducedPart:
    """``end``: of its records in the log, 0 before they are there; ``guard``: of a transaction's."""

    __slots__ = ("_records", "answer", "batch", "end", "guard", "index", "is_slow", "is_transactional", "partition")

    def __init__(self, data: PartitionProduceData) -> None:
        self.index = data.index
        self._records = data.records
        self.batch = NO_BATCH
        self.partition: Partition | None = None
        self.guard = NO_GUARD
        self.is_transactional = False
        self.is_slow = False
        """Whether the append may take long."""
        self.end = 0
        self.answer: PartitionProduceResponse | None = None

    def look(self, replicas: ReplicaManager, topic: TopicProduceData, version: int) -> None:
        """Find the partition, and see what its records are."""
        try:
            if topic.name:
                self.partition = replicas.partition(TopicPartition(topic.name, self.index))
            else:
                self.partition = replicas.by_topic_id(topic.topic_id, self.index)
            self.batch = look_at(version, self._records)
            self.is_transactional = self.batch.is_transactional
            log = self.partition.log
            self.is_slow = log.takes_its_time or self._takes_long(log.config)
        except ApiError as error:
            self._refuse_unseen(version, error.code)

    def deny(self, version: int) -> None:
        """It is not the client's to write to."""
        self._refuse_unseen(version, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def require_public(self) -> None:
        """Only coordinators and administrators append to internal topics."""
        if self.partition is not None and is_internal(self.partition.topic_partition.topic):
            self.refuse(ErrorCode.INVALID_TOPIC_EXCEPTION)

    @property
    def name(self) -> TopicPartition:
        """Of a part that has passed ``look``."""
        assert self.partition is not None
        return self.partition.topic_partition

    @property
    def answered(self) -> PartitionProduceResponse:
        """Its answer, in the end."""
        assert self.answer is not None
        return self.answer

    def append(self, acks: int) -> None:
        assert self.partition is not None
        assert self._records is not None
        try:
            self._appended(self.partition.append(self._records, required_acks=acks, guard=self.guard))
        except TidelogError as error:
            self._append_failed(error)

    async def append_in_thread(self, in_thread: InThread, acks: int) -> None:
        partition = self.partition
        assert partition is not None
        assert self._records is not None
        try:
            log = partition.require_appendable(acks)
            result = await in_thread(partition.write, log, self._records, AppendOrigin.CLIENT, self.guard)
            partition.appended()
            self._appended(result)
        except TidelogError as error:
            self._append_failed(error)

    def is_replicated(self) -> bool:
        """Whether nothing more has to be waited for; that it cannot be any more becomes the answer."""
        if not self.end or self.partition is None or self.partition.is_alone:
            return True
        error = self.partition.replication_error(self.end)
        if error:
            self._fail(error)
        return error is not None

    def time_is_over(self) -> None:
        """For the replicas to get it."""
        if not self.is_replicated():
            self._fail(ErrorCode.REQUEST_TIMED_OUT)

    def refuse(self, code: ErrorCode, message: str | None = None) -> None:
        self.answer = PartitionProduceResponse(self.index, code, error_message=message)

    # --- inside ---

    def _refuse_unseen(self, version: int, code: ErrorCode) -> None:
        """Whether it is transactional counts all the same."""
        with suppress(ApiError):
            self.is_transactional = look_at(version, self._records).is_transactional
        self.refuse(code)

    def _takes_long(self, config: LogConfig) -> bool:
        if config.flush_messages != _NEVER:
            return True
        is_opened = self.batch.is_compressed or config.compression_type not in _AS_IT_COMES
        return is_opened and self._records is not None and len(self._records) > _INLINE_BYTES

    def _appended(self, result: AppendResult) -> None:
        self._records = None
        self.end = result.last_offset + 1
        self.answer = PartitionProduceResponse(
            self.index, 0, result.first_offset, result.log_append_time, result.log_start_offset
        )

    def _append_failed(self, error: TidelogError) -> None:
        """KIP-467: where single records are the reason, which ones, and why."""
        self._records = None
        self.refuse(error_code_of(error))
        assert self.answer is not None
        if self.answer.error_code not in _KNOWN_ERRORS and self.partition is not None:
            _log.info("Appending to %s failed: %s", self.partition.topic_partition, error)
            self.answer = self.answer._replace(log_start_offset=self.partition.log_start_offset)
        if isinstance(error, InvalidRecordError) and error.record_errors:
            record_errors = [RecordError(one.batch_index, one.message) for one in error.record_errors]
            self.answer = self.answer._replace(record_errors=record_errors, error_message=error.message)

    def _fail(self, error: ErrorCode) -> None:
        assert self.answer is not None
        self.answer = self.answer._replace(error_code=error)
