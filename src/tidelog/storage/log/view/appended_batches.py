"""The transactional batches that a running broker has appended since an earlier read, from headers alone.

The last batch of the earlier read proves that the log before it is the same: if its header still lies at its position,
the owner has truncated nothing below it. Headers are smaller than records, so a reader follows a log under load at
little cost. The broker has checked the records, and later damage is a matter for a full read.

Reads only.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.storage.log.view.row_stream import StateSource, valid_rows
from tidelog.storage.log.view.transaction_scan import BatchAt, TransactionRows, header_rows
from tidelog.storage.segment.segment_reader import SegmentReader


class LastBatch(NamedTuple):
    """A batch of the segment at ``base_offset``. ``header`` has the bytes before its records."""

    base_offset: int
    position: int
    end_position: int
    header: bytes

    @classmethod
    def below(cls, offset: int, base_offset: int, table: BatchTable, batch_at: BatchAt) -> Self | None:
        """Return the last batch of a segment's table whose records are all below an offset, or None."""
        count = int(np.searchsorted(table.last_offset, offset))
        if not count:
            return None
        row = table.row(count - 1)
        header = bytes(batch_at(row.position, min(row.size, V2_HEADER_BYTES)))
        return cls(base_offset, row.position, row.position + row.size, header)

    def lies_in(self, reader: SegmentReader) -> bool:
        """Return True if the segment still has the batch."""
        return bytes(reader.read(self.position, len(self.header))) == self.header


def read_appended(
    source: StateSource, last: LastBatch, high_watermark: int
) -> tuple[TransactionRows, LastBatch] | None:
    """Return the transactional batches and markers after ``last``, and the last batch below the high watermark.

    Return None if the log no longer has the batch, or if a header contradicts the log. Raise FileMissingError if the
    owner removes a segment meanwhile.
    """
    state = source.state
    segment = state.segments.floor(last.base_offset)
    if segment is None or segment.base_offset != last.base_offset:
        return None
    parts, position, is_first = [], last.end_position, True
    while segment is not None:
        following = state.segments.higher(segment.base_offset)
        end_offset = state.log_end.message_offset if following is None else following.base_offset
        end = state.end_position(segment)
        end = segment.size if end is None else end
        with segment.open(source.fs, source.directory) as reader:
            if is_first and not last.lies_in(reader):
                return None
            last_offset = segment.base_offset - 1
            for table in reader.headers(position, end):
                if valid_rows(table, last_offset, end_offset) < len(table):
                    return None
                last_offset, position = table.summary.last_offset, table.end_position
                parts.append(header_rows(table, reader.read))
                last = LastBatch.below(high_watermark, segment.base_offset, table, reader.read) or last
        if position != end:
            return None
        segment, position, is_first = following, 0, False
    return TransactionRows.concat(parts), last
