"""The ``batches`` and ``segments`` tables, from headers and files. No record is decoded.

A piece of either table consists of whole segments, because in an audit every batch counts. A batch with a wrong offset
belongs to the file that holds it. A batch whose CRC fails is a row like any other (``crcOk`` false). If a damaged
length field stops the walk, ``onCorrupt`` decides between an error and the next valid batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.kernel import BatchTable, Stop
from tidelog.model import CorruptRecordError, FileMissingError
from tidelog.spark.read.damage import DamageReport
from tidelog.spark.read.options import OnCorrupt, ReadOptions
from tidelog.spark.read.schema import TABLES
from tidelog.spark.read.split import Piece
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.rows.record_rows import codec_names
from tidelog.storage.fs import FileStat
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.row_stream import SkippedRange
from tidelog.storage.log.view.view_state import ViewSegment, ViewState, stop_reason
from tidelog.storage.segment.file_names import FileKind
from tidelog.storage.segment.resync import next_sound_batch
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_EXACT_MS = (2**63 - 1) // 1000
_LARGEST_OFFSET = 2**63 - 1
_ENOUGH_ROWS = 8192


def batch_rows(piece: Piece, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a row for every batch that touches the piece's offsets, and for every damaged one in its segments."""
    report = DamageReport(piece, schema, is_enabled=options.on_corrupt is OnCorrupt.REPORT)
    for segment in piece.state.segments.between(piece.start, piece.end):
        opened = _open(piece, segment)
        if opened is None:
            continue
        reader, state = opened
        with reader:
            for table in _tables(reader, state.end_position(segment), piece, options, report):
                wanted = table.take(_wanted(table, piece, segment))
                yield from report.drain()
                if len(wanted):
                    yield _shaped(_batch_columns(wanted, piece, segment), schema)
    report.add_tail()
    yield from report.drain()


def _open(piece: Piece, segment: ViewSegment) -> tuple[SegmentReader, ViewState] | None:
    """Open the segment. Return None if a broker has deleted it since the planning."""
    try:
        return segment.open(piece.fs, piece.directory), piece.state
    except FileMissingError:
        if piece.state.condition is not DirectoryCondition.HELD:
            raise
    state = piece.refresh()  # it may have been compacted and swapped in again
    again = state.segments.floor(segment.base_offset)
    if again is None or again.base_offset != segment.base_offset:
        return None
    return again.open(piece.fs, piece.directory), state


def _tables(
    reader: SegmentReader, end: int | None, piece: Piece, options: ReadOptions, report: DamageReport
) -> Iterator[BatchTable]:
    """Yield the batch tables of a whole segment, and continue after bytes that cannot be walked."""
    end = reader.size if end is None else end
    verify_crc = options.verify_checksums and not piece.is_checked(reader.base_offset)
    position, seen_to = 0, reader.base_offset
    while position < end:
        stop = Stop.END
        for table in _gathered(reader.chunks(position, end, verify_crc=verify_crc)):
            stop, position = table.stop, table.end_position
            if len(table):
                # The offset of a batch without a valid CRC may be wrong, so clamp it: the stretch lies in this piece.
                seen_to = min(max(seen_to, int(table.last_offset[-1]) + 1), piece.end - 1)
                yield table
        if position >= end:
            return
        reason = stop_reason(Stop.PARTIAL if stop is Stop.END else stop)
        if options.on_corrupt is OnCorrupt.FAIL:
            raise CorruptRecordError(reason, path=reader.path, position=position, offset=seen_to)
        resumed = next_sound_batch(reader, position, end, 0, _LARGEST_OFFSET) or end
        size = resumed - position
        report.add(SkippedRange(path=reader.path, position=position, size_bytes=size, offset=seen_to, reason=reason))
        position = resumed


