"""Which batches of a segment get an index entry: the plain twin of kernel/_index_build.pyx.

A batch gets an entry in the offset index when more than ``interval_bytes`` were written since the last entry, counted
before the batch itself; the time index then gets the largest timestamp so far with the last offset of the first batch
that has it (whether that entry is really written, only where it grew, is the caller's concern).
Source of the rule: Kafka's ``LogSegment.append`` and ``LogSegment.recover`` (4.1: one rule for both).

State goes in and comes out as four integers, so that a segment may be fed in chunks:
``bytes_since_entry``, ``best_timestamp`` (-1: none yet), ``offset_of_best``, ``last_entry_offset`` (below every offset
of the segment while the index is empty).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IndexState = tuple[int, int, int, int]
Selection = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64], IndexState, int]


def select_index_entries(
    size: npt.NDArray[np.int32],
    last_offset: npt.NDArray[np.int64],
    max_timestamp: npt.NDArray[np.int64],
    interval_bytes: int,
    bytes_since_entry: int,
    best_timestamp: int,
    offset_of_best: int,
    last_entry_offset: int,
) -> Selection:
    """Rows that get an entry, the largest timestamp at each and its offset, the state after, and the bad row.

    The bad row is -1, or the first row that would get an entry although its last offset is not above the one of the
    entry before (Kafka's InvalidOffsetException); selection stops there.
    """
    if not len(size) == len(last_offset) == len(max_timestamp):
        raise ValueError(f"columns of {len(size)}, {len(last_offset)} and {len(max_timestamp)} rows")
    rows: list[int] = []
    timestamps: list[int] = []
    offsets: list[int] = []
    bad_row = -1
    columns = zip(size.tolist(), last_offset.tolist(), max_timestamp.tolist(), strict=True)
    for row, (batch_size, batch_last_offset, batch_timestamp) in enumerate(columns):
        if batch_timestamp > best_timestamp:
            best_timestamp, offset_of_best = batch_timestamp, batch_last_offset
        if bytes_since_entry > interval_bytes:
            if batch_last_offset <= last_entry_offset:
                bad_row = row
                break
            rows.append(row)
            timestamps.append(best_timestamp)
            offsets.append(offset_of_best)
            last_entry_offset = batch_last_offset
            bytes_since_entry = 0
        bytes_since_entry += batch_size
    return (
        np.array(rows, dtype=np.int32),
        np.array(timestamps, dtype=np.int64),
        np.array(offsets, dtype=np.int64),
        (bytes_since_entry, best_timestamp, offset_of_best, last_entry_offset),
        bad_row,
    )
