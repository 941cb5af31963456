"""A staged file, read once: its check, and the contents of the indexes of its future segment.

A staged file holds complete v2 batches one after another, and knows nothing of the log. Its base offsets and leader
epochs are ignored, because an interrupted adoption may have written some. Offsets follow from each batch's record
count, and indexes hold them relative to the segment's base offset, so both are known before the log end is.

====================================================  ==========================  =============
the file                                              error                       once decided
====================================================  ==========================  =============
ends within a batch; a CRC or header is wrong         CorruptRecordError          the same
batches of format v0 or v1                            UnsupportedFormatError      the same
a producer id, a transaction, a control batch, a      InvalidRecordError          the same
delete horizon, fewer records than offsets
more than 2^31 offsets, 2^31 - 1 bytes or more        RecordBatchTooLargeError    the same
timestamps of another kind than the log's             InvalidTimestampError       accepted
a batch above ``max.message.bytes``                   RecordTooLargeError         accepted
more than ``segment.bytes``; more index entries than  RecordBatchTooLargeError    accepted
``segment.index.bytes`` has room for
====================================================  ==========================  =============

A file is *decided* if it was checked before and its adoption must now complete, even if the log's settings have changed
since. The stager checks the records: keys of a compacted log, timestamps far from the clock. The log's own appends
would start another segment after ``segment.ms``. An adopted file counts as one set of batches from a client, so it
stays one segment.

Thread rule: any thread; it only reads. Source: Kafka's ``LogSegment.shouldRoll``, ``UnifiedLog.append`` (segment size),
``OffsetIndex`` and ``TimeIndex`` (entries).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable
from tidelog.kernel.table import COLUMNS
from tidelog.model import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnsupportedFormatError,
)
from tidelog.model.offsets import MAX_RELATIVE_OFFSET
from tidelog.record.attributes import CONTROL_FLAG, DELETE_HORIZON_FLAG, TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG
from tidelog.storage.fs import FileSystem
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.segment.index_builder import IndexBuilder, offset_index_bytes, time_index_bytes
from tidelog.storage.segment.limits import MAX_SEGMENT_BYTES
from tidelog.storage.segment.segment_reader import file_chunks

_MAGIC = 2
_NOT_PLAIN = TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedSegment:
    """A checked staged file. Arrays have one entry per batch, in bytes; offsets are relative to the segment's base."""

    path: Path
    positions: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int32]
    first_offsets: npt.NDArray[np.int64]
    record_count: int
    size: int
    max_timestamp: int
    """Milliseconds, or -1 without a timestamp."""
    offset_index: bytes
    time_index: bytes


def read_staged(fs: FileSystem, path: Path, config: LogConfig, *, is_decided: bool = False) -> StagedSegment:
    """Read a complete staged file and check it by the table above. Raise FileMissingError if it does not exist."""
    table = _read_table(fs, path)
    _require_plain(table, path)
    _require_room(table, path)
    if not is_decided:
        _require_settings(table, path, config)
    counts = table.last_offset - table.base_offset + 1
    ends = np.cumsum(counts)
    relative = _with_offsets(table, ends - counts, ends - 1)
    builder = IndexBuilder(0, config.index_interval_bytes)
    entries = [builder.add(relative)] if len(relative) else []
    staged = StagedSegment(
        path=path,
        positions=table.position,
        sizes=table.size,
        first_offsets=relative.base_offset,
        record_count=int(counts.sum()),
        size=table.end_position,
        max_timestamp=int(table.max_timestamp.max(initial=-1)),
        offset_index=offset_index_bytes(0, entries),
        time_index=time_index_bytes(0, entries, builder.largest),
    )
    if not is_decided:
        _require_index_room(staged, config)
    return staged


