"""The ``records`` table: a piece's records as Arrow batches in the declared schema.

Key, value and headers go from the decoder's buffers to Arrow without a copy. Columns that are constant for a partition
are made once, and columns about a batch come from the batch table. With ``onCorrupt`` = ``report`` every damaged
stretch is a row between the records around it, from the piece that holds its first offset. Records that a broker
deleted since the planning are data loss: an error, or a warning in the worker's log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.record.arrow import header_lists, to_array
from tidelog.record.attributes import CODECS
from tidelog.spark.read.damage import DamageReport
from tidelog.spark.read.options import OnCorrupt, ReadOptions
from tidelog.spark.read.schema import HEADERS
from tidelog.spark.read.split import Piece
from tidelog.storage.log.view.column_stream import ColumnChoice, ColumnChunk, column_chunks
from tidelog.storage.log.view.row_stream import CorruptPolicy, ReadRange, Rows, RowStream

_log = logging.getLogger(__name__)

BATCH_BYTES = 8 * 1024 * 1024
"""Arrow batches of at most about this size balance Spark's transfer and its memory."""


def record_batches(
    piece: Piece, options: ReadOptions, schema: pa.Schema, min_timestamp_ms: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield a piece's records. Batches without a record at or after ``min_timestamp_ms`` are skipped undecoded."""
    wanted = ReadRange(start=piece.start, end=piece.end, aborted=piece.aborted, control=options.include_control_records)
    skip = options.on_corrupt is not OnCorrupt.FAIL
    report = DamageReport(piece, schema, is_enabled=options.on_corrupt is OnCorrupt.REPORT)
    stream = RowStream(
        piece,
        wanted,
        on_corrupt=CorruptPolicy.SKIP if skip else CorruptPolicy.FAIL,
        on_skipped=report.add,
        on_lost=None if options.fail_on_data_loss else _warn_of_loss,
        verify_crc=options.verify_checksums,
    )
    names = set(schema.names)
    choice = ColumnChoice(
        keys="key" in names, values="value" in names, headers="headers" in names, max_bytes=BATCH_BYTES
    )
    rows = iter(stream) if min_timestamp_ms is None else _recent(stream, min_timestamp_ms)
    shape = RecordShape(piece, schema)
    for chunk in column_chunks(rows, choice, piece.start, piece.end, on_skipped=report.add if skip else None):
        yield from report.drain()
        yield shape.batch(chunk)
    report.add_tail()
    yield from report.drain()


def _warn_of_loss(sentence: str) -> None:
    _log.warning("%s; reading what is there", sentence)


def _recent(rows: RowStream, min_timestamp_ms: int) -> Iterator[Rows]:
    for part in rows:
        recent = part.table.max_timestamp >= min_timestamp_ms
        if recent.all():
            yield part
        elif recent.any():
            yield part._replace(table=part.table.take(recent))


class RecordShape:
    """The conversion of decoded records to the declared columns."""

    def __init__(self, piece: Piece, schema: pa.Schema) -> None:
        self._schema = schema
        self._values = {
            "topic": pa.scalar(piece.partition.topic, pa.string()),
            "partition": pa.scalar(piece.partition.partition, pa.int32()),
            "corrupt": pa.scalar(None, pa.string()),
        }
        self._constants: dict[str, pa.Array] = {}

    def batch(self, chunk: ColumnChunk) -> pa.RecordBatch:
        arrays = [self._column(chunk, name) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, chunk: ColumnChunk, name: str) -> pa.Array:
        columns = chunk.columns
        match name:
            case "topic" | "partition" | "corrupt":
                return self._constant(name, len(columns))
            case "key" | "value" | "offset" | "timestamp":
                return to_array(columns, name, timestamps="us")
            case "timestampType":
                return pa.array(columns.timestamp_type.astype(np.int32))
            case "headers":
                return _null_if_empty(header_lists(columns))
        return _of_batch(chunk, name)

    def _constant(self, name: str, count: int) -> pa.Array:
        """Return a column of one repeated value: a slice of an array that grows when a batch needs more."""
        made = self._constants.get(name)
        if made is None or len(made) < count:
            made = self._constants[name] = pa.repeat(self._values[name], count)
        return made.slice(0, count)


def _null_if_empty(headers: pa.ListArray) -> pa.Array:
    """Replace empty header lists by NULL, as Spark's Kafka source returns them."""
    lengths = np.diff(headers.offsets.to_numpy())
    mask = pa.array(lengths == 0)
    return pa.ListArray.from_arrays(headers.offsets, headers.values, type=HEADERS, mask=mask)


def _of_batch(chunk: ColumnChunk, name: str) -> pa.Array:
    """Return a column of batch metadata with one value per record."""
    table, rows = chunk.table, chunk.columns.batch
    match name:
        case "batchBaseOffset":
            return pa.array(table.base_offset[rows], pa.int64())
        case "leaderEpoch":
            return pa.array(table.leader_epoch[rows], pa.int32())
        case "producerId":
            return pa.array(table.producer_id[rows], pa.int64())
        case "producerEpoch":
            return pa.array(table.producer_epoch[rows].astype(np.int32), pa.int32())
        case "baseSequence":
            return pa.array(table.base_sequence[rows], pa.int32())
        case "isTransactional":
            return pa.array(table.is_transactional[rows], pa.bool_())
        case "isControl":
            return pa.array(table.is_control[rows], pa.bool_())
        case "compression":
            return codec_names(table.codec[rows])
    raise KeyError(name)


def codec_names(codec: npt.NDArray[np.int16]) -> pa.Array:
    """Return the names of codec numbers. A number that Kafka does not define stays a number."""
    names = pa.array([CODECS.get(number, str(number)) for number in range(8)], pa.string())
    return names.take(pa.array(codec, pa.int16()))
