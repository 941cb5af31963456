"""The selection of index entries. This is the twin of _index_build.pyx, which has the contract."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.model.offsets import MAX_RELATIVE_OFFSET

IndexState = tuple[int, int, int, int]


def select_index_entries(
    position: npt.NDArray[np.int64],
    size: npt.NDArray[np.int32],
    last_offset: npt.NDArray[np.int64],
    max_timestamp: npt.NDArray[np.int64],
    base_offset: int,
    interval_bytes: int,
    state: IndexState,
) -> tuple[npt.NDArray[np.int64], IndexState, int]:
    if not len(position) == len(size) == len(last_offset) == len(max_timestamp):
        raise ValueError(f"columns of {len(position)}, {len(size)}, {len(last_offset)}, {len(max_timestamp)} rows")
    if interval_bytes < 0:
        raise ValueError(f"an interval of {interval_bytes} bytes")
    bytes_since_entry, best_timestamp, offset_of_best, last_entry_offset = state
    entries: list[tuple[int, int, int, int]] = []
    bad_row = -1
    columns = zip(position.tolist(), size.tolist(), last_offset.tolist(), max_timestamp.tolist(), strict=True)
    for row, (at, batch_size, batch_last_offset, batch_timestamp) in enumerate(columns):
        if not 0 <= batch_last_offset - base_offset <= MAX_RELATIVE_OFFSET:
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
