# The append of plain batches, for kernels that take batches out of requests.
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.kernel._log_end cimport AppendedBatch, SegmentEnd
from tidelog.kernel._log_offsets cimport LogOffsets
from tidelog.kernel._validate cimport ProduceRules

cdef class PlainAppends:
    cdef object state, lifecycle, process, lock, segments, epochs, topic, producers, entries, dirty
    cdef LogOffsets offsets
    cdef ProduceRules rules
    cdef bint is_possible
    cdef type result_type
    cdef object stats
    cdef Py_ssize_t append_run(
        self, object buffers, AppendedBatch* batches, Py_ssize_t count, int32_t leader_epoch, int64_t now_ms,
        bint is_replicated
    ) except -1
    cdef Py_ssize_t append_held(
        self, object buffers, AppendedBatch* batches, Py_ssize_t count, int32_t leader_epoch, int64_t now_ms,
        bint is_replicated
    ) except -1
    cdef bint check(
        self, AppendedBatch* batches, Py_ssize_t i, int64_t first, Py_ssize_t bytes_before, SegmentEnd segment,
        int64_t now_ms
    ) except -1
    cdef object continued(self, const uint8_t* p, int64_t producer_id)
