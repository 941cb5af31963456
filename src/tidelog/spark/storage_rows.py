"""The ``batches`` and ``segments`` tables: headers and files, no record decoded. Called by the reader, in workers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidelog.kernel import BatchTable
from tidelog.spark.record_rows import codec_names
from tidelog.spark.schema import BATCHES, SEGMENTS
from tidelog.spark.split import Piece
from tidelog.storage.log.view_state import ViewSegment
from tidelog.storage.segment.file_names import FileKind

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def batch_rows(piece: Piece, *, verify_crc: bool) -> Iterator[pa.RecordBatch]:
    """A row for every batch that touches the piece's offsets, damaged ones too (``crcOk`` false)."""
    for segment in piece.state.segments.between(piece.start, piece.end):
        with segment.open(piece.fs, piece.directory) as reader:
            start = reader.position_of(piece.start)
            for chunk in reader.chunks(start, piece.state.end_position(segment), verify_crc=verify_crc):
                table = chunk.table
                # A batch belongs to the piece that holds its last offset: every batch to exactly one.
                table = table.take((table.last_offset >= piece.start) & (table.last_offset < piece.end))
                if len(table):
                    yield _batches(table, piece, segment)
                if len(chunk.table) and int(chunk.table.base_offset[-1]) >= piece.end:
                    break


def _batches(table: BatchTable, piece: Piece, segment: ViewSegment) -> pa.RecordBatch:
    count = len(table)
    type_numbers = np.where(table.magic == 0, -1, table.is_log_append.astype(np.int32)).astype(np.int32)
    columns = {
        "topic": pa.repeat(piece.partition.topic, count),
        "partition": pa.repeat(pa.scalar(piece.partition.partition, pa.int32()), count),
        "segmentBaseOffset": pa.repeat(pa.scalar(segment.base_offset, pa.int64()), count),
        "position": pa.array(table.position),
        "sizeBytes": pa.array(table.size),
        "baseOffset": pa.array(table.base_offset),
        "lastOffset": pa.array(table.last_offset),
        "recordCount": pa.array(table.record_count),
        "magic": pa.array(table.magic.astype(np.int32)),
        "baseTimestamp": _timestamps(table.base_timestamp),
        "maxTimestamp": _timestamps(table.max_timestamp),
        "timestampType": pa.array(type_numbers),
        "compression": codec_names(table.codec),
        "leaderEpoch": pa.array(table.leader_epoch),
        "producerId": pa.array(table.producer_id),
        "producerEpoch": pa.array(table.producer_epoch.astype(np.int32)),
        "baseSequence": pa.array(table.base_sequence),
        "isTransactional": pa.array(table.is_transactional),
        "isControl": pa.array(table.is_control),
        "crcOk": pa.array(table.crc_ok),
        "logDir": pa.repeat(str(piece.directory.parent), count),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in BATCHES.names], schema=BATCHES)


def _timestamps(milliseconds: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> pa.Array:
    """Null where microseconds cannot hold the time."""
    limit = (2**63 - 1) // 1000
    exact = (milliseconds <= limit) & (milliseconds >= -limit)
    with np.errstate(over="ignore"):
        return pa.array(milliseconds * 1000, pa.int64(), mask=~exact).view(_TIMESTAMP)


def segment_rows(piece: Piece) -> Iterator[pa.RecordBatch]:
    """A row for every segment of the piece, from names and sizes alone."""
    rows = [_segment(piece, segment) for segment in piece.state.segments.between(piece.start, piece.end)]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SEGMENTS)


def _segment(piece: Piece, segment: ViewSegment) -> dict[str, object]:
    def size(kind: FileKind) -> int | None:
        path = segment.files.path(piece.directory, kind)
        return piece.fs.stat(path).size if kind in segment.files.kinds and piece.fs.exists(path) else None

    log = segment.files.path(piece.directory, FileKind.LOG)
    modified_ms = piece.fs.stat(log).mtime_ms if piece.fs.exists(log) else None
    return {
        "topic": piece.partition.topic,
        "partition": piece.partition.partition,
        "baseOffset": segment.base_offset,
        "sizeBytes": segment.size,
        "indexBytes": size(FileKind.INDEX),
        "timeIndexBytes": size(FileKind.TIME_INDEX),
        "txnIndexBytes": size(FileKind.TXN_INDEX),
        "modified": None if modified_ms is None else modified_ms * 1000,
        "logStartOffset": piece.state.log_start,
        "isActive": segment.base_offset == piece.state.log_end.segment_base_offset,
        "logDir": str(piece.directory.parent),
    }
