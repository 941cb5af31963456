# cython: boundscheck=False, wraparound=False, cdivision=True
"""The index entries for a segment's batches.

A batch gets an entry in the offset index if more than ``interval_bytes`` were written since the last entry, without the
batch itself. At that moment the time index is offered the largest timestamp so far, with the last offset of the first
batch that has it. The caller takes the offer only if the timestamp grew.
Source of the rule: Kafka's ``LogSegment.append`` and ``LogSegment.recover`` (4.1: one rule for both).

The state is passed in and returned as four integers, so that a segment can come in chunks: the bytes since the last
entry, the largest timestamp (-1: none yet), its offset, and the last entry's offset (below every offset of the segment
while the index is empty).
"""

import numpy as np

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint64_t


def select_index_entries(
    const int64_t[:] position,
    const int32_t[:] size,
    const int64_t[:] last_offset,
    const int64_t[:] max_timestamp,
    int64_t base_offset,
    int64_t interval_bytes,
    state,
):
    """Return the entries as four int64 rows (offset, position, timestamp, its offset), the new state, the bad row.

    Sizes are above zero. The bad row is -1, or the first batch whose last offset is not within 31 bits above the base
    offset, or would not ascend in the index (Kafka's InvalidOffsetException). Selection stops before it.
    """
    cdef Py_ssize_t n = size.shape[0]
    cdef Py_ssize_t row = 0
    cdef Py_ssize_t count = 0
    cdef int64_t bytes_since_entry, best_timestamp, offset_of_best, last_entry_offset
    cdef int64_t total = 0
    bytes_since_entry, best_timestamp, offset_of_best, last_entry_offset = state
    if not n == position.shape[0] == last_offset.shape[0] == max_timestamp.shape[0]:
        raise ValueError(f"columns of {position.shape[0]}, {n}, {last_offset.shape[0]}, {max_timestamp.shape[0]} rows")
    if interval_bytes < 0:
        raise ValueError(f"an interval of {interval_bytes} bytes")
    # An entry needs more than interval_bytes since the previous one, so this many fit (sizes are above zero).
    for row in range(n):
        total += size[row]
    cdef Py_ssize_t room = min(n, (bytes_since_entry + total) // (interval_bytes + 1) + 1)
    entries = np.empty((4, room), dtype=np.int64)
    cdef int64_t[:, ::1] out = entries
    cdef bint sound = True
    with nogil:
        for row in range(n):
            # Unsigned, an offset below the base is far above the limit.
            if <uint64_t>(<uint64_t>last_offset[row] - <uint64_t>base_offset) > INT32_MAX:
                sound = False
                break
            if max_timestamp[row] > best_timestamp:
                best_timestamp = max_timestamp[row]
                offset_of_best = last_offset[row]
            if bytes_since_entry > interval_bytes:
                if last_offset[row] <= last_entry_offset or count >= room:
                    sound = False
                    break
                out[0, count] = last_offset[row]
                out[1, count] = position[row]
                out[2, count] = best_timestamp
                out[3, count] = offset_of_best
                count += 1
                last_entry_offset = last_offset[row]
                bytes_since_entry = 0
            bytes_since_entry += size[row]
    return (
        entries[:, :count],
        (bytes_since_entry, best_timestamp, offset_of_best, last_entry_offset),
        -1 if sound else row,
    )
