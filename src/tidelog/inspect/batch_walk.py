"""The batches of a ``.log`` from a position on, with a bound on the bytes that are read and held.

A walk reads windows of some kilobytes. A batch larger than ``LARGE_BYTES`` is not read: the walk takes its header, and
goes on at its end. So neither a segment of gigabytes nor a batch of gigabytes makes a page slow or large.

``locate_batch`` tells whether a batch begins at a position. It walks from the nearest position that is known to be a
batch boundary, such as that of an index entry. Reads only. Thread rule: one thread for a walk.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from tidelog.inspect.batch_fields import BatchHeader, read_batch_header
from tidelog.kernel import BatchRow, BatchTable, Stop, crc32, crc32c, scan_batches
from tidelog.kernel.table import COLUMNS
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.storage.log.view.view_state import stop_reason
from tidelog.storage.segment.segment_reader import SegmentReader

LARGE_BYTES: Final = 16 * 1024 * 1024
"""A larger batch is not held in memory."""
_FIRST_WINDOW_BYTES: Final = 64 * 1024
_WINDOW_BYTES: Final = 1024 * 1024
_CRC_STEP_BYTES: Final = 1024 * 1024
_PIECE_BYTES: Final = 16 * 1024
_TRIED_ENTRIES: Final = 3
"""The index entries that are tried before the walk begins further back."""


class Window(NamedTuple):
    """Complete batches, or the header of one large batch. ``buffer[0]`` lies at ``base_position`` of the file."""

    buffer: memoryview
    table: BatchTable
    base_position: int
    large: BatchRow | None
    """A batch that was not read: its CRC is not checked. The table has no rows then."""
    next_position: int
    stop: Stop
    """END while the walk can go on at ``next_position``; else the reason why no batch can be read there."""

    @property
    def bytes_read(self) -> int:
        return len(self.buffer)

    def rows(self) -> Iterator[BatchRow]:
        if self.large is not None:
            yield self.large
        yield from self.table.rows()


class FileBytes:
    """The bytes of one batch in an open segment, read piece by piece."""

    def __init__(self, reader: SegmentReader, position: int, size: int) -> None:
        self._reader = reader
        self._position = position
        self._size = size
        self._held = b""
        self._held_at = 0

    def read(self, start: int, end: int) -> bytes:
        end = min(end, self._size)
        if start >= end:
            return b""
        if not self._held_at <= start <= end <= self._held_at + len(self._held):
            length = min(max(end - start, _PIECE_BYTES), self._size - start)
            self._held_at, self._held = start, bytes(self._reader.read(self._position + start, length))
        return self._held[start - self._held_at : end - self._held_at]


def windows(reader: SegmentReader, start: int, end: int, *, verify_crc: bool = True) -> Iterator[Window]:
    """Yield the windows of ``[start, end)``. ``start`` must be a batch boundary. The last window has the stop."""
    position, size = start, _FIRST_WINDOW_BYTES
    while position < end:
        window = _window(reader, position, end, size, verify_crc=verify_crc)
        yield window
        if window.stop is not Stop.END:
            return
        position = window.next_position
        size = min(2 * size, _WINDOW_BYTES)


def _window(reader: SegmentReader, position: int, end: int, size: int, *, verify_crc: bool) -> Window:
    while True:
        asked = min(size, end - position)
        buffer = reader.read(position, asked)
        table = scan_batches(buffer, base_position=position, verify_crc=verify_crc)
        is_rest = len(buffer) < asked or position + asked == end
        if len(table) or is_rest or table.stop in (Stop.BAD_SIZE, Stop.BAD_MAGIC):
            # A batch that is partial within the range is complete in the next window.
            stop = Stop.END if table.stop is Stop.PARTIAL and not is_rest else table.stop
            return Window(buffer, table, position, None, table.end_position, stop if buffer else Stop.PARTIAL)
        needed = table.partial_size
        if position + needed > end:
            return Window(buffer, table, position, None, position, Stop.PARTIAL)
        if needed > LARGE_BYTES:
            row = header_row(read_batch_header(buffer[:V2_HEADER_BYTES], available=end - position), position)
            return Window(buffer[:V2_HEADER_BYTES], table, position, row, position + needed, Stop.END)
        size = max(needed, 2 * size)


def header_row(header: BatchHeader, position: int, *, crc_ok: bool = True) -> BatchRow:
    """Return the row of the batch table for a complete header. ``crc_ok`` is a claim, nothing is checked."""
    number = header.number
    is_legacy = header.is_legacy
    return BatchRow(
        position=position,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        base_timestamp=header.max_timestamp if is_legacy else number("baseTimestamp"),
        max_timestamp=header.max_timestamp,
        producer_id=number("producerId"),
        size=header.size,
        record_count=(-1 if header.codec else 1) if is_legacy else number("recordsCount"),
        leader_epoch=number("partitionLeaderEpoch"),
        base_sequence=number("baseSequence"),
        crc=number("crc"),
        producer_epoch=number("producerEpoch"),
        attributes=header.attributes,
        magic=header.magic,
        crc_ok=crc_ok,
        header_ok=not header.problems,
    )


def row_table(row: BatchRow) -> BatchTable:
    """Return the batch table of one row."""
    columns = {name: np.array([getattr(row, name)], kind) for name, kind in COLUMNS}
    return BatchTable.from_columns(columns, row.position + row.size)


def computed_crc(
    reader: SegmentReader, position: int, header: BatchHeader, advance: Callable[[int], None] = lambda _bytes: None
) -> int:
    """Return the checksum of a complete batch, with little memory. ``advance`` receives the bytes read."""
    checksum = crc32 if header.is_legacy else crc32c
    at, end, crc = position + header.crc_from, position + header.size, 0
    while at < end:
        piece = reader.read(at, min(_CRC_STEP_BYTES, end - at))
        if not piece:
            break
        crc = checksum(piece, crc)
        at += len(piece)
        advance(len(piece))
    return crc


class PlaceKind(enum.StrEnum):
    BOUNDARY = "boundary"
    """A batch begins at the position."""
    INSIDE = "inside"
    """A batch begins before the position and ends after it."""
    AFTER_DAMAGE = "after_damage"
    """No batch can be read before the position, so its batches cannot be counted up to there."""
    UNKNOWN = "unknown"
    """More bytes lie before the position than the walk may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """``position`` is that of the batch, of the surrounding batch (INSIDE), or of the damage (AFTER_DAMAGE)."""

    kind: PlaceKind
    position: int
    size: int = 0
    previous: int | None = None
    """The position of the batch before it, if the walk came across one."""
    reason: str = ""


