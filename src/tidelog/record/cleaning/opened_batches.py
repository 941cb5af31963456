"""Opened batches for the kernels: decompressed records, or v2 batches for legacy ones.

=====================  ======================================================================================
row of the table       opened batch
=====================  ======================================================================================
v2, uncompressed       none: the kernel reads the row itself
v2, compressed         its decompressed records
v0, v1                 an uncompressed v2 batch of the same records, offsets and timestamps, whose base offset
                       is the first record's, as Kafka's cleaner builds it (since 4.0 it only writes v2)
=====================  ======================================================================================

A part of a table has at most PART_BYTES of opened batches plus one batch, whatever the compression ratio. A kernel
decompresses common LZ4 frames, many per call; the codec's library decompresses all others.

Pure; codecs and kernel work without the GIL. Thread rule: any thread. Source: Kafka's ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, open_lz4_frames
from tidelog.model import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from tidelog.record.attributes import CODEC_MASK, LZ4
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.record.cleaning.codec_turns import turn
from tidelog.record.codec.limit import MAX_DECOMPRESSED_BYTES
from tidelog.record.compression import decompress
from tidelog.record.legacy import read_messages
from tidelog.record.legacy_upgrade import as_v2
from tidelog.record.record_size import MAX_RECORD_BYTES, require_messages, require_records

if TYPE_CHECKING:
    from typing_extensions import Buffer

PART_BYTES: Final = 4 << 20


class OpenedPart(NamedTuple):
    rows: slice
    opened: list[Buffer | None] | None
    """An entry per row of the part, None for a row that the kernel reads itself; None if no row has one."""


def opened_parts(
    buffer: Buffer,
    table: BatchTable,
    wanted: npt.NDArray[np.bool_],
    *,
    base_position: int = 0,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[OpenedPart]:
    """Yield all rows of ``table``, part by part, at least one. Rows that are not ``wanted`` are not opened.

    Raise CorruptRecordError, UnsupportedCompressionError or, for a record above ``max_record_bytes``,
    InvalidRecordError with position and offset, after the parts before it.
    """
    codec = table.attributes & np.int16(CODEC_MASK)
    chosen = np.flatnonzero(wanted & ((codec != 0) & (table.record_count != 0) | (table.magic < 2)))
    first = 0
    opening = _Opening(memoryview(buffer).cast("B"), table, chosen, base_position, max_record_bytes)
    while len(opening.rows):
        opened = opening.next_part()
        last = int(opening.rows[0]) if len(opening.rows) else len(table)
        part: list[Buffer | None] = [None] * (last - first)
        for row, records in opened:
            part[row - first] = records
        yield OpenedPart(slice(first, last), part)
        first = last
    if first < len(table) or not len(table):
        yield OpenedPart(slice(first, len(table)), None)


class _Opening:
    """The opening of rows; ``rows`` are the remaining ones."""

    def __init__(
        self,
        view: memoryview,
        table: BatchTable,
        rows: npt.NDArray[np.int64],
        base_position: int,
        max_record_bytes: int,
    ) -> None:
        self.rows = rows
        self._view = view
        self._table = table
        self._max_record_bytes = max_record_bytes
        self._starts = table.position - base_position
        self._ends = self._starts + table.size
        self._are_frames = (table.attributes & np.int16(CODEC_MASK) == LZ4) & (table.magic == 2)
        """A mask of all rows: True for LZ4 frames, which the kernel may open."""

    def next_part(self) -> list[tuple[int, Buffer]]:
        opened: list[tuple[int, Buffer]] = []
        size = 0
        while len(self.rows) and size < PART_BYTES:
            done = len(opened)
            ahead, are_frames = self._ahead()
            open_rows = self._open_frames if are_frames else self._open_each
            size += open_rows(ahead, PART_BYTES - size, opened)
            self.rows = self.rows[len(opened) - done :]
        return opened

    def _ahead(self) -> tuple[npt.NDArray[np.int64], bool]:
        """Return the next rows of one kind, and whether they are LZ4 frames."""
        kinds = self._are_frames[self.rows]
        others = np.flatnonzero(kinds != kinds[0])
        return self.rows[: others[0]] if len(others) else self.rows, bool(kinds[0])

    def _open_frames(self, rows: npt.NDArray[np.int64], enough_bytes: int, opened: list[tuple[int, Buffer]]) -> int:
        """Open rows up to ``enough_bytes`` and add them to ``opened``; return their size in bytes."""
        data, ends = open_lz4_frames(
            self._view,
            self._starts[rows] + V2_HEADER_BYTES,
            self._ends[rows],
            enough_bytes=enough_bytes,
            max_bytes=MAX_DECOMPRESSED_BYTES,
        )
        done = size = 0
        for row, end in zip(rows.tolist(), ends.tolist(), strict=False):
            if end < 0:
                size += self._open(row, opened)
            else:
                self._require_sizes(row, data[done:end])
                opened.append((row, data[done:end]))
                done = end
        return size + done

    def _open_each(self, rows: npt.NDArray[np.int64], enough_bytes: int, opened: list[tuple[int, Buffer]]) -> int:
        """Open rows one by one as ``_open_frames`` does."""
        size = 0
        codec = int(self._table.attributes[rows[0]]) & CODEC_MASK
        with turn(codec, len(rows), int(self._table.size[rows].sum())):
            for row in rows.tolist():
                size += self._open(row, opened)
                if size >= enough_bytes:
                    break
        return size

    def _open(self, row: int, opened: list[tuple[int, Buffer]]) -> int:
        table = self._table
        entry = self._view[self._starts[row] : self._ends[row]]
        try:
            if table.magic[row] < 2:
                messages = read_messages(entry, checked=False)
                if table.attributes[row] & CODEC_MASK:
                    require_messages(messages, self._max_record_bytes)
                records: Buffer = as_v2(messages)
            else:
                records = decompress(int(table.attributes[row]) & CODEC_MASK, entry[V2_HEADER_BYTES:])
        except (CorruptRecordError, UnsupportedCompressionError, InvalidRecordError) as error:
            position, offset = int(table.position[row]), int(table.base_offset[row])
            raise type(error)(error.message, position=position, offset=offset) from None
        if table.magic[row] >= 2:
            self._require_sizes(row, records)
        opened.append((row, records))
        return memoryview(records).nbytes

    def _require_sizes(self, row: int, records: Buffer) -> None:
        try:
            require_records(records, self._max_record_bytes)
        except InvalidRecordError as error:
            position, offset = int(self._table.position[row]), int(self._table.base_offset[row])
            raise InvalidRecordError(error.message, position=position, offset=offset) from None
