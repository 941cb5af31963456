# Big-endian loads, stores and varints. See bytes.h for the bounds that each caller must check.

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "bytes.h" nogil:
    enum: TL_SLACK
    void tl_copy(uint8_t*, const uint8_t*, size_t, const uint8_t*)
    uint16_t tl_load16(const uint8_t*)
    uint32_t tl_load32(const uint8_t*)
    uint64_t tl_load64(const uint8_t*)
    void tl_store16(uint8_t*, uint16_t)
    void tl_store32(uint8_t*, uint32_t)
    void tl_store64(uint8_t*, uint64_t)
    int64_t tl_add64(int64_t, int64_t)
    int64_t tl_sub64(int64_t, int64_t)
    int tl_varint(const uint8_t*, const uint8_t*, int32_t*)
    int tl_varlong(const uint8_t*, const uint8_t*, int64_t*)
    int tl_size_varint(int32_t)
    int tl_size_varlong(int64_t)
    uint8_t* tl_put_varint(uint8_t*, int32_t)
    uint8_t* tl_put_varlong(uint8_t*, int64_t)
    int tl_is_utf8(const uint8_t*, const uint8_t*)

# The byte positions of a v2 batch's fields, from its first byte.
cdef enum:
    V2_LENGTH = 8
    V2_LEADER_EPOCH = 12
    V2_MAGIC = 16
    V2_CRC = 17
    V2_ATTRIBUTES = 21
    V2_LAST_OFFSET_DELTA = 23
    V2_BASE_TIMESTAMP = 27
    V2_MAX_TIMESTAMP = 35
    V2_PRODUCER_ID = 43
    V2_PRODUCER_EPOCH = 51
    V2_BASE_SEQUENCE = 53
    V2_RECORD_COUNT = 57
    V2_HEADER = 61
    V2_MIN_RECORD = 7
    PREFIX = 12
