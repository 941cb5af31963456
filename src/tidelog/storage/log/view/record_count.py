"""The exact number of records between two offsets.

Their distance is not enough: compaction leaves gaps, and transaction markers take offsets.

=================  =================================================================================================
records            data records, including those of aborted and open transactions; compacted records do not count
control_records    markers and other control records, which no consumer gets
offsets            ``end - start``, with any content
=================  =================================================================================================

Batch headers hold record counts. Only batches across a bound, and compressed v0 and v1 sets without a count, are
decoded. CRCs are checked. Reads only; memory use does not depend on the range.
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
    """The contents of ``[start, end)``; see the module's table."""

    start: int
    end: int
    records: int
    control_records: int

    @property
    def offsets(self) -> int:
        return self.end - self.start


def count_records(batches: Iterable[Rows], start: int, end: int) -> RecordCount:
    """Count the records of ``batches``, which have records in ``[start, end)``, control batches included.

    Raise CorruptRecordError for unreadable records.
    """
    records = control_records = 0
    for rows in batches:
        counts = counts_of(rows, start, end)
        in_control = int(counts[rows.table.is_control].sum())
        records += int(counts.sum()) - in_control
        control_records += in_control
    return RecordCount(start=start, end=end, records=records, control_records=control_records)


def counts_of(rows: Rows, start: int, end: int) -> NDArray[np.int64]:
    """Return each batch's number of records in ``[start, end)``. Raise CorruptRecordError for unreadable records."""
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
