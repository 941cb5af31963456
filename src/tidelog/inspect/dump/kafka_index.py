"""The text that ``kafka-dump-log`` prints for ``.index`` and ``.timeindex``, and the errors it finds.

An index is compared with its log in the same directory, as Kafka does it. An offset entry must name the last offset of
the batch at its position. A time entry must name the largest timestamp of the batch that ends with its offset, and
timestamps must ascend. A zero entry after the first ends the list: it is preallocation.

Where Kafka's tool ends with an exception, the functions raise IndexCorruptError, FileMissingError (no log) or
CorruptRecordError (no batch lies at a position). Thread rule: one thread. Source: Kafka's ``DumpLogSegments``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

import numpy as np

from tidelog.inspect.dump.options import KafkaFormatOptions
from tidelog.kernel import BatchTable, ColumnDecoder
from tidelog.model import CorruptRecordError
from tidelog.record.batch_header import MAGIC_AT, PREFIX_BYTES, SHAPE, SMALLEST_LENGTHS, V2_HEADER_BYTES
from tidelog.record.decode import decode_columns
from tidelog.storage.fs import File, FileSystem, read_whole
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader
from tidelog.storage.segment.file_names import FileKind
from tidelog.storage.segment.segment_reader import file_chunks

_LAST_OFFSET = Struct(">q15xi")
"""The base offset and the last offset delta."""


@dataclass(slots=True)
class TimeIndexFindings:
    """The errors in one time index: pairs of the index's value and the value found instead."""

    timestamp_mismatches: list[tuple[int, int]] = field(default_factory=list)
    out_of_order: list[tuple[int, int]] = field(default_factory=list)
    offsets_not_found: list[tuple[int, int]] = field(default_factory=list)


def offset_index_text(
    fs: FileSystem, path: Path, shown: str, options: KafkaFormatOptions, mismatches: list[tuple[int, int]]
) -> Iterator[str]:
    """Yield pieces of text and add (index offset, log offset) to ``mismatches``. ``shown`` is the path to print."""
    base_offset = base_offset_of(path)
    with fs.open(sibling_file(path, FileKind.LOG)) as log:
        index = OffsetIndexReader(read_whole(fs, path), base_offset, path=path)
        if not len(index):
            yield f"{shown} is empty.\n"
            return
        if options.index_sanity_check:
            index.sanity_check()
            yield f"{shown} passed sanity check.\n"
            return
        lines: list[str] = []
        offsets, positions = index.entries()
        try:
            for number, (offset, position) in enumerate(zip(offsets.tolist(), positions.tolist(), strict=True)):
                if offset == base_offset and number > 0:
                    break
                found = _last_offset_at(log, position, options.max_message_size)
                if found != offset:
                    mismatches.append((offset, found))
                if not options.verify_index_only:
                    lines.append(f"offset: {offset} position: {position}\n")
        finally:
            # A damaged entry ends the dump, but the entries before it are still printed.
            yield "".join(lines)


def time_index_text(
    fs: FileSystem, path: Path, shown: str, options: KafkaFormatOptions, findings: TimeIndexFindings
) -> Iterator[str]:
    """Yield pieces of text and fill ``findings``. A missing ``.index`` counts as empty: it only gives the position
    where the search begins."""
    base_offset = base_offset_of(path)
    with fs.open(sibling_file(path, FileKind.LOG)) as log:
        index = TimeIndexReader(read_whole(fs, path), base_offset, path=path)
        if options.index_sanity_check:
            index.sanity_check()
            yield f"{shown} passed sanity check.\n"
            return
        index_path = sibling_file(path, FileKind.INDEX)
        offset_index = OffsetIndexReader(
            read_whole(fs, index_path) if fs.exists(index_path) else b"", base_offset, path=index_path
        )
        entries = _written_entries(index)
        found = _find_batches(log, offset_index, [offset for _, offset in entries])
        timestamps = _max_timestamps(log, found)
        previous = -1
        for (timestamp, offset), row in zip(entries, found, strict=True):
            if row is None or row.last_offset != offset:
                findings.offsets_not_found.append((offset, -1 if row is None else row.last_offset))
            else:
                if timestamps[row.position] != timestamp:
                    findings.timestamp_mismatches.append((timestamp, timestamps[row.position]))
                if previous >= timestamp:
                    findings.out_of_order.append((timestamp, previous))
            previous = timestamp
        if not options.verify_index_only:
            yield "".join([f"timestamp: {timestamp} offset: {offset}\n" for timestamp, offset in entries])


@dataclass(frozen=True, slots=True)
class _Found:
    position: int
    last_offset: int


