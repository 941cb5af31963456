"""The tables of ``format("tidelog")``: column names and types, for Spark and for Arrow.

``records`` has the columns of Spark's Kafka source in the same sequence, all nullable. The Arrow schema of a reader's
batches must match the declared schema exactly. So each table is defined once, as Arrow, and Spark's form is derived.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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

HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": HEADERS,
}


def _columns(text: str) -> tuple[pa.Field, ...]:
    """Return the columns of a list of names with types."""
    return tuple(pa.field(name, _TYPES[kind]) for name, kind in map(str.split, text.split(",")))


def _table(text: str) -> pa.Schema:
    return pa.schema(_columns(text))


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

BATCHES = _table(
    """
    topic string, partition int32, segmentBaseOffset int64, position int64, sizeBytes int32,
    baseOffset int64, lastOffset int64, recordCount int32, magic int32, baseTimestamp timestamp,
    maxTimestamp timestamp, timestampType int32, compression string, leaderEpoch int32,
    producerId int64, producerEpoch int32, baseSequence int32, isTransactional bool, isControl bool,
    crcOk bool, logDir string
    """
)

SEGMENTS = _table(
    """
    topic string, partition int32, baseOffset int64, sizeBytes int64, indexBytes int64,
    timeIndexBytes int64, txnIndexBytes int64, modified timestamp, logStartOffset int64,
    isActive bool, logDir string
    """
)

INDEX = _table(
    """
    topic string, partition int32, segmentBaseOffset int64, kind string, entry int32, offset int64,
    position int64, timestamp timestamp, producerId int64, firstOffset int64, lastOffset int64,
    lastStableOffset int64, logDir string
    """
)

PRODUCERS = _table(
    """
    topic string, partition int32, producerId int64, producerEpoch int32, coordinatorEpoch int32,
    lastSequence int32, lastOffset int64, lastTimestamp timestamp, transactionStartOffset int64,
    logDir string
    """
)

TRANSACTIONS = _table(
    """
    topic string, partition int32, producerId int64, producerEpoch int32, coordinatorEpoch int32,
    startOffset int64, startTimestamp timestamp, lastOffset int64, lastTimestamp timestamp,
    recordCount int64, sizeBytes int64, heldBackRecords int64, heldBackOffsets int64,
    heldBackBytes int64, logStartOffset int64, lastStableOffset int64, highWatermark int64,
    logEndOffset int64, transactionalId string, state string, timeoutMs int32, verdict string,
    reason string, logDir string
    """
)

GROUPS = _table(
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


def _every(mode: Mode) -> tuple[pa.Field, ...]:
    if mode is Mode.RECORDS:
        return (*_KAFKA_SOURCE, *_HEADERS, *_BATCH_METADATA, *_CORRUPT)
    return tuple(TABLES[mode]) if mode in _NOTHING_TO_DAMAGE else (*TABLES[mode], *_CORRUPT)


def columns_of(mode: Mode) -> tuple[str, ...]:
    """Return every column that a table can have, with the columns that options add."""
    return tuple(field.name for field in _every(mode))


def table_schema(
    mode: Mode,
    *,
    columns: Sequence[str] | None = None,
    headers: bool = False,
    batch_metadata: bool = False,
    reports_damage: bool = False,
) -> pa.Schema:
    """Return the schema that a read asks for. If the read reports damage, it always has the column ``corrupt``."""
    if columns is not None:
        every = {field.name: field for field in _every(mode)}
        fields = [every[name] for name in columns]
    elif mode is Mode.RECORDS:
        fields = list(_KAFKA_SOURCE)
        fields += _HEADERS if headers else ()
        fields += _BATCH_METADATA if batch_metadata else ()
    else:
        fields = list(TABLES[mode])
    if reports_damage and mode not in _NOTHING_TO_DAMAGE and _CORRUPT[0] not in fields:
        fields += _CORRUPT
    return pa.schema(fields)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the same table in Spark's types."""
    from pyspark.sql import types as spark

    simple = {
        pa.binary(): spark.BinaryType(),
        pa.string(): spark.StringType(),
        pa.int32(): spark.IntegerType(),
        pa.int64(): spark.LongType(),
        pa.bool_(): spark.BooleanType(),
        pa.timestamp("us", tz="UTC"): spark.TimestampType(),
        HEADERS: spark.ArrayType(
            spark.StructType(
                [spark.StructField("key", spark.StringType()), spark.StructField("value", spark.BinaryType())]
            )
        ),
    }
    return spark.StructType([spark.StructField(field.name, simple[field.type], nullable=True) for field in schema])
