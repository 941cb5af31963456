# cython: boundscheck=False, wraparound=False, cdivision=True
"""Which batches of a segment get an index entry, compiled. Contract and plain twin: kernel/reference/index_build.py."""

import numpy as np

from libc.stdint cimport int32_t, int64_t


def select_index_entries(
    const int32_t[:] size,
    const int64_t[:] last_offset,
    const int64_t[:] max_timestamp,
    int64_t interval_bytes,
    int64_t bytes_since_entry,
    int64_t best_timestamp,
    int64_t offset_of_best,
    int64_t last_entry_offset,
):
    cdef Py_ssize_t n = size.shape[0]
    cdef Py_ssize_t row
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t bad_row = -1
    if last_offset.shape[0] != n or max_timestamp.shape[0] != n:
        raise ValueError(f"columns of {n}, {last_offset.shape[0]} and {max_timestamp.shape[0]} rows")
    rows_array = np.empty(n, dtype=np.int32)
    timestamps_array = np.empty(n, dtype=np.int64)
    offsets_array = np.empty(n, dtype=np.int64)
    cdef int32_t[:] rows = rows_array
    cdef int64_t[:] timestamps = timestamps_array
    cdef int64_t[:] offsets = offsets_array
    with nogil:
        for row in range(n):
            if max_timestamp[row] > best_timestamp:
                best_timestamp = max_timestamp[row]
                offset_of_best = last_offset[row]
            if bytes_since_entry > interval_bytes:
                if last_offset[row] <= last_entry_offset:
                    bad_row = row
                    break
                rows[count] = <int32_t>row
                timestamps[count] = best_timestamp
                offsets[count] = offset_of_best
                count += 1
                last_entry_offset = last_offset[row]
                bytes_since_entry = 0
            bytes_since_entry += size[row]
    return (
        rows_array[:count].copy(),
        timestamps_array[:count].copy(),
        offsets_array[:count].copy(),
        (bytes_since_entry, best_timestamp, offset_of_best, last_entry_offset),
        bad_row,
    )
