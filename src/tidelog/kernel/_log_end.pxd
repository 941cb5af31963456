# The end of a segment and of its indexes, for kernels that append.
from libc.stdint cimport int64_t, uint8_t

# A batch that is appended: its bytes, its offsets, and its largest timestamp.
cdef struct AppendedBatch:
    uint8_t* p
    Py_ssize_t size
    int64_t first
    int64_t last
    int64_t max_timestamp

cdef class IndexEnd:
    cdef public int64_t _base_offset
    cdef public Py_ssize_t _count
    cdef public Py_ssize_t _length
    cdef public object _view
    cdef public bint _closed
    cdef int add(self, const uint8_t* entry, Py_ssize_t size) except -1

cdef class OffsetIndexEnd(IndexEnd):
    cdef public int64_t _last_offset
    cdef Py_ssize_t room(self) noexcept
    cpdef append(self, int64_t offset, int64_t position)

cdef class TimeIndexEnd(IndexEnd):
    cdef public int64_t _last_timestamp
    cdef public int64_t _last_offset
    cdef Py_ssize_t room(self) noexcept
    cpdef maybe_append(self, int64_t timestamp, int64_t offset, bint skip_full_check=*)

cdef class IndexProgress:
    cdef readonly int64_t _base_offset
    cdef readonly int64_t _interval_bytes
    cdef int64_t since_entry, largest_timestamp, offset_of_largest, last_entry_offset
    cpdef bint add_one(self, Py_ssize_t size, int64_t last_offset, int64_t max_timestamp) noexcept

cdef class SegmentEnd:
    cdef readonly int64_t base_offset
    cdef public int64_t _size
    cdef public int64_t _created_ms
    cdef int64_t segment_bytes, roll_after_ms, roll_start
    cdef public object _file_or_none
    cdef public object _indexes
    cdef public IndexProgress _builder
    cdef bint allows(
        self, int64_t end, int64_t last_offset, int64_t max_timestamp, int64_t start, int64_t now_ms
    ) noexcept nogil
    cpdef bint has_room_for(self, Py_ssize_t size, int64_t last_offset, int64_t max_timestamp, int64_t now_ms) except -1
    cdef bint takes(self, const AppendedBatch* batch, Py_ssize_t batches, Py_ssize_t bytes_before, int64_t now_ms) except -1
    cpdef append_one(self, data, Py_ssize_t size, int64_t last_offset, int64_t max_timestamp)
    cdef int append_run(self, list parts, const AppendedBatch* batches, Py_ssize_t count) except -1
    cdef int write(self, data) except -1
    cdef int add(self, int64_t start, Py_ssize_t size, int64_t last_offset, int64_t max_timestamp) except -1
