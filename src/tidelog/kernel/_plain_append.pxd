# The append of one plain batch, for kernels that take batches out of requests.
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.kernel._log_offsets cimport LogOffsets
from tidelog.kernel._validate cimport ProduceRules

cdef class PlainAppends:
    cdef object state, lifecycle, lock, segments, epochs, topic, producers, entries, dirty
    cdef LogOffsets offsets
    cdef ProduceRules rules
    cdef bint is_possible
    cdef object result_type, stats
    cdef object append_at(
        self, object frame, uint8_t* p, Py_ssize_t start, Py_ssize_t size, int32_t leader_epoch, int64_t now_ms,
        bint is_replicated
    )
    cdef object append_locked(
        self, object buffer, uint8_t* p, Py_ssize_t size, int32_t leader_epoch, int64_t now_ms, bint is_replicated
    )
    cdef object append_held(
        self, object buffer, uint8_t* p, Py_ssize_t size, int32_t leader_epoch, int64_t now_ms, bint is_replicated
    )
    cdef object continued(self, const uint8_t* p, int64_t producer_id)