def known_boundary(reader: SegmentReader, position: int, marks: Sequence[int] = ()) -> int:
    """Return the last position below ``position`` that is known to be a batch boundary, or 0.

    Index entries are known if a valid batch lies there. ``marks`` are boundaries that another walk has found.
    """
    row = bisect_left(marks, position) - 1
    marked = marks[row] if row >= 0 else 0
    positions = reader.offset_hints.positions
    last = int(np.searchsorted(positions, position)) - 1
    for number in range(last, max(-1, last - _TRIED_ENTRIES), -1):
        at = int(positions[number])
        if at <= marked:
            break
        window = next(windows(reader, at, reader.size), None)
        row_there = None if window is None else next(window.rows(), None)
        if row_there is not None and row_there.crc_ok and row_there.header_ok:
            return at
    return marked


def locate_batch(reader: SegmentReader, position: int, *, start: int, most_bytes: int) -> Place:
    """Tell where ``position`` lies among the batches. ``start`` is a batch boundary at or below it.

    At most about ``most_bytes`` are read.
    """
    previous: int | None = None
    at = start
    stop = Stop.END
    for window in windows(reader, start, reader.size, verify_crc=False):
        if position == start:
            break
        for row in window.rows():
            at = row.position + row.size
            if row.position < position < at:
                return Place(kind=PlaceKind.INSIDE, position=row.position, size=row.size, previous=previous)
            previous = row.position
            if at == position:
                return Place(kind=PlaceKind.BOUNDARY, position=position, previous=previous)
        most_bytes -= window.bytes_read
        stop = window.stop
        if most_bytes <= 0 and stop is Stop.END:
            return Place(kind=PlaceKind.UNKNOWN, position=at, previous=previous)
    if position == start:
        return Place(kind=PlaceKind.BOUNDARY, position=position)
    return Place(kind=PlaceKind.AFTER_DAMAGE, position=at, previous=previous, reason=stop_reason(stop))


def position_before(
    reader: SegmentReader, position: int, count: int, *, most_bytes: int, marks: Sequence[int] = ()
) -> int | None:
    """Return the position of the batch that is ``count`` batches before the boundary ``position``.

    It is the first batch in reach if there are fewer within ``most_bytes``, and None if no boundary in reach is known.
    """
    reach = _FIRST_WINDOW_BYTES
    best: int | None = None
    while True:
        start = known_boundary(reader, max(1, position - reach), marks)
        is_last = position - start > most_bytes
        if is_last:  # the nearest known boundary gives fewer batches
            start = known_boundary(reader, position, marks)
        if position - start > most_bytes:
            return best
        found: deque[int] = deque(maxlen=count)
        for window in windows(reader, start, position, verify_crc=False):
            found.extend(row.position for row in window.rows())
        if found:
            best = found[0]
        if is_last or start == 0 or len(found) >= count:
            return best
        reach *= 4


def position_of_offset(reader: SegmentReader, offset: int, *, most_bytes: int, start: int | None = None) -> int | None:
    """Return the position of the batch with ``offset``, or of the first one after it.

    The walk begins at ``start``, a boundary at or before that batch, or at an index entry. Return None if that is more
    than about ``most_bytes`` away, or if no batch follows before the end or damage.
    """
    at = reader.position_of(offset) if start is None else start
    for window in windows(reader, at, reader.size, verify_crc=False):
        for row in window.rows():
            if row.last_offset >= offset:
                return row.position
        most_bytes -= window.bytes_read
        if most_bytes <= 0:
            return None
    return None
