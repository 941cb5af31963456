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

_KAFKA_SOURCE = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
)
_HEADERS = (pa.field("headers", HEADERS),)
_BATCH_METADATA = (
    pa.field("batchBaseOffset", pa.int64()),
    pa.field("leaderEpoch", pa.int32()),
    pa.field("producerId", pa.int64()),
    pa.field("producerEpoch", pa.int32()),
    pa.field("baseSequence", pa.int32()),
    pa.field("isTransactional", pa.bool_()),
    pa.field("isControl", pa.bool_()),
    pa.field("compression", pa.string()),
)
_CORRUPT = (pa.field("corrupt", pa.string()),)

BATCHES = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("segmentBaseOffset", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("sizeBytes", pa.int32()),
        pa.field("baseOffset", pa.int64()),
        pa.field("lastOffset", pa.int64()),
        pa.field("recordCount", pa.int32()),
        pa.field("magic", pa.int32()),
        pa.field("baseTimestamp", pa.timestamp("us", tz="UTC")),
        pa.field("maxTimestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("compression", pa.string()),
        pa.field("leaderEpoch", pa.int32()),
        pa.field("producerId", pa.int64()),
        pa.field("producerEpoch", pa.int32()),
        pa.field("baseSequence", pa.int32()),
        pa.field("isTransactional", pa.bool_()),
        pa.field("isControl", pa.bool_()),
        pa.field("crcOk", pa.bool_()),
        pa.field("logDir", pa.string()),
    ]
)

SEGMENTS = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("baseOffset", pa.int64()),
        pa.field("sizeBytes", pa.int64()),
        pa.field("indexBytes", pa.int64()),
        pa.field("timeIndexBytes", pa.int64()),
        pa.field("txnIndexBytes", pa.int64()),
        pa.field("modified", pa.timestamp("us", tz="UTC")),
        pa.field("logStartOffset", pa.int64()),
        pa.field("isActive", pa.bool_()),
        pa.field("logDir", pa.string()),
    ]
)

INDEX = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("segmentBaseOffset", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("entry", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("producerId", pa.int64()),
        pa.field("firstOffset", pa.int64()),
        pa.field("lastOffset", pa.int64()),
        pa.field("lastStableOffset", pa.int64()),
        pa.field("logDir", pa.string()),
    ]
)

PRODUCERS = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("producerId", pa.int64()),
        pa.field("producerEpoch", pa.int32()),
        pa.field("coordinatorEpoch", pa.int32()),
        pa.field("lastSequence", pa.int32()),
        pa.field("lastOffset", pa.int64()),
        pa.field("lastTimestamp", pa.timestamp("us", tz="UTC")),
        pa.field("transactionStartOffset", pa.int64()),
        pa.field("logDir", pa.string()),
    ]
)

TRANSACTIONS = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("producerId", pa.int64()),
        pa.field("producerEpoch", pa.int32()),
        pa.field("coordinatorEpoch", pa.int32()),
        pa.field("startOffset", pa.int64()),
        pa.field("startTimestamp", pa.timestamp("us", tz="UTC")),
        pa.field("lastOffset", pa.int64()),
        pa.field("lastTimestamp", pa.timestamp("us", tz="UTC")),
        pa.field("recordCount", pa.int64()),
        pa.field("sizeBytes", pa.int64()),
        pa.field("heldBackRecords", pa.int64()),
        pa.field("heldBackOffsets", pa.int64()),
        pa.field("heldBackBytes", pa.int64()),
        pa.field("logStartOffset", pa.int64()),
        pa.field("lastStableOffset", pa.int64()),
        pa.field("highWatermark", pa.int64()),
        pa.field("logEndOffset", pa.int64()),
        pa.field("transactionalId", pa.string()),
        pa.field("state", pa.string()),
        pa.field("timeoutMs", pa.int32()),
        pa.field("verdict", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("logDir", pa.string()),
    ]
)

GROUPS = pa.schema(
    [
        pa.field("group", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("leaderEpoch", pa.int32()),
        pa.field("metadata", pa.string()),
        pa.field("commitTimestamp", pa.timestamp("us", tz="UTC")),
        pa.field("sourcePartition", pa.int32()),
        pa.field("sourceOffset", pa.int64()),
        pa.field("logDir", pa.string()),
    ]
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
