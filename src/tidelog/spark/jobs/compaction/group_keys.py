"""The distinct keys of one group of segments, each with its latest offset in the dirty part.

The code works on whole columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidelog.kernel import ColumnDecoder
from tidelog.record.arrow import to_array
from tidelog.record.decode import decode_columns
from tidelog.spark.jobs.compaction.keys import KEYS, newest
from tidelog.spark.jobs.compaction.spread_log import SpreadLog
from tidelog.storage.cleaner.clean.segment_chunks import validated_chunks
from tidelog.storage.log.view.transaction_scan import AbortedRanges
from tidelog.storage.segment.read_ahead import read_ahead
from tidelog.storage.segment.segment import LogSegment

_CHUNK_BYTES = 2 * 1024 * 1024
_MERGE_ROWS = 1_000_000
"""The most rows that are gathered before rows with the same key are merged."""


def keys_of_group(log: SpreadLog, number: int) -> pa.Table:
    """Return a table of ``KEYS``. ``latest`` is null for a key in the clean part only. Raise CorruptRecordError or
    StorageError."""
    merged, waiting, rows = KEYS.empty_table(), [], 0
    for segment in log.segments(number):
        for part in _keys(log, number, segment):
            waiting.append(part)
            rows += len(part)
            if rows >= _MERGE_ROWS:
                merged, waiting, rows = newest([merged, *waiting]), [], 0
    return newest([merged, *waiting])


def _keys(log: SpreadLog, number: int, segment: LogSegment) -> Iterator[pa.Table]:
    aborted = AbortedRanges.of(log.aborted)
    decoder = ColumnDecoder(values=False, headers=False)
    for chunk in read_ahead(validated_chunks(segment, 0, chunk_bytes=_CHUNK_BYTES)):
        table = chunk.table
        wanted = table.take(~(table.is_control | aborted.hits(table)))
        for columns in decode_columns(chunk.buffer, wanted, decoder, base_position=chunk.base_position):
            keys = to_array(columns, "key")
            latest = pa.array(columns.offset, mask=columns.offset < log.first_dirty)
            numbers = pa.array(np.full(len(columns), number, np.int32))
            yield pa.table([numbers, keys, latest], schema=KEYS).filter(keys.is_valid())