def _written_entries(index: TimeIndexReader) -> list[tuple[int, int]]:
    """Return (timestamp, offset) pairs up to the first entry of zeros after the first entry."""
    timestamps, offsets = index.entries()
    entries = list(zip(timestamps.tolist(), offsets.tolist(), strict=True))
    for number, (_, offset) in enumerate(entries):
        if offset == index.base_offset and number > 0:
            return entries[:number]
    return entries


def _find_batches(log: File, index: OffsetIndexReader, offsets: list[int]) -> list[_Found | None]:
    """Find, for each offset, the first batch that ends at or above it. The search begins at the position that the
    offset index gives."""
    tables = [chunk.table for chunk in file_chunks(log, verify_crc=False)]
    if not tables:
        return [None] * len(offsets)
    table = BatchTable.concat(tables)
    ascending = bool((np.diff(table.last_offset) > 0).all())
    found: list[_Found | None] = []
    for offset in offsets:
        position = index.lookup(offset).position
        row = int(np.searchsorted(table.position, position))
        if row == len(table) or int(table.position[row]) != position:
            found.append(_search_from(log, position, offset))
            continue
        if ascending:
            row = max(row, int(np.searchsorted(table.last_offset, offset)))
        else:
            ahead = np.flatnonzero(table.last_offset[row:] >= offset)
            row = row + int(ahead[0]) if len(ahead) else len(table)
        found.append(_Found(int(table.position[row]), int(table.last_offset[row])) if row < len(table) else None)
    return found


def _search_from(log: File, position: int, offset: int) -> _Found | None:
    """Search from a position that is no batch boundary of the log: read batches from there, whatever the bytes are."""
    if not 0 <= position <= log.size:
        raise CorruptRecordError("an index entry lies outside the log", path=log.path, position=position)
    for chunk in file_chunks(log, position, verify_crc=False):
        ahead = np.flatnonzero(chunk.table.last_offset >= offset)
        if len(ahead):
            row = chunk.table.row(int(ahead[0]))
            return _Found(row.position, row.last_offset)
    return None


def _max_timestamps(log: File, found: list[_Found | None]) -> dict[int, int]:
    """Return the largest record timestamp of each batch found, by the batch's position. It is -1 without records."""
    wanted = np.array(sorted({batch.position for batch in found if batch is not None}), np.int64)
    largest = dict.fromkeys(wanted.tolist(), -1)
    if not len(wanted):
        return largest
    for chunk in file_chunks(log, int(wanted[0]), verify_crc=False):
        keep = np.isin(chunk.table.position, wanted)
        if not keep.any():
            continue
        decoder = ColumnDecoder(keys=False, values=False, headers=False)
        for columns in decode_columns(chunk.buffer, chunk.table, decoder, base_position=chunk.base_position, keep=keep):
            assert columns.batch is not None
            rows, first = np.unique(columns.batch, return_index=True)
            for row, timestamp in zip(
                rows.tolist(), np.maximum.reduceat(columns.timestamp, first).tolist(), strict=True
            ):
                position = int(chunk.table.position[row])
                largest[position] = max(largest[position], timestamp)
    return largest


def _last_offset_at(log: File, position: int, max_message_size: int) -> int:
    """Return the last offset of the batch at ``position``. Raise CorruptRecordError if no complete batch lies there."""
    size = log.size
    if not 0 <= position <= size:
        raise CorruptRecordError("an index entry lies outside the log", path=log.path, position=position)
    head = log.pread(V2_HEADER_BYTES, position)
    if len(head) > MAGIC_AT:
        length, magic = SHAPE.unpack_from(head)
        if length >= SMALLEST_LENGTHS[0] and length + PREFIX_BYTES <= min(max_message_size, size - position):
            if 0 <= magic < 2:
                return int.from_bytes(head[:8], "big", signed=True)
            if len(head) == V2_HEADER_BYTES:
                base_offset, delta = _LAST_OFFSET.unpack_from(head)
                return int(base_offset + delta)
    raise CorruptRecordError("an index entry points to no complete batch", path=log.path, position=position)


def sibling_file(path: Path, kind: FileKind) -> Path:
    """Return the path of the file of another kind with the same number in the same directory."""
    return path.with_name(path.name.split(".")[0] + kind.value)


def base_offset_of(path: Path) -> int:
    """Return the number at the start of the file's name. Raise CorruptRecordError if there is none."""
    number = path.name.split(".")[0]
    if not number.isascii() or not number.isdigit():
        raise CorruptRecordError(f"'{number}' is not an offset, so the file's name is not a segment's", path=path)
    return int(number)
