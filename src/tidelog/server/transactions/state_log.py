"""``__transaction_state`` as a coordinator sees it: records appended to a partition, a partition read from its start.

What an append fails with, in the words of a coordinator:

===================================================================  =================================================
the log                                                              the coordinator
===================================================================  =================================================
UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS,                     COORDINATOR_NOT_AVAILABLE: ask again
NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT
NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR                          NOT_COORDINATOR: find the new one
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE                             UNKNOWN_SERVER_ERROR
another                                                              as it is
===================================================================  =================================================

A record that cannot be read when a partition is loaded is passed over with a line in the log, so one bad record costs
one transactional id, not all of the partition.
Called by: OwnedPartitions. Thread rule: the loop's; reading and decoding run in a thread.
Source: Kafka's ``TransactionStateManager`` (``appendTransactionToLog``, ``loadTransactionMetadata``).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import Isolation, Record, TidelogError, TimestampType, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.record.build import build_batch
from tidelog.record.decode import decode_columns, iter_records
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.timers import Timers
from tidelog.server.topic_name import TRANSACTION_STATE_TOPIC
from tidelog.server.transactions.rules.state_records import record_of, transactional_id_of
from tidelog.server.transactions.rules.transaction import TransactionRecord
from tidelog.server.transactions.settings import TransactionSettings
from tidelog.storage.log.partition_log import PartitionLog, ReadLimits
from tidelog.storage.producer import AppendOrigin

_log = logging.getLogger(__name__)

_COORDINATOR_CODES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class StateEntry(NamedTuple):
    """Key and value of a record; no value: the transactional id is forgotten."""

    key: bytes
    value: bytes | None


class StateLog(Protocol):
    async def append(self, partition: int, entries: Sequence[StateEntry]) -> None:
        """Return when all in-sync replicas have them; ApiError by the module's table."""
        ...

    async def load(self, partition: int) -> dict[str, TransactionRecord]:
        """The newest record of each transactional id. TidelogError where the log cannot be read."""
        ...


class ReplicatedStateLog:
    """The StateLog over this broker's replicas."""

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
            code = error_code_of(error)
            raise ApiError(_COORDINATOR_CODES.get(code, code), str(error)) from error

    async def load(self, partition: int) -> dict[str, TransactionRecord]:
        log = self._replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, partition)).log
        if log.end_offset == log.log_start_offset:
            return {}
        return await self._in_thread(load_records, log, self._settings.load_buffer_bytes)


def load_records(log: PartitionLog, buffer_bytes: int) -> dict[str, TransactionRecord]:
    """The newest record of each transactional id up to the log's end; any thread."""
    newest: dict[str, TransactionRecord] = {}
    for record in _records(log, buffer_bytes):
        try:
            transactional_id = None if record.key is None else transactional_id_of(record.key)
            if transactional_id is None:
                _log.warning("%s: a record of a type that is not known, at offset %d", log.directory, record.offset)
            elif record.value is None:
                newest.pop(transactional_id, None)
            else:
                newest[transactional_id] = record_of(record.value)
        except TidelogError as error:
            _log.error("%s: passed over the record at offset %d: %s", log.directory, record.offset, error)
    return newest


def _records(log: PartitionLog, buffer_bytes: int) -> Iterator[Record]:
    offset = log.log_start_offset
    while offset < log.end_offset:
        limits = ReadLimits(start_offset=offset, max_bytes=buffer_bytes, isolation=Isolation.LOG_END)
        data = log.read(limits).data()
        table = scan_batches(data)
        if not len(table):
            return
        for columns in decode_columns(data, table, ColumnDecoder(headers=False)):
            yield from (record for record in iter_records(columns) if record.offset >= offset)
        offset = int(table.last_offset[-1]) + 1
