"""What the logs of both coordinators have in common: how an append that failed is told, and reading a partition whole.

What an append fails with, in the words of a coordinator:

===================================================================  =================================================
the partition                                                        the client hears
===================================================================  =================================================
UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS,                     COORDINATOR_NOT_AVAILABLE: ask again
NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT
NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR                          NOT_COORDINATOR: find the new one
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_FETCH_SIZE         UNKNOWN_SERVER_ERROR
NETWORK_EXCEPTION (of a verification, KIP-890)                       COORDINATOR_LOAD_IN_PROGRESS: ask again here
another                                                              as it is
===================================================================  =================================================

Called by: groups, transactions. Thread rule: any thread.
Source: Kafka's ``CoordinatorOperationExceptionHelper``, ``CoordinatorLoaderImpl``, ``TransactionStateManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidelog.kernel import BatchTable, ColumnDecoder
from tidelog.model import Record
from tidelog.protocol.errors import ErrorCode
from tidelog.record.decode import decode_columns, iter_records
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.read_through import read_through

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
    """By the module's table."""
    return _COORDINATOR_CODES.get(code, code)


class LoggedRecord(NamedTuple):
    """``row``: of its batch in ``table``."""

    record: Record
    table: BatchTable
    row: int


def read_records(
    log: PartitionLog, *, chunk_bytes: int, is_wanted: Callable[[], bool] = lambda: True
) -> Iterator[LoggedRecord]:
    """All records of a log, those of control batches among them, up to where it ends now.

    ``is_wanted`` is asked with each chunk. TidelogError where the log cannot be read.
    """
    start = log.log_start_offset
    for data, table in read_through(log, start, log.end_offset, chunk_bytes):
        if not is_wanted():
            return
        for columns in decode_columns(data, table, ColumnDecoder(headers=False)):
            assert columns.batch is not None
            for record, row in zip(iter_records(columns), columns.batch.tolist(), strict=True):
                if record.offset >= start:
                    yield LoggedRecord(record, table, row)
