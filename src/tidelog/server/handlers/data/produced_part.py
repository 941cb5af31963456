"""A partition's part of a produce request, from the check of its records to its result.

States: *checked* -> *appended* -> *replicated*; each step may refuse it instead. At the end ``result`` is set. An error
of one partition affects no other: it becomes the partition's result and is not raised.

All transactional batches of a request must have one producer, else the request fails with INVALID_PRODUCER_ID_MAPPING.
Their partitions must be part of the transaction (KIP-890). Thread rule: the event loop only, except for the append in a
background thread. Source: Kafka's ``ReplicaManager.handleProduceAppend``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from tidelog.model import InvalidRecordError, TidelogError, TopicPartition
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.produce import PartitionProduceData, PartitionProduceResponse, RecordError, TopicProduceData
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.runtime.executor import InThread
from tidelog.server.handlers.data.produced_batch import NO_BATCH, read_batch
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.transactions.verification import Membership, Operation, Verification, produce_error
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import NO_GUARD

_log = logging.getLogger(__name__)

_INLINE_BYTES: Final = 64 * 1024
"""The largest batch in bytes that is decompressed on the event loop."""
_AS_IT_COMES: Final = ("producer", "uncompressed")
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
"""Append errors that are not logged, and whose results lack the log start offset."""


class ProducedPart:
    """A partition's records and result. ``end`` is 0 until the append, then the offset after its last record."""

    __slots__ = ("_records", "batch", "end", "guard", "index", "is_slow", "is_transactional", "partition", "result")

    def __init__(self, data: PartitionProduceData) -> None:
        self.index = data.index
        self._records = data.records
        self.batch = NO_BATCH
        self.partition: Partition | None = None
        self.guard = NO_GUARD
        self.is_transactional = False
        self.is_slow = False
        """True if the append may take long."""
        self.end = 0
        self.result: PartitionProduceResponse | None = None

    def validate(self, replicas: ReplicaManager, topic: TopicProduceData, version: int) -> None:
        """Find the partition and check the records."""
        try:
            if topic.name:
                self.partition = replicas.partition(TopicPartition(topic.name, self.index))
            else:
                self.partition = replicas.by_topic_id(topic.topic_id, self.index)
            self.batch = read_batch(version, self._records)
            self.is_transactional = self.batch.is_transactional
            log = self.partition.log
            self.is_slow = log.append_waits_for_disk or self._takes_long(log.config)
        except ApiError as error:
            self._refuse_unchecked(version, error.code)

    def refuse_unauthorized(self, version: int) -> None:
        """Refuse a partition that the client may not write to."""
        self._refuse_unchecked(version, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def require_public(self) -> None:
        """Refuse an internal topic: only coordinators and administrators may append to it."""
        if self.partition is not None and self.partition.topic_partition.topic in INTERNAL_TOPICS:
            self.refuse(ErrorCode.INVALID_TOPIC_EXCEPTION)

    @property
    def name(self) -> TopicPartition:
        """The partition of a part that has passed ``validate``."""
        assert self.partition is not None
        return self.partition.topic_partition

    @property
    def final_result(self) -> PartitionProduceResponse:
        """The result of a finished part."""
        assert self.result is not None
        return self.result

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
            result = await partition.append_in_thread(in_thread, self._records, required_acks=acks, guard=self.guard)
            self._appended(result)
        except TidelogError as error:
            self._append_failed(error)

    def is_replicated(self) -> bool:
        """Return True if the wait is over. If replication has become impossible, set the error."""
        if not self.end or self.partition is None or self.partition.is_only_replica:
            return True
        error = self.partition.replication_error(self.end)
        if error:
            self._fail(error)
        return error is not None

    def expire(self) -> None:
        """Set REQUEST_TIMED_OUT if the records are not replicated."""
        if not self.is_replicated():
            self._fail(ErrorCode.REQUEST_TIMED_OUT)

    def refuse(self, code: ErrorCode, message: str | None = None) -> None:
        self.result = PartitionProduceResponse(self.index, code, error_message=message)

    # --- inside ---

    def _refuse_unchecked(self, version: int, code: ErrorCode) -> None:
        """Refuse records before their check. Their transactional flag still counts."""
        with suppress(ApiError):
            self.is_transactional = read_batch(version, self._records).is_transactional
        self.refuse(code)

    def _takes_long(self, config: LogConfig) -> bool:
        if config.flushes_appends:
            return True
        is_opened = self.batch.is_compressed or config.compression_type not in _AS_IT_COMES
        return is_opened and self._records is not None and len(self._records) > _INLINE_BYTES

    def _appended(self, result: AppendResult) -> None:
        self._records = None
        self.end = result.last_offset + 1
        self.result = PartitionProduceResponse(
            self.index, 0, result.first_offset, result.log_append_time, result.log_start_offset
        )

    def _append_failed(self, error: TidelogError) -> None:
        """Set the error. If single records caused it, the result lists them with reasons (KIP-467)."""
        self._records = None
        self.refuse(error_code_of(error))
        assert self.result is not None
        if self.result.error_code not in _KNOWN_ERRORS and self.partition is not None:
            _log.info("Appending to %s failed: %s", self.partition.topic_partition, error)
            self.result = self.result._replace(log_start_offset=self.partition.log_start_offset)
        if isinstance(error, InvalidRecordError) and error.record_errors:
            record_errors = [RecordError(one.batch_index, one.message) for one in error.record_errors]
            self.result = self.result._replace(record_errors=record_errors, error_message=error.message)

    def _fail(self, error: ErrorCode) -> None:
        assert self.result is not None
        self.result = self.result._replace(error_code=error)


async def verify_parts(
    verification: Verification, transactional_id: str, version: int, parts: Collection[ProducedPart]
) -> None:
    """Refuse the transactional parts that are not part of the transaction. Give the others a guard for their append.

    ``version`` is the request's.
    """
    by_name = {part.name: part for part in parts if part.batch.is_of_transaction}
    producers = {_producer(part) for part in by_name.values()}
    if not producers:
        return
    if len(producers) > 1:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
        )
    membership = Membership(
        transactional_id=transactional_id,
        producer=producers.pop(),
        sequences={name: part.batch.base_sequence for name, part in by_name.items()},
        operation=Operation.of_produce(version),
    )
    for name, (guard, error) in (await verification.verify(membership)).items():
        if error:
            failure = produce_error(error, membership.operation)
            by_name[name].refuse(failure.code, failure.message)
        else:
            by_name[name].guard = guard


def _producer(part: ProducedPart) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(part.batch.producer_id, part.batch.producer_epoch)
