"""Find the next good batch behind bytes that make no sense.

Where the length field is right, the next batch stands where it says. A damaged length field takes the walk out of step;
then every byte is tried as a batch's start: format, length and offset fields that fit (whole windows at a time), then
the CRC.
Reads only. Called by: reads that skip corrupt batches, verify (which names the next good batch).
"""

from __future__ import annotations

import numpy as np

from tidelog.storage.segment.segment_reader import SegmentReader

_WINDOW_BYTES = 1024 * 1024
_LENGTH_AT = 8
_MAGIC_AT = 16
_PREFIX_BYTES = 12
"""Offset and length fields, which the length does not count."""
_SMALLEST = (14, 14, 49)
"""Smallest length field by format version."""


def next_sound_batch(
    reader: SegmentReader, bad: int, end: int | None, first_offset: int, end_offset: int
) -> int | None:
    """Position of the first good batch behind the bad one at ``bad``, below byte ``end``.

    Good: the CRC fits and the batch begins with an offset in ``[first_offset, end_offset)``.
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
    """Indexes in ``window`` at which the fields of a batch header are plausible."""
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
    """Where the length field of the bad batch says that the next one begins."""
    length = int.from_bytes(reader.read(bad + _LENGTH_AT, _PREFIX_BYTES - _LENGTH_AT), "big", signed=True)
    position = bad + _PREFIX_BYTES + length
    return position if length > 0 and position < end else None


def _is_sound(reader: SegmentReader, position: int, end: int, first_offset: int, end_offset: int) -> bool:
    chunk = next(reader.chunks(position, end, chunk_bytes=64 * 1024), None)
    if chunk is None or not len(chunk.table):
        return False
    row = chunk.table.row(0)
    return row.crc_ok and row.header_ok and first_offset <= row.base_offset < end_offset