def _gathered(chunks: Iterable[Chunk]) -> Iterator[BatchTable]:
    """Merge the tables of several chunks: an Arrow batch costs time per column, however few rows it has."""
    gathered: list[BatchTable] = []
    rows = 0
    for chunk in chunks:
        gathered.append(chunk.table)
        rows += len(chunk.table)
        if rows >= _ENOUGH_ROWS:
            yield BatchTable.concat(gathered)
            gathered, rows = [], 0
    if gathered:
        yield BatchTable.concat(gathered)


def _wanted(table: BatchTable, piece: Piece, segment: ViewSegment) -> npt.NDArray[np.bool_]:
    following = piece.state.segments.higher(segment.base_offset)
    misplaced = table.base_offset < segment.base_offset
    if following is not None:
        misplaced |= table.last_offset >= following.base_offset
    touches = (table.last_offset >= piece.start) & (table.base_offset < piece.end)
    wanted: npt.NDArray[np.bool_] = touches | misplaced | ~table.crc_ok | ~table.header_ok
    return wanted


def _batch_columns(table: BatchTable, piece: Piece, segment: ViewSegment) -> dict[str, pa.Array]:
    count = len(table)
    type_numbers = np.where(table.magic == 0, -1, table.is_log_append.astype(np.int32)).astype(np.int32)
    return {
        "topic": pa.repeat(piece.partition.topic, count),
        "partition": pa.repeat(pa.scalar(piece.partition.partition, pa.int32()), count),
        "segmentBaseOffset": pa.repeat(pa.scalar(segment.base_offset, pa.int64()), count),
        "position": pa.array(table.position),
        "sizeBytes": pa.array(table.size),
        "baseOffset": pa.array(table.base_offset),
        "lastOffset": pa.array(table.last_offset),
        "recordCount": pa.array(table.record_count),
        "magic": pa.array(table.magic.astype(np.int32)),
        "baseTimestamp": timestamps(table.base_timestamp),
        "maxTimestamp": timestamps(table.max_timestamp),
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
        "corrupt": pa.nulls(count, pa.string()),
    }


def _shaped(columns: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def timestamps(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Convert milliseconds to timestamps. The result is null if microseconds cannot hold the time."""
    exact = (milliseconds <= _EXACT_MS) & (milliseconds >= -_EXACT_MS)
    with np.errstate(over="ignore"):
        return pa.array(milliseconds * 1000, pa.int64(), mask=~exact).view(_TIMESTAMP)


def microseconds(milliseconds: int | None) -> int | None:
    """Convert one time to microseconds, with the same limits as ``timestamps``."""
    exact = milliseconds is not None and -_EXACT_MS <= milliseconds <= _EXACT_MS
    return milliseconds * 1000 if milliseconds is not None and exact else None


def segment_rows(piece: Piece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a row for every segment of the piece, from names and sizes alone."""
    rows = [_segment(piece, segment) for segment in piece.state.segments.between(piece.start, piece.end)]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=TABLES[Mode.SEGMENTS]).select(schema.names)


def _segment(piece: Piece, segment: ViewSegment) -> dict[str, object]:
    def stat(kind: FileKind) -> FileStat | None:
        try:
            return piece.fs.stat(segment.files.path(piece.directory, kind))
        except FileMissingError:
            return None

    def size(kind: FileKind) -> int | None:
        found = stat(kind) if kind in segment.files.kinds else None
        return None if found is None else found.size

    log = stat(FileKind.LOG)
    return {
        "topic": piece.partition.topic,
        "partition": piece.partition.partition,
        "baseOffset": segment.base_offset,
        "sizeBytes": segment.size,
        "indexBytes": size(FileKind.INDEX),
        "timeIndexBytes": size(FileKind.TIME_INDEX),
        "txnIndexBytes": size(FileKind.TXN_INDEX),
        "modified": None if log is None else log.mtime_ms * 1000,
        "logStartOffset": piece.state.log_start,
        "isActive": segment.base_offset == piece.state.log_end.segment_base_offset,
        "logDir": str(piece.directory.parent),
    }
