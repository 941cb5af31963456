# The memory block of a BatchTable in C: the order and widths of ``COLUMNS`` in table.py (a test compares them).

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    COLUMN_COUNT = 16
    ROW_BYTES = 75

cdef struct Rows:
    int64_t* position
    int64_t* base_offset
    int64_t* last_offset
    int64_t* base_timestamp
    int64_t* max_timestamp
    int64_t* producer_id
    int32_t* size
    int32_t* record_count
    int32_t* leader_epoch
    int32_t* base_sequence
    uint32_t* crc
    int16_t* producer_epoch
    int16_t* attributes
    int8_t* magic
    uint8_t* crc_ok
    uint8_t* header_ok


# Point ``rows`` into a block of ``n`` rows.
cdef inline void bind_rows(Rows* rows, void* block, Py_ssize_t n) noexcept nogil:
    cdef int64_t* longs = <int64_t*>block
    cdef int32_t* ints
    cdef int16_t* shorts
    cdef int8_t* octets
    rows.position = longs
    rows.base_offset = longs + n
    rows.last_offset = longs + 2 * n
    rows.base_timestamp = longs + 3 * n
    rows.max_timestamp = longs + 4 * n
    rows.producer_id = longs + 5 * n
    ints = <int32_t*>(longs + 6 * n)
    rows.size = ints
    rows.record_count = ints + n
    rows.leader_epoch = ints + 2 * n
    rows.base_sequence = ints + 3 * n
    rows.crc = <uint32_t*>(ints + 4 * n)
    shorts = <int16_t*>(ints + 5 * n)
    rows.producer_epoch = shorts
    rows.attributes = shorts + n
    octets = <int8_t*>(shorts + 2 * n)
    rows.magic = octets
    rows.crc_ok = <uint8_t*>(octets + n)
    rows.header_ok = <uint8_t*>(octets + 2 * n)
