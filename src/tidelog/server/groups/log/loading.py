"""Loading of a shard's state from its partition of ``__consumer_offsets``, from log start to log end.

Records are applied in the sequence of the log. Records of a transaction are pending until its marker, and stay pending
if the marker is missing: the transaction coordinator will write it. An unreadable or unknown record is skipped with a
log message, so one bad record costs one key and not all groups of the partition. Memory is bounded by the live state
and one chunk. Loading runs in a background thread, on a shard that serves no requests yet, and stops between two chunks
if the partition was lost. Source: Kafka's ``CoordinatorLoaderImpl``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.model import TidelogError
from tidelog.record.control import ControlType, control_type
from tidelog.server.coordinator_log import LoggedRecord, read_records
from tidelog.server.groups.log.group_record import GroupRecord
from tidelog.server.groups.log.replay import Replay
from tidelog.storage.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)

_NO_PRODUCER = -1


def load_log(log: PartitionLog, replay: Replay, *, chunk_bytes: int, is_wanted: Callable[[], bool]) -> None:
    """Apply the log's records to the state. Raise TidelogError if the log cannot be read."""
    for found in read_records(log, chunk_bytes=chunk_bytes, is_wanted=is_wanted):
        _apply(log, replay, found)


def _apply(log: PartitionLog, replay: Replay, found: LoggedRecord) -> None:
    record, table, row = found
    producer_id = int(table.producer_id[row])
    try:
        if table.is_control[row]:
            type_ = control_type(record.key)
            if type_ in (ControlType.COMMIT, ControlType.ABORT):
                replay.end_transaction(producer_id, is_commit=type_ is ControlType.COMMIT)
            return
        read = None if record.key is None else GroupRecord.read(record.key, record.value)
        if read is None:
            _log.warning("%s: the record at offset %d has an unknown type", log.directory, record.offset)
        else:
            is_transactional = bool(table.is_transactional[row])
            replay.apply(read, record.offset, producer_id if is_transactional else _NO_PRODUCER)
    except TidelogError as error:
        _log.error("%s: skipped the record at offset %d: %s", log.directory, record.offset, error)
