"""``__transaction_state`` for its coordinator: appends to a partition, and reads it from its start.

A failed append raises a coordinator's error code (``coordinator_log``). A new leader may have records that no other
replica has. If its coordinator acted on them and the broker failed, the next leader would know nothing of it: one
transaction could get both kinds of markers. So a load ends once the high watermark has reached the log end of its
begin. Kafka does not wait.

Thread rule: the event loop only; reading and decoding run in a background thread.
Source: Kafka's ``TransactionStateManager`` (``appendTransactionToLog``, ``loadTransactionMetadata``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from tidelog.model import Record, TidelogError, TimestampType, TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE_TOPIC
from tidelog.protocol.errors import ApiError, error_code_of
from tidelog.record.build import build_batch
from tidelog.record.internal_records.transaction_record import TransactionRecord, record_of, transactional_id_of
from tidelog.runtime.timers import Timers
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.purgatory import wait_until
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.topics.coordinator_log import LoggedRecord, apply_records, coordinator_code
from tidelog.server.transactions.settings import TransactionSettings
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.producer import AppendOrigin


class StateEntry(NamedTuple):
    """Key and value of a record. A value of None removes the transactional id."""

    key: bytes
    value: bytes | None


class StateLog(Protocol):
    async def append(self, partition: int, entries: Sequence[StateEntry]) -> None:
        """Append and wait for all in-sync replicas. Raise ApiError by the table of ``coordinator_log``."""
        ...

    async def load(self, partition: int) -> dict[str, TransactionRecord]:
        """Return the newest record of each transactional id, once all of them are replicated. Raise TidelogError if
        the log cannot be read, or if this broker is no longer the leader."""
        ...


class ReplicatedStateLog:
    """The StateLog on this broker's replicas."""

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        timers: Timers,
        in_thread: Callable[..., Awaitable[dict[str, TransactionRecord]]],
        settings: TransactionSettings,
    ) -> None:
        self._replicas = replicas
        self._timers = timers
        self._in_thread = in_thread
        self._settings = settings

    async def append(self, partition: int, entries: Sequence[StateEntry]) -> None:
        now_ms = self._timers.now_ms()
        records = [
            Record(offset, now_ms, TimestampType.CREATE, entry.key, entry.value) for offset, entry in enumerate(entries)
        ]
        try:
            leader = self._replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, partition))
            appended = leader.append(build_batch(records), origin=AppendOrigin.COORDINATOR)
            await leader.replicated(appended.last_offset + 1, self._settings.append_timeout_ms)
        except TidelogError as error:
            raise ApiError(coordinator_code(error_code_of(error)), str(error)) from error

    async def load(self, partition: int) -> dict[str, TransactionRecord]:
        leader = self._replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, partition))
        log, end = leader.log, leader.log.end_offset
        if end == log.log_start_offset:
            return {}
        records = await self._in_thread(load_records, log, self._settings.load_buffer_bytes)
        while not _is_replicated(leader, end):
            await wait_until(partial(_is_decided, end=end), (leader,), self._timers, self._settings.append_timeout_ms)
        return records


def _is_replicated(leader: Partition, end: int) -> bool:
    """Return True if the high watermark has reached ``end``. Raise ApiError if this broker is not the leader."""
    return leader.leading_log().high_watermark >= end


def _is_decided(leader: Partition, *, end: int) -> bool:
    try:
        return _is_replicated(leader, end)
    except ApiError:
        return True


def load_records(log: PartitionLog, buffer_bytes: int) -> dict[str, TransactionRecord]:
    """Return the newest record of each transactional id up to the log end. Thread rule: any thread."""
    newest: dict[str, TransactionRecord] = {}

    def apply(found: LoggedRecord) -> bool:
        key, value = found.record.key, found.record.value
        transactional_id = None if key is None else transactional_id_of(key)
        if transactional_id is None:
            return False
        if value is None:
            newest.pop(transactional_id, None)
        else:
            newest[transactional_id] = record_of(value)
        return True

    apply_records(log, apply, chunk_bytes=buffer_bytes)
    return newest
