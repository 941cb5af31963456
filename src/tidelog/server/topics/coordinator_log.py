"""Shared code for the logs of both coordinators: errors of appends, and a full scan of a partition.

A failed append gives the client this error:

===================================================================  =================================================
error of the partition                                               error for the client
===================================================================  =================================================
UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS,                     COORDINATOR_NOT_AVAILABLE: retry
NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT
NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR                          NOT_COORDINATOR: find the new coordinator
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_FETCH_SIZE         UNKNOWN_SERVER_ERROR
NETWORK_EXCEPTION (from the verification of KIP-890)                 COORDINATOR_LOAD_IN_PROGRESS: retry here
any other                                                            unchanged
===================================================================  =================================================

Thread rule: any thread. Source: Kafka's ``CoordinatorOperationExceptionHelper``, ``CoordinatorLoaderImpl``,
``TransactionStateManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidelog.kernel import BatchTable, ColumnDecoder
from tidelog.model import Record, TidelogError
from tidelog.protocol.errors import ErrorCode
from tidelog.record.decode import decode_columns, iter_records
from tidelog.storage.log.partition_log import PartitionLog

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
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def coordinator_code(code: ErrorCode) -> ErrorCode:
    """Map the error of an append to the client's error, by the module's table."""
    return _COORDINATOR_CODES.get(code, code)


class LoggedRecord(NamedTuple):
    """A record of a coordinator's log. ``row`` is its batch's row in ``table``."""

    record: Record
    table: BatchTable
    row: int


def apply_records(
    log: PartitionLog,
    apply: Callable[[LoggedRecord], bool],
    *,
    chunk_bytes: int,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Pass all records of a log up to its current end to ``apply``, including those of control batches.

    ``apply`` returns False for a record of an unknown type. These records are skipped with a log message, and so are
    records that it cannot decode: one bad record costs one key, and not the whole partition. Stop if ``is_wanted``,
    checked for each chunk, returns False. Raise TidelogError if the log cannot be read.
    """
    for found in _records(log, chunk_bytes, is_wanted):
        try:
            if not apply(found):
                _log.warning("%s: the record at offset %d has an unknown type", log.directory, found.record.offset)
        except TidelogError as error:
            _log.error("%s: skipped the record at offset %d: %s", log.directory, found.record.offset, error)


def _records(log: PartitionLog, chunk_bytes: int, is_wanted: Callable[[], bool]) -> Iterator[LoggedRecord]:
    start = log.log_start_offset
    for data, table in log.read_through(start, log.end_offset, chunk_bytes):
        if not is_wanted():
            return
        for columns in decode_columns(data, table, ColumnDecoder(headers=False)):
            assert columns.batch is not None
            for record, row in zip(iter_records(columns), columns.batch.tolist(), strict=True):
                if record.offset >= start:
                    yield LoggedRecord(record, table, row)
