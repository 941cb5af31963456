# The reads of the plain case, for kernels that write them into responses.
from libc.stdint cimport int64_t

from tidelog.kernel._log_end cimport SegmentEnd
from tidelog.kernel._log_offsets cimport LogOffsets

cdef struct ReadOffsets:
    int64_t log_start
    int64_t high_watermark

cdef class PlainReads:
    cdef object state, lifecycle, segments
    cdef LogOffsets offsets
    cdef SegmentEnd place_segment
    cdef int64_t place_offset, place_position
    cdef object place_truncations
    cdef object read(
        self, int64_t start, int64_t max_bytes, bint is_committed, bint is_first, Py_ssize_t copied_bytes,
        ReadOffsets* found
    )
    cdef object at_place(self, int64_t size)
    cdef int remember(self, SegmentEnd segment, int64_t offset, int64_t position) except -1
    cdef int remember_end(self, SegmentEnd segment, int64_t position, bytes data) except -1
