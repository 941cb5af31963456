"""The periodic expiry of open transactions and of unused transactional ids.

=====================================================================  =============================================
interval                                                               effect
=====================================================================  =============================================
``transaction.abort.timed.out.transaction.cleanup.interval.ms``        an Ongoing transaction older than its timeout
                                                                       is aborted at a new epoch, its producer fenced
``transaction.remove.expired.transaction.cleanup.interval.ms``         an id without an open transaction that was idle
                                                                       for ``transactional.id.expiration.ms`` is
                                                                       removed, and its last record deleted
=====================================================================  =============================================

An id with a pending transition waits for the next run. Thread rule: the event loop only.
Source: Kafka's ``TransactionCoordinator.abortTimedOutTransactions``,
``TransactionStateManager.removeExpiredTransactionalIds`` (KIP-98).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from tidelog.protocol.errors import ApiError
from tidelog.runtime.executor import Spawn
from tidelog.runtime.timers import TimerHandle, Timers
from tidelog.server.transactions.owned_partitions import OwnedPartition, OwnedPartitions
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import expire
from tidelog.server.transactions.settings import TransactionSettings

_log = logging.getLogger(__name__)

BATCH_BYTES: Final = 16_384
"""The maximum size in bytes of the transactional ids that are removed in one batch."""

Abort = Callable[[OwnedPartition, Transaction], Awaitable[None]]
"""A function that aborts an ongoing transaction and fences its producer."""


class Expiry:
    def __init__(
        self, partitions: OwnedPartitions, abort: Abort, *, timers: Timers, spawn: Spawn, settings: TransactionSettings
    ) -> None:
        self._partitions = partitions
        self._abort = abort
        self._timers = timers
        self._spawn = spawn
        self._settings = settings
        self._handles: dict[Callable[[], None], TimerHandle] = {}

    def start(self) -> None:
        self._every(self._settings.abort_interval_ms, self.abort_timed_out)
        self._every(self._settings.removal_interval_ms, self.remove_idle_ids)

    def stop(self) -> None:
        while self._handles:
            self._handles.popitem()[1].cancel()

    def _every(self, interval_ms: int, task: Callable[[], None]) -> None:
        def run() -> None:
            self._handles[task] = self._timers.call_later(interval_ms, run)
            task()

        self._handles[task] = self._timers.call_later(interval_ms, run)

    def abort_timed_out(self) -> None:
        now_ms = self._timers.now_ms()
        for partition in self._partitions:
            for transaction in partition.transactions.values():
                if transaction.pending is None and transaction.record.is_timed_out(now_ms):
                    self._spawn(self._time_out(partition, transaction))

    async def _time_out(self, partition: OwnedPartition, transaction: Transaction) -> None:
        try:
            await self._abort(partition, transaction)
        except ApiError as error:
            _log.info("The timed-out transaction of %s stays open: %s", transaction.transactional_id, error)
        else:
            _log.info("The transaction of %s was aborted: it timed out", transaction.transactional_id)

    def remove_idle_ids(self) -> None:
        newest_ms = self._timers.now_ms() - self._settings.id_expiration_ms
        for partition in self._partitions:
            idle = [one for one in partition.transactions.values() if _is_idle_since(one, newest_ms)]
            for batch in _batches(idle):
                for transaction in batch:
                    transaction.begin(expire(transaction.record))
                self._spawn(self._remove(partition, batch))

    async def _remove(self, partition: OwnedPartition, idle: list[Transaction]) -> None:
        try:
            await self._partitions.remove(partition, idle)
        except ApiError as error:
            _log.info("%d idle transactional ids could not be removed: %s", len(idle), error)


def _is_idle_since(transaction: Transaction, newest_ms: int) -> bool:
    record = transaction.record
    return transaction.pending is None and record.is_idle and record.last_update_ms <= newest_ms


def _batches(transactions: Iterable[Transaction]) -> Iterator[list[Transaction]]:
    batch: list[Transaction] = []
    size = 0
    for transaction in transactions:
        size += len(transaction.transactional_id.encode())
        if batch and size > BATCH_BYTES:
            yield batch
            batch, size = [], len(transaction.transactional_id.encode())
        batch.append(transaction)
    if batch:
        yield batch
