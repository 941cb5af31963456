"""The records that the next start after an unclean shutdown removes, counted by reading them.

Recovery truncates a log at the first invalid byte and deletes the later segments. Complete batches may follow the
damage: they are lost, too. They are counted by their headers, up to a limit of bytes. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelog.kernel import BatchTable, Stop
from tidelog.model import FileMissingError
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.view_state import ViewSegment, ViewState
from tidelog.storage.segment.file_names import FileKind, SegmentFileName
from tidelog.storage.segment.resync import next_sound_batch
from tidelog.storage.segment.segment_reader import SegmentReader

_MOST_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecords:
    """``bytes`` counts all bytes that are removed. ``batches`` and ``records`` count the complete ones among them, and
    ``end_offset`` follows the last record, None without any. ``is_complete`` is False if a limit ended the count."""

    bytes: int
    segments: int
    batches: int
    records: int
    end_offset: int | None
    is_complete: bool


def later_segments(state: ViewState, sizes: Mapping[str, int]) -> tuple[ViewSegment, ...]:
    """Return the segments after the log end, which recovery deletes. ``sizes`` are those of the directory's files."""
    tail = state.invalid_tail
    if tail is None or not tail.later_segments:
        return ()
    last = state.log_end.segment_base_offset
    return tuple(
        ViewSegment(files=files, size=sizes.get(str(SegmentFileName(files.base_offset, FileKind.LOG)), 0))
        for files in state.listing.segments
        if files.base_offset > last
    )


def count_lost_records(
    fs: FileSystem, directory: Path, state: ViewState, later: Sequence[ViewSegment]
) -> LostRecords | None:
    """Count behind the log end of a log after an unclean shutdown. ``later`` are its later segments.

    Return None if nothing is lost.
    """
    tail = state.invalid_tail
    if tail is None or not len(state.segments):
        return None
    batches = records = 0
    end_offset: int | None = None
    left = _MOST_BYTES
    places = [(state.segments.last, tail.position), *((segment, 0) for segment in later)]
    for segment, position in places:
        try:
            with segment.open(fs, directory) as reader:
                for size, table in _valid_tables(reader, position):
                    left -= size
                    batches += len(table)
                    records += int(np.maximum(table.record_count, 1)[~table.is_control].sum())
                    if len(table):
                        end_offset = max(end_offset or 0, int(table.last_offset.max()) + 1)
                    if left <= 0:
                        break
        except FileMissingError:
            continue
        if left <= 0:
            break
    return LostRecords(
        bytes=tail.length + sum(segment.size for segment in later),
        segments=len(later),
        batches=batches,
        records=records,
        end_offset=end_offset,
        is_complete=left > 0,
    )


def _valid_tables(reader: SegmentReader, position: int) -> Iterator[tuple[int, BatchTable]]:
    """Yield the valid batches from a position on, with the bytes read. Damage between them is skipped."""
    while position < reader.size:
        table: BatchTable | None = None
        for chunk in reader.chunks(position, chunk_bytes=_CHUNK_BYTES):
            table = chunk.table
            valid = table.crc_ok & table.header_ok & (table.base_offset >= reader.base_offset)
            yield table.end_position - chunk.base_position, table.take(valid)
            position = table.end_position
        if table is None or table.stop is Stop.END:
            return
        resumed = next_sound_batch(reader, position, None, reader.base_offset, _OFFSET_MAX)
        if resumed is None:
            yield reader.size - position, table.take(slice(0, 0))
            return
        yield resumed - position, table.take(slice(0, 0))
        position = resumed
