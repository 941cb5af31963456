# The parts that plain requests share: the header, a topic, compact lengths. Source: Kafka's ``RequestHeader.json`` v2.

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from tidelog.kernel._bytes cimport tl_is_utf8, tl_load16, tl_load32

cdef enum:
    UP_TO_CLIENT_ID = 10
    NO_ITEM = 1  # the lengths of compact arrays and strings count one more
    ONE_ITEM = 2
    ID_BYTES = 16
    LONGEST_NAME = 249

cdef struct RequestHeader:
    int version
    int32_t correlation_id
    Py_ssize_t body  # the position after the header


cdef inline bint read_header(
    const uint8_t* p, Py_ssize_t size, int api, int oldest, int latest, RequestHeader* header
) noexcept:
    """Read a header without tagged fields. Return False unless it has the API and a version from oldest to latest."""
    cdef Py_ssize_t at = UP_TO_CLIENT_ID
    cdef int16_t client_bytes
    if size < UP_TO_CLIENT_ID or tl_load16(p) != api:
        return False
    header.version = tl_load16(p + 2)
    if not oldest <= header.version <= latest:
        return False
    header.correlation_id = <int32_t>tl_load32(p + 4)
    client_bytes = <int16_t>tl_load16(p + 8)
    if client_bytes < -1:
        return False
    at += max(client_bytes, 0)
    if size <= at or p[at]:
        return False
    header.body = at + 1
    return client_bytes <= 0 or tl_is_utf8(p + UP_TO_CLIENT_ID, p + at)


cdef inline Py_ssize_t read_length(const uint8_t* p, Py_ssize_t size, Py_ssize_t at, int64_t* length) noexcept:
    """Read a compact length. Return the position after it, or -1 if it is incomplete or longer than usual."""
    cdef uint64_t value = 0
    cdef int shift = 0
    while at < size and shift <= 28:
        value |= <uint64_t>(p[at] & 0x7F) << shift
        at += 1
        if p[at - 1] < 0x80:
            length[0] = <int64_t>value - 1
            return at
        shift += 7
    return -1


cdef inline Py_ssize_t write_length(uint8_t* p, Py_ssize_t at, uint64_t length) noexcept:
    """Write a compact length of up to five bytes. Return the position after it."""
    length += 1
    while length >= 0x80:
        p[at] = <uint8_t>(length & 0x7F | 0x80)
        length >>= 7
        at += 1
    p[at] = <uint8_t>length
    return at + 1


cdef inline Py_ssize_t read_topic(
    const uint8_t* p, Py_ssize_t size, Py_ssize_t at, bint has_id, Py_ssize_t* start
) noexcept:
    """Read a topic's id or name, which begins at ``start`` then. Return the position after it, or -1."""
    cdef int64_t length = ID_BYTES
    if not has_id:
        at = read_length(p, size, at, &length)
        if at < 0 or not 0 < length <= LONGEST_NAME:
            return -1
    start[0] = at
    return at + length if size - at >= length else -1


cdef class PlainPartitions:
    cdef object find
    cdef dict known
    cdef object key(self, const uint8_t* topic, Py_ssize_t topic_bytes, int32_t index, bint is_id)
    cdef object get(self, bytes key)
    cdef int forget(self, bytes key) except -1
