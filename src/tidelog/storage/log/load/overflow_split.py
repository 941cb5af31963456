"""The split of a segment with an offset that no index can hold.

This offset lies more than 31 bits above the base offset. Compaction by brokers before 2.0 could leave one (KAFKA-6264).
The batches are copied, unchanged and in offset order, into as few segments as possible. Each segment is named by its
first record's offset. Invalid bytes at the end go to the last piece, where recovery truncates them. Only ``.log`` files
are made: a segment without ``.index`` is always recovered, even below the recovery point. That also rebuilds the
transaction index, which Kafka's split loses.

A crash before the copies are complete leaves ``.cleaned`` files, which loading removes; see ``segment_swap`` for later
crashes. Descending offsets, or offsets that reach into the next segment, are refused: no compaction leaves them. A
reader needs no split. Source: Kafka's ``LocalLog.splitOverflowedSegment``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelog.kernel import BatchTable, ColumnDecoder
from tidelog.model import StorageError
from tidelog.model.offsets import MAX_RELATIVE_OFFSET
from tidelog.record.attributes import CODEC_MASK
from tidelog.record.decode import decode_columns
from tidelog.storage.fs import File, FileSystem
from tidelog.storage.log.load.leftover_files import read_end_offset
from tidelog.storage.log.load.segment_swap import remove_files, swap_in
from tidelog.storage.segment.file_names import FileKind, FileState, segment_file
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

_COPY_BYTES = 8 * 1024 * 1024
_V2 = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPiece:
    """Bytes [start, end) of the segment to split."""

    base_offset: int
    start: int
    end: int


def split_overflowed_segment(
    fs: FileSystem, directory: Path, base_offset: int, *, next_base_offset: int | None
) -> list[int]:
    """Split the segment and return the ascending base offsets of its pieces.

    ``next_base_offset`` is the next segment's. Raise StorageError, with nothing changed, if a split is impossible.
    """
    log = segment_file(directory, base_offset, FileKind.LOG)
    mtime_ms = fs.stat(log).mtime_ms
    pieces = plan_pieces(fs, directory, base_offset, next_base_offset)
    bases = [piece.base_offset for piece in pieces]
    try:
        with fs.open(log) as source:
            for piece in pieces:
                _copy(fs, source, segment_file(directory, piece.base_offset, FileKind.LOG, FileState.CLEANED), piece)
        for base in bases:
            fs.set_mtime(segment_file(directory, base, FileKind.LOG, FileState.CLEANED), mtime_ms)
        fs.sync_dir(directory)
    except StorageError:
        remove_files(fs, directory, bases, FileState.CLEANED)
        raise
    swap_in(fs, directory, bases, [base_offset])
    remove_files(fs, directory, [base_offset], FileState.DELETED)
    return bases


def is_overflowed(fs: FileSystem, directory: Path, base_offset: int, base_offsets: Sequence[int]) -> bool:
    """Return True if a segment ends more than 31 bits above its base. Read it only if the next base allows that.

    Return False if it cannot be read: the operation that needs the file will raise the error.
    """
    above = [base for base in base_offsets if base > base_offset]
    if above and above[0] - base_offset <= MAX_RELATIVE_OFFSET:
        return False
    try:
        with SegmentReader(fs, directory, base_offset) as reader:
            return read_end_offset(reader) - 1 - base_offset > MAX_RELATIVE_OFFSET
    except StorageError:
        return False


def plan_pieces(fs: FileSystem, directory: Path, base_offset: int, next_base_offset: int | None) -> list[SegmentPiece]:
    """Plan the split of a segment. Raise StorageError if it needs none."""
    with SegmentReader(fs, directory, base_offset) as reader:
        pieces = plan_split(reader, next_base_offset=next_base_offset)
        if len(pieces) == 1 and pieces[0].base_offset == base_offset:
            raise StorageError("the segment has no overflowing offset, so there is nothing to split", path=reader.path)
    return pieces


def plan_split(reader: SegmentReader, *, next_base_offset: int | None) -> list[SegmentPiece]:
    """Return the pieces of a segment; see ``split_overflowed_segment``. Reads all batches and checks their CRCs."""
    base_offset = reader.base_offset
    begins: list[tuple[int, int]] = []
    last_offset = base_offset - 1
    for chunk in reader.chunks(verify_crc=True):
        if not len(chunk.table):
            break
        sound = chunk.table if chunk.table.summary.crcs_ok else chunk.table.take(_rows_before_damage(chunk.table))
        last_offset = _require_ascending(reader, sound, last_offset)
        row = 0
        while True:
            reach = begins[-1][0] + MAX_RELATIVE_OFFSET if begins else base_offset - 1
            row += int(np.searchsorted(sound.last_offset[row:], reach, side="right"))
            if row == len(sound):
                break
            begins.append((_first_offset(chunk, sound, row), int(sound.position[row])))
            row += 1
        if len(sound) < len(chunk.table):
            break
    if next_base_offset is not None and last_offset >= next_base_offset:
        raise StorageError(
            f"the segment reaches to offset {last_offset}, more than 31 bits above its base offset {base_offset}, and"
            f" into the next segment, which begins at {next_base_offset}; compaction never leaves this"
            " state, so the segment is not split",
            path=reader.path,
            offset=last_offset,
        )
    begins = begins or [(base_offset, 0)]
    ends = [*(start for _, start in begins[1:]), reader.size]
    return [
        SegmentPiece(base_offset=base, start=start, end=end) for (base, start), end in zip(begins, ends, strict=True)
    ]


def _rows_before_damage(table: BatchTable) -> slice:
    return slice(0, int(np.argmin(table.crc_ok)))


def _require_ascending(reader: SegmentReader, table: BatchTable, last_offset: int) -> int:
    """Return the last offset; ``last_offset`` is that of earlier batches. Raise StorageError if offsets descend."""
    if not len(table):
        return last_offset
    offsets = np.concatenate(([last_offset], table.last_offset))
    falls = np.flatnonzero(offsets[1:] <= offsets[:-1])
    if len(falls):
        row = table.row(int(falls[0]))
        raise StorageError(
            f"the batch ends at offset {row.last_offset}, not above {offsets[falls[0]]}, where an earlier one ends, and"
            " one offset is more than 31 bits above the segment's base offset: it is unknown which of the two is wrong",
            path=reader.path,
            position=row.position,
            offset=row.base_offset,
        )
    return int(offsets[-1])


def _first_offset(chunk: Chunk, table: BatchTable, row: int) -> int:
    """Return the first record's offset. A compressed v0 or v1 batch must be decompressed for it."""
    batch = table.row(row)
    if batch.magic >= _V2 or not batch.attributes & CODEC_MASK:
        return batch.base_offset
    decoder = ColumnDecoder(keys=False, values=False, headers=False)
    one = table.take(slice(row, row + 1))
    found = decode_columns(chunk.buffer, one, decoder, base_position=chunk.base_position)
    return min(int(columns.offset[0]) for columns in found if len(columns.offset))


def _copy(fs: FileSystem, source: File, target: Path, piece: SegmentPiece) -> None:
    fs.remove(target, missing_ok=True)
    with fs.open(target, create=True) as file:
        for position in range(piece.start, piece.end, _COPY_BYTES):
            data = source.pread(min(_COPY_BYTES, piece.end - position), position)
            file.pwrite(data, position - piece.start)
        if file.size != piece.end - piece.start:
            raise StorageError(f"copied {file.size} bytes of {piece.end - piece.start}", path=target)
        file.sync()