def _read_table(fs: FileSystem, path: Path) -> BatchTable:
    """Read the file's batches. Raise CorruptRecordError if one is incomplete or damaged."""
    with fs.open(path) as file:
        tables = [chunk.table for chunk in file_chunks(file)]
        size = file.size
    whole = BatchTable.concat(tables) if tables else _no_batches()
    sound = whole.crc_ok & whole.header_ok
    if not sound.all():
        position = int(whole.position[np.argmin(sound)])
        raise CorruptRecordError("a staged batch is damaged", path=path, position=position)
    if whole.end_position != size:
        raise CorruptRecordError("the staged file ends within a batch", path=path, position=whole.end_position)
    return whole


def _require_plain(table: BatchTable, path: Path) -> None:
    """Require batches like those of a producer without an id, in which each offset has a record."""
    other_format = np.flatnonzero(table.magic != _MAGIC)
    if len(other_format):
        row = table.row(int(other_format[0]))
        raise UnsupportedFormatError(f"a staged batch has format v{row.magic}", path=path, position=row.position)
    counts = table.last_offset - table.base_offset + 1
    plain = (table.producer_id < 0) & (table.attributes & _NOT_PLAIN == 0) & (table.record_count == counts)
    if not plain.all():
        row = table.row(int(np.argmin(plain)))
        raise InvalidRecordError(
            f"a staged batch has producer id {row.producer_id}, attributes {row.attributes:#x} and {row.record_count}"
            f" records with {row.last_offset - row.base_offset + 1} offsets; it must have no producer id,"
            " transaction, control records or gaps",
            path=path,
            position=row.position,
        )


def _require_room(table: BatchTable, path: Path) -> None:
    """Refuse files that no segment can hold with any settings."""
    count = int((table.last_offset - table.base_offset + 1).sum())
    if count - 1 > MAX_RELATIVE_OFFSET:
        raise RecordBatchTooLargeError(f"{count} staged offsets are more than a segment can hold", path=path)
    if table.end_position > MAX_SEGMENT_BYTES:
        raise RecordBatchTooLargeError(f"{table.end_position} staged bytes are more than a segment can hold", path=path)


def _require_settings(table: BatchTable, path: Path, config: LogConfig) -> None:
    if not len(table):
        return
    is_log_append = config.message_timestamp_type == "LogAppendTime"
    other_time = np.flatnonzero((table.attributes & TIMESTAMP_TYPE_FLAG != 0) != is_log_append)
    if len(other_time):
        position = int(table.position[other_time[0]])
        kind = config.message_timestamp_type
        raise InvalidTimestampError(
            f"a staged batch's timestamp type is not the log's, {kind}", path=path, position=position
        )
    largest = int(np.argmax(table.size))
    if int(table.size[largest]) > config.max_message_bytes:
        raise RecordTooLargeError(
            f"a staged batch has {int(table.size[largest])} bytes, above the limit of {config.max_message_bytes}",
            path=path,
            position=int(table.position[largest]),
        )
    if table.end_position > config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"a staged file of {table.end_position} bytes is larger than a segment of {config.segment_bytes}", path=path
        )


def _require_index_room(staged: StagedSegment, config: LogConfig) -> None:
    room = config.segment_index_bytes
    for entries, reader in ((staged.offset_index, OffsetIndexReader), (staged.time_index, TimeIndexReader)):
        if len(entries) > room - room % reader.ENTRY_SIZE:
            raise RecordBatchTooLargeError(
                f"an index of {len(entries)} bytes for a staged file is larger than segment.index.bytes, {room}",
                path=staged.path,
            )


def _with_offsets(
    table: BatchTable, first_offsets: npt.NDArray[np.int64], last_offsets: npt.NDArray[np.int64]
) -> BatchTable:
    columns = {name: getattr(table, name) for name, _ in COLUMNS}
    columns |= {"base_offset": first_offsets, "last_offset": last_offsets}
    return BatchTable.from_columns(columns, table.end_position)


def _no_batches() -> BatchTable:
    return BatchTable.from_columns({name: np.empty(0, dtype) for name, dtype in COLUMNS}, 0)
