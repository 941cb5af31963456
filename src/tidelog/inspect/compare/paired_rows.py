"""Two replicas' batches, read side by side: equal counts of rows, or rows up to an equal offset.

A side holds one chunk of its log at a time. Thread rule: one thread.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.inspect.compare.difference import BatchPlace
from tidelog.kernel import scan_batches
from tidelog.kernel.table import COLUMNS
from tidelog.runtime.progress import Advance
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import ReadRange, Rows

HEADER_FIELDS: Final = tuple(name for name, _ in COLUMNS if name not in ("position", "crc_ok", "header_ok"))
"""The columns of the batch table that replicas share. Positions differ: each replica rolls its segments by itself."""


class RowsInTurn:
    """The batches of one replica in a range of offsets."""

    def __init__(self, view: LogView, start: int, end: int, advance: Advance, *, verify_crc: bool) -> None:
        self._advance = advance
        self._chunks = iter(view.batches(ReadRange(start=start, end=end, control=True), verify_crc=verify_crc))
        self._rows: Rows | None = None
        """The rows that were read and not yet taken; never empty."""

    def fill(self) -> bool:
        """Read a chunk if all rows are taken. Return False at the end. Raise CorruptRecordError for invalid bytes."""
        if self._rows is None:
            self._rows = next(self._chunks, None)
            if self._rows is not None:
                self._advance(int(self._rows.table.size.sum()))
        return self._rows is not None

    @property
    def count(self) -> int:
        return 0 if self._rows is None else len(self._rows.table)

    @property
    def last_offset(self) -> int | None:
        """The last offset of the rows that are not yet taken."""
        return None if self._rows is None else int(self._rows.table.last_offset[-1])

    def take(self, count: int) -> Rows | None:
        """Return the next ``count`` rows, at most those of one chunk; None if there are none."""
        rows = self._rows
        if rows is None or not count:
            return None
        self._rows = rows._replace(table=rows.table.take(slice(count, None))) if count < len(rows.table) else None
        return rows._replace(table=rows.table.take(slice(0, count)))

    def take_to(self, last_offset: int) -> Rows | None:
        """Return the rows of the chunk with offsets up to ``last_offset``; None if there are none.

        A row that ends above it comes last. It stays here too, for its other offsets.
        """
        rows = self._rows
        if rows is None:
            return None
        count = int(np.searchsorted(rows.table.last_offset, last_offset, side="right"))
        is_end = bool(count) and int(rows.table.last_offset[count - 1]) == last_offset
        taken = rows.table.take(slice(0, count if is_end else count + 1))
        self.take(count)
        return rows._replace(table=taken)


def place_of(rows: Rows, row: int) -> BatchPlace:
    """Return the place of a batch, with the state of its CRC."""
    found = rows.table.row(row)
    data = rows.buffer[found.position - rows.base_position :][: found.size]
    return BatchPlace(path=rows.path, row=scan_batches(data, base_position=found.position).row(0))


def differing_fields(left: BatchPlace, right: BatchPlace) -> tuple[str, ...]:
    return tuple(name for name in HEADER_FIELDS if getattr(left.row, name) != getattr(right.row, name))


def equal_headers(left: Rows, right: Rows) -> npt.NDArray[np.bool_]:
    """Return a bool per row: True if all header fields are equal. Both have the same number of rows."""
    equal = np.ones(len(left.table), np.bool_)
    for name in HEADER_FIELDS:
        equal &= getattr(left.table, name) == getattr(right.table, name)
    return equal


def first_differing_byte(left: Rows, right: Rows, count: int) -> tuple[int, int] | None:
    """Return the row and the byte in its batch of the first difference in the first ``count`` rows, or None.

    The rows have equal sizes and follow each other without a gap, so they are one run of bytes on each side.
    """
    if not count:
        return None
    ours, theirs = _bytes_of(left, count), _bytes_of(right, count)
    import pyarrow as pa  # here, because other commands import this module and compare nothing

    if pa.py_buffer(ours).equals(pa.py_buffer(theirs)):
        return None
    at = int(np.argmax(np.frombuffer(ours, np.uint8) != np.frombuffer(theirs, np.uint8)))
    starts = left.table.position[:count] - left.table.position[0]
    row = int(np.searchsorted(starts, at, side="right")) - 1
    return row, at - int(starts[row])


def _bytes_of(rows: Rows, count: int) -> memoryview:
    last = rows.table.row(count - 1)
    first = int(rows.table.position[0]) - rows.base_position
    return rows.buffer[first : last.position + last.size - rows.base_position]
