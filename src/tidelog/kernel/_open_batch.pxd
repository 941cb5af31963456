# A batch of a table with its records as plain v2 bytes, for any format and codec; without Python objects.
# _map_keys.pyx and _clean.pyx use it. Their argument `opened` has the rows that the caller opened: the
# decompressed records of a compressed batch, or a v2 batch for a legacy one.

from cpython.buffer cimport Py_buffer
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t

from tidelog.kernel._bytes cimport PREFIX, V2_ATTRIBUTES, V2_HEADER, V2_LENGTH, V2_MAGIC, V2_MIN_RECORD, tl_load32
from tidelog.kernel._faults cimport FAULT_CRC, FAULT_HEADER, FAULT_NONE, FAULT_RECORD_COUNT
from tidelog.kernel._header cimport Header, read_header
from tidelog.kernel._records cimport read_record, tl_record, tl_usual_record, walk_headers

cdef enum:
    # The numbers of faults.py, which differ from the FAULT_* numbers and NO_MEMORY.
    NOT_IN_BUFFER = 101
    NOT_OPENED = 102
    NO_OPENED_BATCH = 103
    EMPTY_LEGACY = 104
    TOO_LARGE = 105
    CODEC = 0x07
    LEGACY_ATTRIBUTES = 17

# A legacy batch has its opened batch's `header` and records; `codec` is its own.
cdef struct OpenBatch:
    const uint8_t* whole
    Py_ssize_t size
    const uint8_t* records  # NULL if they were not opened
    const uint8_t* end
    Header header
    uint8_t codec
    bint is_legacy


# Open the batch at `data[index]`; `opened` is its opened batch, or NULL. All fields are read again from the batch's own
# header, so that a wrong table can do no harm.
cdef inline int open_batch(
    const uint8_t* data, Py_ssize_t length, int64_t index, bint crc_ok, const Py_buffer* opened, OpenBatch* batch
) noexcept nogil:
    cdef const uint8_t* p
    cdef int32_t size
    batch.whole = batch.records = batch.end = NULL
    batch.header.record_count = 0
    if index < 0 or index > length or length - index <= V2_MAGIC:
        return NOT_IN_BUFFER
    p = data + index
    size = <int32_t>tl_load32(p + V2_LENGTH)
    if size > length - index - PREFIX or size < (V2_HEADER if p[V2_MAGIC] == 2 else LEGACY_ATTRIBUTES + 1) - PREFIX:
        return NOT_IN_BUFFER
    batch.whole = p
    batch.size = PREFIX + size
    if not crc_ok:
        return FAULT_CRC
    batch.is_legacy = p[V2_MAGIC] != 2
    batch.codec = p[LEGACY_ATTRIBUTES if batch.is_legacy else V2_ATTRIBUTES + 1] & CODEC
    if opened != NULL and opened.buf == NULL:
        opened = NULL
    if batch.is_legacy:
        if opened == NULL:
            return FAULT_NONE
        p = <const uint8_t*>opened.buf
        if opened.len < V2_HEADER or p[V2_MAGIC] != 2:
            return NO_OPENED_BATCH
        batch.records = p + V2_HEADER
        batch.end = p + opened.len
    elif not batch.codec:
        batch.records = p + V2_HEADER
        batch.end = p + batch.size
    elif opened != NULL:
        batch.records = <const uint8_t*>opened.buf
        batch.end = batch.records + opened.len
    read_header(p, &batch.header)
    return FAULT_NONE


# Return FAULT_NONE if the records may be read: they exist, and the header agrees with itself and their bytes.
cdef inline int check_batch(const OpenBatch* batch) noexcept nogil:
    cdef const Header* header = &batch.header
    if batch.records == NULL and (batch.is_legacy or header.record_count):
        return NOT_OPENED
    if header.last_offset_delta < 0 or header.base_offset < 0:
        return FAULT_HEADER
    if header.base_offset > INT64_MAX - header.last_offset_delta:
        return FAULT_HEADER
    if header.record_count < 0 or header.record_count - 1 > header.last_offset_delta:
        return FAULT_HEADER
    if <int64_t>header.record_count * V2_MIN_RECORD > batch.end - batch.records:
        return FAULT_RECORD_COUNT
    return FAULT_NONE


# Read the record at `p` and check its headers.
cdef inline int next_record(
    const uint8_t* p, const uint8_t* end, int64_t last_delta, tl_record* record
) noexcept nogil:
    cdef int fault
    if not tl_usual_record(p, end, last_delta, record):
        fault = read_record(p, end, last_delta, record)
        if fault:
            return fault
    if record.stop - record.rest == 1 and record.rest[0] == 0:  # most records have no headers
        return FAULT_NONE
    return walk_headers(NULL, False, record.rest, record.stop)
