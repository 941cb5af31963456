# cython: boundscheck=True, wraparound=False, cdivision=True
"""``encode_records``: Record tuples into the records of a batch, for appends of a few records.

It reads Python objects, so it holds the GIL. It makes room for each record before writing it.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from tidelog.kernel._bytes cimport tl_put_varint, tl_put_varlong, tl_size_varint, tl_size_varlong, tl_sub64

from tidelog.kernel.columns import Payload

cdef enum:
    INT32_LIMIT = 0x7fffffff


cdef inline Py_ssize_t part_size(bytes part) except -1:
    if part is None:
        return 1
    if PyBytes_GET_SIZE(part) > INT32_LIMIT - 64:
        raise OverflowError(f"a record of more than {PyBytes_GET_SIZE(part)} bytes")
    return tl_size_varint(<int32_t>PyBytes_GET_SIZE(part)) + PyBytes_GET_SIZE(part)


cdef inline uint8_t* put_part(uint8_t* p, bytes part) noexcept:
    cdef Py_ssize_t length
    if part is None:
        return tl_put_varint(p, -1)
    length = PyBytes_GET_SIZE(part)
    p = tl_put_varint(p, <int32_t>length)
    memcpy(p, PyBytes_AS_STRING(part), length)
    return p + length


cdef inline bytes as_bytes(object part):
    return part if part is None or type(part) is bytes else bytes(part)


cdef list header_parts(object headers):
    """Return key, value, key, value, … with UTF-8 keys."""
    parts = []
    for name, value in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's key must be str, not {type(name).__name__}")
        parts.append((<str>name).encode("utf-8"))
        parts.append(as_bytes(value))
    return parts


def encode_records(records, *, base_offset=None, base_timestamp=None):
    """Encode ``records``: tuples like model.Record, with offset, timestamp, key, value and headers.

    Deltas, result and errors are those of ``ColumnEncoder.payload``. Keys and values are bytes, other buffers, or None.
    """
    cdef bint keep_offsets = base_offset is not None
    cdef int64_t first_offset = base_offset if keep_offsets else 0
    cdef int64_t first_timestamp = -1 if base_timestamp is None else base_timestamp
    cdef int64_t max_timestamp = INT64_MIN, timestamp, delta = -1, offset_delta
    cdef int32_t count = 0
    cdef Py_ssize_t used = 0, length, size
    cdef bytes key, value
    cdef uint8_t* p
    data = PyByteArray_FromStringAndSize(NULL, 0)
    for record in records:
        offset, timestamp, _, raw_key, raw_value, headers = record
        key = as_bytes(raw_key)
        value = as_bytes(raw_value)
        parts = header_parts(headers) if headers else None
        if count == 0 and base_timestamp is None:
            first_timestamp = timestamp
        offset_delta = tl_sub64(offset, first_offset) if keep_offsets else count
        if offset_delta <= delta or offset_delta > INT32_LIMIT:
            raise ValueError("offsets do not ascend, or one lies outside the 31 bits above the base offset")
        delta = offset_delta
        length = 1 + tl_size_varlong(tl_sub64(timestamp, first_timestamp)) + tl_size_varint(<int32_t>delta)
        length += part_size(key) + part_size(value) + (tl_size_varint(<int32_t>(len(parts) // 2)) if parts else 1)
        if parts:
            for part in parts:
                length += part_size(part)
        size = length + (tl_size_varint(<int32_t>length) if length <= INT32_LIMIT else 5)
        if length > INT32_LIMIT or used > INT32_LIMIT - size:
            raise OverflowError("a record or a batch would be larger than 2 GiB")
        if used + size > len(data):
            PyByteArray_Resize(data, used + size + used // 2)
        p = <uint8_t*>PyByteArray_AS_STRING(data) + used
        p = tl_put_varint(p, <int32_t>length)
        p[0] = 0
        p = tl_put_varlong(p + 1, tl_sub64(timestamp, first_timestamp))
        p = tl_put_varint(p, <int32_t>delta)
        p = put_part(put_part(p, key), value)
        if parts:
            p = tl_put_varint(p, <int32_t>(len(parts) // 2))
            for part in parts:
                p = put_part(p, part)
        else:
            p[0] = 0
        used += size
        max_timestamp = max(max_timestamp, timestamp)
        count += 1
    PyByteArray_Resize(data, used)
    return Payload(data, count, delta, first_timestamp, max_timestamp if count else -1)
