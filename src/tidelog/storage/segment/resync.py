"""The search for the next valid batch after damaged bytes.

If the damaged batch's length field is right, the next batch lies where it points. Otherwise each byte may be a batch's
start: first format, length and offset are checked (for a complete window at a time), then the CRC. Reads only.
"""

from __future__ import annotations

import numpy as np

from tidelog.storage.segment.segment_reader import SegmentReader

_WINDOW_BYTES = 1024 * 1024
_LENGTH_AT = 8
_MAGIC_AT = 16
_PREFIX_BYTES = 12
"""The offset and length fields, which the length does not count."""
_SMALLEST = (14, 14, 49)
"""The smallest length field by format version."""


def next_sound_batch(
    reader: SegmentReader, bad: int, end: int | None, first_offset: int, end_offset: int
) -> int | None:
    """Return the position of the first valid batch after the damaged one at ``bad``, below byte ``end``, or None.

    A valid batch has a correct CRC, a correct header, and a first offset in ``[first_offset, end_offset)``.
    """
    size = reader.size
    end = size if end is None else min(end, size)
    neighbour = _neighbour(reader, bad, end)
    if neighbour is not None and _is_sound(reader, neighbour, end, first_offset, end_offset):
        return neighbour
    position = bad + 1
    while position < end:
        window = reader.read(position, min(_WINDOW_BYTES + _MAGIC_AT, end - position))
        if len(window) <= _MAGIC_AT:
            return None
        for candidate in _candidates(window, end - position, first_offset, end_offset):
            if _is_sound(reader, position + candidate, end, first_offset, end_offset):
                return position + candidate
        position += _WINDOW_BYTES
    return None


def _candidates(window: memoryview, available: int, first_offset: int, end_offset: int) -> list[int]:
    """Return the indexes in ``window`` at which the fields of a batch header are plausible."""
    count = min(len(window) - _MAGIC_AT, _WINDOW_BYTES)
    offsets = np.ndarray((count,), ">i8", buffer=window, strides=(1,))
    lengths = np.ndarray((count,), ">i4", buffer=window, offset=8, strides=(1,))
    magic = np.ndarray((count,), np.uint8, buffer=window, offset=_MAGIC_AT)
    plausible = (magic <= 2) & (offsets >= first_offset) & (offsets < end_offset)
    rows = np.flatnonzero(plausible)
    smallest = np.array(_SMALLEST)[magic[rows]]
    fits = (lengths[rows] >= smallest) & (rows + _PREFIX_BYTES + lengths[rows].astype(np.int64) <= available)
    return [int(row) for row in rows[fits]]


def _neighbour(reader: SegmentReader, bad: int, end: int) -> int | None:
    """Return the position of the next batch by the damaged batch's length field, or None."""
    length = int.from_bytes(reader.read(bad + _LENGTH_AT, _PREFIX_BYTES - _LENGTH_AT), "big", signed=True)
    position = bad + _PREFIX_BYTES + length
    return position if length > 0 and position < end else None


def _is_sound(reader: SegmentReader, position: int, end: int, first_offset: int, end_offset: int) -> bool:
    chunk = next(reader.chunks(position, end, chunk_bytes=64 * 1024), None)
    if chunk is None or not len(chunk.table):
        return False
    row = chunk.table.row(0)
    return row.crc_ok and row.header_ok and first_offset <= row.base_offset < end_offset
