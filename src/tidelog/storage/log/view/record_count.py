"""How many records lie between two offsets, exactly. The distance of the offsets does not tell: compaction leaves gaps,
and the markers of transactions take offsets.

=================  =================================================================================================
records            data records; those of aborted and of open transactions count, records that compaction took do not
control_records    markers and other control records, which no consumer gets
offsets            ``end - start``, whatever lies between
=================  =================================================================================================

Headers say how many records a batch has. Only the two batches that the bounds cut are decoded, and compressed sets of
v0 and v1, whose headers do not say it. What the bytes of the batches are is checked (CRC), not believed.

Reads only; memory does not grow with the range. Called by: the view, reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import ColumnDecoder
from tidelog.record.decode import decode_columns
from tidelog.storage.log.view.row_stream import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCount:
    """What lies in ``[start, end)``; see the module's table."""

    start: int
    end: int
    records: int
    control_records: int

    @property
    def offsets(self) -> int:
        return self.end - self.start


def count_records(batches: Iterable[Rows], start: int, end: int) -> RecordCount:
    """``batches`` are those with records in ``[start, end)``, control batches among them. CorruptRecordError."""
    records = control_records = 0
    for rows in batches:
        counts = counts_of(rows, start, end)
        in_control = int(counts[rows.table.is_control].sum())
        records += int(counts.sum()) - in_control
        control_records += in_control
    return RecordCount(start=start, end=end, records=records, control_records=control_records)


def counts_of(rows: Rows, start: int, end: int) -> NDArray[np.int64]:
    """How many records with offsets in ``[start, end)`` each batch has. CorruptRecordError."""
    table = rows.table
    counts = table.record_count.astype(np.int64)
    cut = (table.base_offset < start) | (table.last_offset >= end) | (counts < 0)
    for row in np.flatnonzero(cut).tolist():
        counts[row] = _count_decoded(rows, row, start, end)
    return counts


def _count_decoded(rows: Rows, row: int, start: int, end: int) -> int:
    decoder = ColumnDecoder(keys=False, values=False, headers=False, start_offset=start, end_offset=end)
    one = rows.table.take(slice(row, row + 1))
    parts = decode_columns(rows.buffer, one, decoder, base_position=rows.base_position)
    return sum(len(columns.offset) for columns in parts)
