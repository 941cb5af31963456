"""The partitions of ``__transaction_state`` that this broker leads, with their ids in memory.

States of a partition, for this broker:

=============  =============================================  ========================================================
state          begins with                                    a request for one of its transactional ids
=============  =============================================  ========================================================
*another's*    the start of the broker; a resignation         fails with NOT_COORDINATOR
*loading*      an election                                    fails with COORDINATOR_LOAD_IN_PROGRESS
*owned*        the complete read of its log                   is served from memory
=============  =============================================  ========================================================

A partition whose log cannot be read stays loading. Memory is never ahead of the log: a transition is first written and
replicated, then applied. If the partition is lost meanwhile, the request fails with NOT_COORDINATOR, and the next owner
finds out whether the record stands. A crash loses only pending transitions. Thread rule: the event loop only.
Source: Kafka's ``TransactionStateManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import TransactionRecord, key_of, value_of
from tidelog.runtime.executor import Spawn
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.state_log import StateEntry, StateLog

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class OwnedPartition:
    """A partition, from an election to the resignation. ``epoch`` is the coordinator's, the leader epoch."""

    number: int
    epoch: int
    transactions: dict[str, Transaction] = field(default_factory=dict)
    is_lost: bool = False
    """True after the resignation. The state in memory is then invalid."""


class OwnedPartitions:
    def __init__(
        self,
        log: StateLog,
        *,
        partition_of: Callable[[str], int],
        server_version: Callable[[], int],
        spawn: Spawn,
        loads: SampledTimes | None = None,
    ) -> None:
        """Callable ``partition_of`` maps a transactional id, ``server_version`` returns ``transaction.version``."""
        self.partition_of = partition_of
        self.server_version = server_version
        self.on_loaded: Callable[[OwnedPartition], None]
        """Callback for a loaded partition, before its first request. The coordinator sets it."""
        self.on_lost: Callable[[OwnedPartition], None] = lambda _partition: None
        """Callback after a resignation."""
        self.loads = loads or SampledTimes()
        """The load times of partitions."""
        self._log = log
        self._spawn = spawn
        self._loading: dict[int, OwnedPartition] = {}
        self._owned: dict[int, OwnedPartition] = {}

    # --- elections ---

    def elected(self, number: int, epoch: int) -> None:
        self.resigned(number)
        partition = self._loading[number] = OwnedPartition(number=number, epoch=epoch)
        self._spawn(self._load(partition))

    def resigned(self, number: int) -> None:
        """Drop a partition that this broker no longer leads. No-op if it is not loaded or loading here."""
        for partition in (self._loading.pop(number, None), self._owned.pop(number, None)):
            if partition is not None:
                partition.is_lost = True
                self.on_lost(partition)

    def close(self) -> None:
        """Resign from all partitions."""
        for number in [*self._loading, *self._owned]:
            self.resigned(number)

    async def _load(self, partition: OwnedPartition) -> None:
        try:
            with self.loads.measured():
                records = await self._log.load(partition.number)
        except TidelogError as error:
            _log.error("Partition %d of the transaction state cannot be loaded: %s", partition.number, error)
            return
        if partition.is_lost:
            return
        for name, record in records.items():
            partition.transactions[name] = Transaction(transactional_id=name, record=record)
        self._owned[partition.number] = self._loading.pop(partition.number)
        _log.info(
            "Loaded %d transactional ids of partition %d at epoch %d", len(records), partition.number, partition.epoch
        )
        self.on_loaded(partition)

    # --- lookups ---

    def owner_of(self, transactional_id: str) -> OwnedPartition:
        """Return the id's partition. Raise ApiError by the module's table."""
        number = self.partition_of(transactional_id)
        partition = self._owned.get(number)
        if partition is not None:
            return partition
        if number in self._loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {number} is loading")
        raise ApiError(ErrorCode.NOT_COORDINATOR, f"partition {number} has another coordinator")

    def find(self, transactional_id: str) -> tuple[OwnedPartition, Transaction | None]:
        """Return the id's partition and transaction. Raise ApiError by the module's table."""
        partition = self.owner_of(transactional_id)
        return partition, partition.transactions.get(transactional_id)

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def __iter__(self) -> Iterator[OwnedPartition]:
        return iter(tuple(self._owned.values()))

    # --- writing ---

    async def write(self, partition: OwnedPartition, transaction: Transaction, next_record: TransactionRecord) -> None:
        """Make one transition. Raise ApiError if it was not made, or if its fate is unknown."""
        transaction.begin(next_record)
        try:
            await self.write_pending(partition, transaction)
        except ApiError:
            if not partition.is_lost:
                transaction.discard_pending()
            raise

    async def write_pending(self, partition: OwnedPartition, transaction: Transaction) -> None:
        """Write and apply the pending transition. It stays pending if an ApiError is raised."""
        pending = transaction.pending
        assert pending is not None, transaction.transactional_id
        entry = StateEntry(key_of(transaction.transactional_id), value_of(pending, self.server_version()))
        await self._append(partition, [entry])
        transaction.finish()

    async def remove(self, partition: OwnedPartition, transactions: Collection[Transaction]) -> None:
        """Remove ids with a pending Dead state. If an ApiError is raised, they stay, and are no longer pending."""
        try:
            await self._append(partition, [StateEntry(key_of(gone.transactional_id), None) for gone in transactions])
        except ApiError:
            for transaction in transactions:
                transaction.discard_pending()
            raise
        for transaction in transactions:
            del partition.transactions[transaction.transactional_id]

    async def _append(self, partition: OwnedPartition, entries: list[StateEntry]) -> None:
        if not partition.is_lost:
            await self._log.append(partition.number, entries)
        if partition.is_lost:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"partition {partition.number} has another coordinator now")
