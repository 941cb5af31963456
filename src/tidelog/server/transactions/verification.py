"""The check before an append that a partition is part of its transaction, or is added (KIP-890).

The client's request version determines the operation:

===================  ===========================  ==============================  =====================================
operation            Produce, TxnOffsetCommit     a partition without data of     error code if an abort helps
                                                  the transaction
===================  ===========================  ==============================  =====================================
CHECK                up to v10, up to v3          must be in it already           INVALID_TXN_STATE
CHECK_ABORTABLE      v11, v4                      must be in it already           TRANSACTION_ABORTABLE
ADD                  from v12, from v5            is added to it                  TRANSACTION_ABORTABLE
===================  ===========================  ==============================  =====================================

A partition that has data of the transaction needs no further check. For other partitions the log first gives a guard,
then the coordinator checks, then the records are appended with the guard. A marker in between invalidates the guard. A
partition cannot be added while a transaction is ending. ADD waits a short time for the end, because a new request of
the producer would cost more. ``transaction.partition.verification.enable`` can disable the checks, but not ADD.
Thread rule: the event loop only.
Source: Kafka's ``AddPartitionsToTxnManager``, ``ReplicaManager.handleProduceAppend`` (4.1).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.runtime.timers import Timers, pause
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.transactions.settings import TransactionSettings
from tidelog.storage.producer import NO_GUARD, VerificationGuard


class Operation(enum.Enum):
    """The operation in the module's table."""

    CHECK = enum.auto()
    CHECK_ABORTABLE = enum.auto()
    ADD = enum.auto()

    @classmethod
    def of_produce(cls, version: int) -> Operation:
        return cls.ADD if version >= 12 else cls.CHECK_ABORTABLE if version == 11 else cls.CHECK

    @classmethod
    def of_offset_commit(cls, version: int) -> Operation:
        return cls.ADD if version >= 5 else cls.CHECK_ABORTABLE if version == 4 else cls.CHECK


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The producer and its partitions. ``sequences`` are the sequence numbers of each partition's first record."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    sequences: Mapping[TopicPartition, int]
    operation: Operation


class Verified(NamedTuple):
    """The guard for an append to one partition, or the error that forbids it."""

    guard: VerificationGuard = NO_GUARD
    error: ErrorCode = ErrorCode.NONE


class Coordinator(Protocol):
    """The coordinator of a transactional id, possibly on another broker."""

    async def partition_errors(
        self, membership: Membership, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return NONE for the partitions in the transaction. ADD adds missing ones first."""
        ...


_NOT_VERIFIED: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Verification:
    def __init__(
        self,
        coordinator: Coordinator,
        replicas: ReplicaManager,
        *,
        timers: Timers,
        settings: TransactionSettings,
        is_enabled: Callable[[], bool],
    ) -> None:
        self._coordinator = coordinator
        self._replicas = replicas
        self._timers = timers
        self._settings = settings
        self._is_enabled = is_enabled

    async def verify(self, membership: Membership) -> dict[TopicPartition, Verified]:
        """Return the result for each partition. Append only to partitions without an error."""
        verified = dict.fromkeys(membership.sequences, Verified())
        adds = membership.operation is Operation.ADD
        if not adds and not self._is_enabled():
            return verified
        guards: dict[TopicPartition, VerificationGuard] = {}
        for partition, sequence in membership.sequences.items():
            try:
                log = self._replicas.partition(partition).leading_log()
                guard = log.start_verification(*_place(membership.producer, sequence), supports_epoch_bump=adds)
            except TidelogError as error:
                verified[partition] = Verified(error=error_code_of(error))
            else:
                if guard != NO_GUARD:
                    guards[partition] = guard
        if guards:
            for partition, code in (await self._coordinator_errors(membership, guards)).items():
                verified[partition] = Verified(guards[partition], _client_error(code, membership.operation))
        return verified

    async def _coordinator_errors(
        self, membership: Membership, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        give_up_ms = self._timers.monotonic_ms() + self._settings.add_retry_max_ms
        while True:
            errors = await self._coordinator.partition_errors(membership, partitions)
            is_busy = membership.operation is Operation.ADD and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
            if not is_busy or self._timers.monotonic_ms() >= give_up_ms:
                return errors
            await pause(self._timers, self._settings.add_retry_ms)


def produce_error(error: ErrorCode, operation: Operation) -> ApiError:
    """Return the error for a producer. Retriable errors become NOT_ENOUGH_REPLICAS, which every producer retries."""
    waits = error in _NOT_VERIFIED or (error is ErrorCode.CONCURRENT_TRANSACTIONS and operation is not Operation.ADD)
    if waits:
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}",
        )
    if error is ErrorCode.INVALID_TXN_STATE:
        return ApiError(error, "Partition was not added to the transaction")
    return ApiError(error)


def _client_error(error: ErrorCode, operation: Operation) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and operation is Operation.CHECK:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _place(producer: ProducerIdAndEpoch, sequence: int) -> tuple[int, int, int]:
    return producer.producer_id, sequence, producer.producer_epoch
