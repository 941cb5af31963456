# The offsets of a log, for kernels that append.
from libc.stdint cimport int64_t

cdef class LogOffsets:
    cdef readonly int64_t log_start
    cdef readonly object log_end
    cdef readonly object high_watermark
    cdef readonly int64_t recovery_point
    cdef readonly int64_t synced
    cdef object truncated_at
    cdef public object on_high_watermark
    cdef int move_log_end(self, object end) except -1
    cdef int move_high_watermark(self, object place) except -1
