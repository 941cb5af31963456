"""The partitions of ``__transaction_state`` that this broker leads, each with its transactional ids in memory.

States of a partition, for this broker:

=============  =============================================  ========================================================
state          begins with                                    a request for one of its transactional ids is answered
=============  =============================================  ========================================================
*another's*    the beginning; a resignation                   NOT_COORDINATOR
*loading*      an election                                    COORDINATOR_LOAD_IN_PROGRESS
*owned*        the end of its log, read                       from memory
=============  =============================================  ========================================================

A partition whose log cannot be read stays loading. Memory never runs ahead of the log: a transition is written and
replicated first, made after. Whoever waited for that while the partition was lost hears NOT_COORDINATOR: whether the
record stands is the next owner's to find out. A crash loses nothing but what was pending.
Called by: TransactionCoordinator, Completions, Expiry. Thread rule: the loop's.
Source: Kafka's ``TransactionStateManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.server.transactions.rules.state_records import key_of, value_of
from tidelog.server.transactions.rules.transaction import Transaction, TransactionRecord
from tidelog.server.transactions.state_log import StateEntry, StateLog
from tidelog.server.work import Spawn

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class OwnedPartition:
    """One partition, from an election to the resignation; ``epoch``: of the coordinator, that is of the leader."""

    number: int
    epoch: int
    transactions: dict[str, Transaction] = field(default_factory=dict)
    is_lost: bool = False
    """Resigned from: what is left in memory counts no more."""


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
        """``partition_of`` a transactional id; ``server_version``: the cluster's ``transaction.version``."""
        self.partition_of = partition_of
        self.server_version = server_version
        self.on_loaded: Callable[[OwnedPartition], None] = lambda _partition: None
        """Called when a partition is owned, before its first request."""
        self.loads = loads or SampledTimes()
        """How long it takes to load a partition."""
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
        """Nothing where the partition is another's."""
        for partition in (self._loading.pop(number, None), self._owned.pop(number, None)):
            if partition is not None:
                partition.is_lost = True

    def close(self) -> None:
        """Resign from all."""
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

    # --- asking ---

    def owner_of(self, transactional_id: str) -> OwnedPartition:
        """ApiError by the module's table."""
        number = self.partition_of(transactional_id)
        partition = self._owned.get(number)
        if partition is not None:
            return partition
        if number in self._loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {number} is being loaded")
        raise ApiError(ErrorCode.NOT_COORDINATOR, f"partition {number} has another coordinator")

    def find(self, transactional_id: str) -> tuple[OwnedPartition, Transaction | None]:
        """ApiError by the module's table."""
        partition = self.owner_of(transactional_id)
        return partition, partition.transactions.get(transactional_id)

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def __iter__(self) -> Iterator[OwnedPartition]:
        return iter(tuple(self._owned.values()))

    # --- writing ---

    async def write(self, partition: OwnedPartition, transaction: Transaction, following: TransactionRecord) -> None:
        """Make one transition. ApiError: it was not made, or this broker does not know."""
        transaction.begin(following)
        try:
            await self.write_pending(partition, transaction)
        except ApiError:
            if not partition.is_lost:
                transaction.give_up()
            raise

    async def write_pending(self, partition: OwnedPartition, transaction: Transaction) -> None:
        """Make the transition under way; after an ApiError it still is."""
        pending = transaction.pending
        assert pending is not None, transaction.transactional_id
        entry = StateEntry(key_of(transaction.transactional_id), value_of(pending, self.server_version()))
        await self._append(partition, [entry])
        transaction.finish()

    async def forget(self, partition: OwnedPartition, transactions: Collection[Transaction]) -> None:
        """Remove transactional ids that are pending to be Dead. ApiError: they are still there, and not pending."""
        try:
            await self._append(partition, [StateEntry(key_of(gone.transactional_id), None) for gone in transactions])
        except ApiError:
            for transaction in transactions:
                transaction.give_up()
            raise
        for transaction in transactions:
            del partition.transactions[transaction.transactional_id]

    async def _append(self, partition: OwnedPartition, entries: list[StateEntry]) -> None:
        if not partition.is_lost:
            await self._log.append(partition.number, entries)
        if partition.is_lost:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"partition {partition.number} has another coordinator by now")
