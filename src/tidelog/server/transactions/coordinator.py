"""The transaction coordinator: the operations for handlers, Produce and groups, and background work.

A transactional id belongs to a partition of ``__transaction_state``, and so to its leader. Every operation takes the
same steps. The rules (``rules/``) decide from memory, the decision is written to the log and replicated, memory
follows, and the client gets its response. After the end of a transaction, ``completions`` sends the markers. While a
transition of an id is pending, the next one is refused, so nothing is decided twice. Different ids do not wait for each
other.

A crash changes no decision: decisions in the log stand and are completed, and no client got a response to any other.
The broker starts the coordinator after replicas and metadata, and stops it before them. Thread rule: the event loop
only. Source: Kafka's ``TransactionCoordinator`` (4.1; KIP-98, KIP-360, KIP-664, KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch, TransactionState
from tidelog.runtime.executor import ShieldedTasks, Spawn
from tidelog.runtime.metrics import Sample
from tidelog.runtime.timers import Timers
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.transactions.completions import Completions
from tidelog.server.transactions.coordinator_channels import CoordinatorChannels, CoordinatorLookup
from tidelog.server.transactions.expiry import Expiry
from tidelog.server.transactions.listing import (
    ListedTransaction,
    TransactionFilter,
    VisibleTransactions,
    is_being_removed,
    select,
)
from tidelog.server.transactions.markers import Marker, MarkerWriter
from tidelog.server.transactions.owned_partitions import OwnedPartition, OwnedPartitions
from tidelog.server.transactions.producer_ids import ProducerIds
from tidelog.server.transactions.rules.ending import Ending, end, fence
from tidelog.server.transactions.rules.initialization import Initialization, initialize
from tidelog.server.transactions.rules.membership import add, missing
from tidelog.server.transactions.rules.transaction import EPOCH_BUMP_VERSION, Transaction
from tidelog.server.transactions.rules.transitions import first_record
from tidelog.server.transactions.settings import TransactionSettings
from tidelog.server.transactions.transaction_metrics import transaction_samples
from tidelog.server.transactions.verification import Membership, Operation, Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorParts:
    """The parts of a coordinator."""

    partitions: OwnedPartitions
    completions: Completions
    markers: MarkerWriter
    producer_ids: ProducerIds
    replicas: ReplicaManager
    lookup: CoordinatorLookup
    is_verification_enabled: Callable[[], bool]
    settings: TransactionSettings
    timers: Timers
    spawn: Spawn


class TransactionCoordinator:
    def __init__(self, parts: CoordinatorParts) -> None:
        self._partitions = parts.partitions
        self._completions = parts.completions
        self._producer_ids = parts.producer_ids
        self._settings = parts.settings
        self._timers = parts.timers
        self._expiry = Expiry(
            parts.partitions, self._abort, timers=parts.timers, spawn=parts.spawn, settings=parts.settings
        )
        self._operations = ShieldedTasks()
        self._markers = parts.markers
        self._is_active = False
        self._channels = CoordinatorChannels(self, parts.lookup, timers=parts.timers, spawn=parts.spawn)
        self.verification = Verification(
            self._channels,
            parts.replicas,
            timers=parts.timers,
            settings=parts.settings,
            is_enabled=parts.is_verification_enabled,
        )
        """The check before records of a transaction are appended. See ``verification``."""
        self.elected = parts.partitions.elected
        """Callback for an election of this broker, with partition number and leader epoch."""
        self.resigned = parts.partitions.resigned
        """Callback with the number of a partition that this broker no longer leads."""
        self.partition_of = parts.partitions.partition_of
        """The partition of ``__transaction_state`` that a transactional id belongs to."""
        parts.partitions.on_loaded = parts.completions.resume_prepared
        parts.partitions.on_lost = parts.completions.cancel

    def start(self) -> None:
        self._expiry.start()
        self._is_active = True

    def stop(self) -> None:
        self._is_active = False
        self._expiry.stop()
        self._operations.cancel()
        self._partitions.close()

    def samples(self) -> Iterator[Sample]:
        """Return the coordinator's metrics. Thread rule: any thread."""
        yield from transaction_samples(self._partitions.loads, self._completions)
        yield from self._channels.meters.samples()

    # --- producers ---

    async def new_producer_id(self) -> int:
        """Return a producer id for an idempotent producer without transactions."""
        await self._producer_ids.ready()
        return self._producer_ids.take()

    async def initialize(self, transactional_id: str, request: Initialization) -> ProducerIdAndEpoch:
        """Handle InitProducerId: return the producer id and the epoch that fences earlier producers. Raise ApiError."""
        _require_name(transactional_id)
        if not 0 < request.timeout_ms <= self._settings.max_timeout_ms:
            raise ApiError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"the timeout is {request.timeout_ms} ms; it must be 1 to {self._settings.max_timeout_ms} ms",
            )
        return await self._operations.run_to_end(self._initialize(transactional_id, request))

    async def _initialize(self, transactional_id: str, request: Initialization) -> ProducerIdAndEpoch:
        await self._producer_ids.ready()
        partition = self._partitions.owner_of(transactional_id)
        transaction = partition.transactions.get(transactional_id) or self._new(partition, transactional_id, request)
        next_record = initialize(
            transaction, request, now_ms=self._timers.now_ms(), new_producer_id=self._producer_ids.take
        )
        if next_record is None:
            await self._abort(partition, transaction)
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "the open transaction was aborted; retry")
        await self._partitions.write(partition, transaction, next_record)
        return transaction.record.producer

    def _new(self, partition: OwnedPartition, transactional_id: str, request: Initialization) -> Transaction:
        record = first_record(self._producer_ids.take(), timeout_ms=request.timeout_ms, now_ms=self._timers.now_ms())
        transaction = Transaction(transactional_id=transactional_id, record=record)
        partition.transactions[transactional_id] = transaction
        return transaction

    # --- partitions ---

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
    ) -> None:
        """Handle AddPartitionsToTxn and AddOffsetsToTxn. Raise ApiError if refused or not written."""
        partition, transaction = self._require(transactional_id)
        next_record = add(
            transaction, producer, partitions, client_version=client_version, now_ms=self._timers.now_ms()
        )
        if next_record is not None:
            await self._operations.run_to_end(self._partitions.write(partition, transaction, next_record))

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for partitions in the transaction, TRANSACTION_ABORTABLE for others. Raise ApiError."""
        _, transaction = self._require(transactional_id)
        absent = missing(transaction, producer, partitions)
        return {name: ErrorCode.TRANSACTION_ABORTABLE if name in absent else ErrorCode.NONE for name in partitions}

    async def partition_errors(
        self, membership: Membership, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Implement ``verification.Coordinator`` for the transactional ids of this broker."""
        name, producer = membership.transactional_id, membership.producer
        try:
            if membership.operation is not Operation.ADD:
                return self.verify_partitions(name, producer, partitions)
            await self.add_partitions(name, producer, partitions, client_version=EPOCH_BUMP_VERSION)
        except ApiError as error:
            code = error_code_of(error)
            if code is ErrorCode.NOT_COORDINATOR:  # its partition moves away at this moment
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return dict.fromkeys(partitions, code)
        return dict.fromkeys(partitions, ErrorCode.NONE)

    # --- ends ---

    async def end(self, transactional_id: str, request: Ending) -> ProducerIdAndEpoch:
        """Handle EndTxn: return the producer's id and epoch for its next transaction. Raise ApiError."""
        return await self._operations.run_to_end(self._end(transactional_id, request))

    async def _end(self, transactional_id: str, request: Ending) -> ProducerIdAndEpoch:
        await self._producer_ids.ready()
        partition, transaction = self._require(transactional_id)
        next_record = end(transaction, request, now_ms=self._timers.now_ms(), new_producer_id=self._producer_ids.take)
        if next_record is None:
            return transaction.record.producer
        await self._partitions.write(partition, transaction, next_record)
        return self._complete(partition, transaction)

    async def _abort(self, partition: OwnedPartition, transaction: Transaction) -> None:
        """Abort an ongoing transaction and fence its producer. Raise ApiError if that is not possible."""
        await self._producer_ids.ready()
        if transaction.pending is not None or transaction.record.state is not TransactionState.ONGOING:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "another transition is pending")
        next_record = fence(
            transaction,
            server_version=self._partitions.server_version(),
            now_ms=self._timers.now_ms(),
            new_producer_id=self._producer_ids.take,
        )
        try:
            await self._partitions.write(partition, transaction, next_record)
        except ApiError:
            transaction.has_failed_fence = True
            raise
        self._complete(partition, transaction)

    def _complete(self, partition: OwnedPartition, transaction: Transaction) -> ProducerIdAndEpoch:
        """Start to write the markers. Return the producer after the completion."""
        self._completions.start(partition, transaction)
        assert transaction.pending is not None
        return transaction.pending.producer

    async def write_markers(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Handle WriteTxnMarkers: end any coordinator's transaction in partitions of this broker."""
        return await self._operations.run_to_end(self._markers.write(marker, partitions))

    # --- descriptions ---

    def describe(self, transactional_id: str) -> ListedTransaction:
        """Return a transaction. Raise ApiError, for example TRANSACTIONAL_ID_NOT_FOUND."""
        self._require_active()
        _require_name(transactional_id)
        _, transaction = self._partitions.find(transactional_id)
        if transaction is None or is_being_removed(transaction):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"transactional id {transactional_id!r} is unknown")
        return ListedTransaction(transactional_id, transaction.record)

    def select(self, wanted: TransactionFilter, visible: VisibleTransactions) -> Iterator[ListedTransaction]:
        """Yield this broker's matching transactions. Raise ApiError while one of its partitions is loading."""
        self._require_active()
        if self._partitions.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a partition is loading")
        known = (transaction for partition in self._partitions for transaction in partition.transactions.values())
        return select(known, wanted, visible, now_ms=self._timers.now_ms())

    # --- inside ---

    def _require(self, transactional_id: str) -> tuple[OwnedPartition, Transaction]:
        _require_name(transactional_id)
        partition, transaction = self._partitions.find(transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"transactional id {transactional_id!r} is unknown")
        return partition, transaction

    def _require_active(self) -> None:
        if not self._is_active:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not running")


def _require_name(transactional_id: str) -> None:
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
