"""The index entries for a segment's batches: the plain twin of kernel/_index_build.pyx.

A batch gets an entry in the offset index if more than ``interval_bytes`` were written since the last entry, without the
batch itself. At that moment the time index is offered the largest timestamp so far, with the last offset of the first
batch that has it. The caller takes the offer only if the timestamp grew.
Source of the rule: Kafka's ``LogSegment.append`` and ``LogSegment.recover`` (4.1: one rule for both).

The state is passed in and returned as four integers, so that a segment can come in chunks: the bytes since the last
entry, the largest timestamp (-1: none yet), its offset, and the last entry's offset (below every offset of the segment
while the index is empty).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IndexState = tuple[int, int, int, int]
_MAX_RELATIVE_OFFSET = 2**31 - 1


def select_index_entries(
    position: npt.NDArray[np.int64],
    size: npt.NDArray[np.int32],
    last_offset: npt.NDArray[np.int64],
    max_timestamp: npt.NDArray[np.int64],
    base_offset: int,
    interval_bytes: int,
    state: IndexState,
) -> tuple[npt.NDArray[np.int64], IndexState, int]:
    """Return the entries as four int64 rows (offset, position, timestamp, its offset), the new state, the bad row.

    Sizes are above zero. The bad row is -1, or the first batch whose last offset is not within 31 bits above the base
    offset, or would not ascend in the index (Kafka's InvalidOffsetException). Selection stops before it.
    """
    if not len(position) == len(size) == len(last_offset) == len(max_timestamp):
        raise ValueError(f"columns of {len(position)}, {len(size)}, {len(last_offset)}, {len(max_timestamp)} rows")
    if interval_bytes < 0:
        raise ValueError(f"an interval of {interval_bytes} bytes")
    bytes_since_entry, best_timestamp, offset_of_best, last_entry_offset = state
    entries: list[tuple[int, int, int, int]] = []
    bad_row = -1
    columns = zip(position.tolist(), size.tolist(), last_offset.tolist(), max_timestamp.tolist(), strict=True)
    for row, (at, batch_size, batch_last_offset, batch_timestamp) in enumerate(columns):
        if not 0 <= batch_last_offset - base_offset <= _MAX_RELATIVE_OFFSET:
            bad_row = row
            break
        if batch_timestamp > best_timestamp:
            best_timestamp, offset_of_best = batch_timestamp, batch_last_offset
        if bytes_since_entry > interval_bytes:
            if batch_last_offset <= last_entry_offset:
                bad_row = row
                break
            entries.append((batch_last_offset, at, best_timestamp, offset_of_best))
            last_entry_offset = batch_last_offset
            bytes_since_entry = 0
        bytes_since_entry += batch_size
    state = (bytes_since_entry, best_timestamp, offset_of_best, last_entry_offset)
    return np.array(entries, dtype=np.int64).reshape(-1, 4).T, state, bad_row
