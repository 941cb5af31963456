# The check of one produced batch, for kernels that append.
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef struct Rules:
    int64_t before_max_ms
    int64_t after_max_ms
    Py_ssize_t max_batch_bytes
    bint log_append_time
    bint require_keys
    bint from_client
    bint single_batch

cdef struct Outcome:
    int64_t max_timestamp
    int64_t offset_of_max_timestamp
    int64_t last_offset_of_max_batch
    int64_t record_count
    int32_t batch_count
    int32_t record_index
    Py_ssize_t size
    int problem
    int fault
    bint needs_decompression

cdef class ProduceRules:
    cdef Rules rules

cdef int take_batch(
    uint8_t* p,
    Py_ssize_t size,
    const Rules* rules,
    int64_t next_offset,
    int32_t leader_epoch,
    int64_t now_ms,
    Outcome* outcome,
) noexcept nogil
