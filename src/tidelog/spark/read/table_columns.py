"""The tables of ``format("tidelog")`` as names and kinds of columns.

``records`` has the columns of Spark's Kafka source in the same sequence, all nullable. A kind is a word of ``schema``,
which makes Arrow's and Spark's types of it. This module imports neither, so that the planner's process starts quickly.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple


class Mode(enum.StrEnum):
    """The table over the storage that a read returns."""

    RECORDS = "records"
    BATCHES = "batches"
    SEGMENTS = "segments"
    INDEX = "index"
    PRODUCERS = "producers"
    TRANSACTIONS = "transactions"
    GROUPS = "groups"

    @property
    def is_made_by_partition(self) -> bool:
        """True if a row needs its whole partition, so that a partition is never split."""
        return self in _BY_PARTITION


_BY_PARTITION = frozenset({Mode.INDEX, Mode.PRODUCERS, Mode.TRANSACTIONS, Mode.GROUPS})


class Column(NamedTuple):
    name: str
    kind: str


Columns = tuple[Column, ...]


def _columns(text: str) -> Columns:
    """Return the columns of a list of names with kinds."""
    return tuple(Column(*part.split()) for part in text.split(","))


_KAFKA_SOURCE = _columns(
    """
    key binary, value binary, topic string, partition int32, offset int64, timestamp timestamp, timestampType int32
    """
)
_HEADERS = _columns("headers headers")
_BATCH_METADATA = _columns(
    """
    batchBaseOffset int64, leaderEpoch int32, producerId int64, producerEpoch int32, baseSequence int32,
    isTransactional bool, isControl bool, compression string
    """
)
_CORRUPT = _columns("corrupt string")

BATCHES = _columns(
    """
    topic string, partition int32, segmentBaseOffset int64, position int64, sizeBytes int32,
    baseOffset int64, lastOffset int64, recordCount int32, magic int32, baseTimestamp timestamp,
    maxTimestamp timestamp, timestampType int32, compression string, leaderEpoch int32,
    producerId int64, producerEpoch int32, baseSequence int32, isTransactional bool, isControl bool,
    crcOk bool, logDir string
    """
)

SEGMENTS = _columns(
    """
    topic string, partition int32, baseOffset int64, sizeBytes int64, indexBytes int64,
    timeIndexBytes int64, txnIndexBytes int64, modified timestamp, logStartOffset int64,
    isActive bool, logDir string
    """
)

INDEX = _columns(
    """
    topic string, partition int32, segmentBaseOffset int64, kind string, entry int32, offset int64,
    position int64, timestamp timestamp, producerId int64, firstOffset int64, lastOffset int64,
    lastStableOffset int64, logDir string
    """
)

PRODUCERS = _columns(
    """
    topic string, partition int32, producerId int64, producerEpoch int32, coordinatorEpoch int32,
    lastSequence int32, lastOffset int64, lastTimestamp timestamp, transactionStartOffset int64,
    logDir string
    """
)

TRANSACTIONS = _columns(
    """
    topic string, partition int32, producerId int64, producerEpoch int32, coordinatorEpoch int32,
    startOffset int64, startTimestamp timestamp, lastOffset int64, lastTimestamp timestamp,
    recordCount int64, sizeBytes int64, heldBackRecords int64, heldBackOffsets int64,
    heldBackBytes int64, logStartOffset int64, lastStableOffset int64, highWatermark int64,
    logEndOffset int64, transactionalId string, state string, timeoutMs int32, verdict string,
    reason string, logDir string
    """
)

GROUPS = _columns(
    """
    group string, topic string, partition int32, offset int64, leaderEpoch int32, metadata string,
    commitTimestamp timestamp, sourcePartition int32, sourceOffset int64, logDir string
    """
)

TABLES = {
    Mode.BATCHES: BATCHES,
    Mode.SEGMENTS: SEGMENTS,
    Mode.INDEX: INDEX,
    Mode.PRODUCERS: PRODUCERS,
    Mode.TRANSACTIONS: TRANSACTIONS,
    Mode.GROUPS: GROUPS,
}
"""The tables over the storage. The records table depends on more options."""

_NOTHING_TO_DAMAGE = frozenset({Mode.SEGMENTS})
"""Tables made of names and sizes alone."""


def _every(mode: Mode) -> Columns:
    if mode is Mode.RECORDS:
        return (*_KAFKA_SOURCE, *_HEADERS, *_BATCH_METADATA, *_CORRUPT)
    return TABLES[mode] if mode in _NOTHING_TO_DAMAGE else (*TABLES[mode], *_CORRUPT)


def columns_of(mode: Mode) -> tuple[str, ...]:
    """Return every column that a table can have, with the columns that options add."""
    return tuple(column.name for column in _every(mode))


def wanted_columns(
    mode: Mode,
    *,
    columns: Sequence[str] | None = None,
    headers: bool = False,
    batch_metadata: bool = False,
    reports_damage: bool = False,
) -> Columns:
    """Return the columns that a read asks for. If the read reports damage, it always has the column ``corrupt``."""
    if columns is not None:
        every = {column.name: column for column in _every(mode)}
        chosen = tuple(every[name] for name in columns)
    elif mode is Mode.RECORDS:
        chosen = _KAFKA_SOURCE + (_HEADERS if headers else ()) + (_BATCH_METADATA if batch_metadata else ())
    else:
        chosen = TABLES[mode]
    reports = reports_damage and mode not in _NOTHING_TO_DAMAGE and _CORRUPT[0] not in chosen
    return chosen + _CORRUPT if reports else chosen
