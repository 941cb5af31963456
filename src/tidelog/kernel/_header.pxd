# The 61 bytes before a v2 batch's records, read and written together.

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from tidelog.kernel._bytes cimport (
    PREFIX, V2_ATTRIBUTES, V2_BASE_SEQUENCE, V2_BASE_TIMESTAMP, V2_CRC, V2_HEADER, V2_LAST_OFFSET_DELTA,
    V2_LEADER_EPOCH, V2_LENGTH, V2_MAGIC, V2_MAX_TIMESTAMP, V2_PRODUCER_EPOCH, V2_PRODUCER_ID, V2_RECORD_COUNT,
    tl_load16, tl_load32, tl_load64, tl_store16, tl_store32, tl_store64,
)
from tidelog.kernel._crc cimport crc32c_of

cdef struct Header:
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t leader_epoch
    int32_t last_offset_delta
    int32_t base_sequence
    int32_t record_count
    int16_t attributes
    int16_t producer_epoch


# Read all fields except size and checksum; 61 bytes must be readable at `p`.
cdef inline void read_header(const uint8_t* p, Header* header) noexcept nogil:
    header.base_offset = <int64_t>tl_load64(p)
    header.leader_epoch = <int32_t>tl_load32(p + V2_LEADER_EPOCH)
    header.attributes = <int16_t>tl_load16(p + V2_ATTRIBUTES)
    header.last_offset_delta = <int32_t>tl_load32(p + V2_LAST_OFFSET_DELTA)
    header.base_timestamp = <int64_t>tl_load64(p + V2_BASE_TIMESTAMP)
    header.max_timestamp = <int64_t>tl_load64(p + V2_MAX_TIMESTAMP)
    header.producer_id = <int64_t>tl_load64(p + V2_PRODUCER_ID)
    header.producer_epoch = <int16_t>tl_load16(p + V2_PRODUCER_EPOCH)
    header.base_sequence = <int32_t>tl_load32(p + V2_BASE_SEQUENCE)
    header.record_count = <int32_t>tl_load32(p + V2_RECORD_COUNT)


# Write the header of the batch in [p, p + size) after its records, with the checksum last.
cdef inline void write_header(uint8_t* p, Py_ssize_t size, const Header* header) noexcept nogil:
    tl_store64(p, <uint64_t>header.base_offset)
    tl_store32(p + V2_LENGTH, <uint32_t>(size - PREFIX))
    tl_store32(p + V2_LEADER_EPOCH, <uint32_t>header.leader_epoch)
    p[V2_MAGIC] = 2
    tl_store16(p + V2_ATTRIBUTES, <uint16_t>header.attributes)
    tl_store32(p + V2_LAST_OFFSET_DELTA, <uint32_t>header.last_offset_delta)
    tl_store64(p + V2_BASE_TIMESTAMP, <uint64_t>header.base_timestamp)
    tl_store64(p + V2_MAX_TIMESTAMP, <uint64_t>header.max_timestamp)
    tl_store64(p + V2_PRODUCER_ID, <uint64_t>header.producer_id)
    tl_store16(p + V2_PRODUCER_EPOCH, <uint16_t>header.producer_epoch)
    tl_store32(p + V2_BASE_SEQUENCE, <uint32_t>header.base_sequence)
    tl_store32(p + V2_RECORD_COUNT, <uint32_t>header.record_count)
    tl_store32(p + V2_CRC, crc32c_of(p + V2_ATTRIBUTES, size - V2_ATTRIBUTES, 0))
