# cython: boundscheck=True, wraparound=False, cdivision=True
"""``seal_batch``: it writes the header before encoded (and possibly compressed) records."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from tidelog.kernel._bytes cimport V2_HEADER
from tidelog.kernel._header cimport Header, write_header

cdef enum:
    INT32_LIMIT = 0x7fffffff


def seal_batch(
    records,
    *,
    int64_t base_offset=0,
    int32_t last_offset_delta,
    int32_t record_count,
    int64_t base_timestamp,
    int64_t max_timestamp,
    int16_t attributes=0,
    int32_t leader_epoch=-1,
    int64_t producer_id=-1,
    int16_t producer_epoch=-1,
    int32_t base_sequence=-1,
):
    """Return a complete v2 batch with checksum as a bytearray; ``records`` is any buffer. OverflowError past 2 GiB."""
    cdef Py_buffer view
    cdef uint8_t* p
    cdef Header header
    header.base_offset = base_offset
    header.base_timestamp = base_timestamp
    header.max_timestamp = max_timestamp
    header.producer_id = producer_id
    header.leader_epoch = leader_epoch
    header.last_offset_delta = last_offset_delta
    header.base_sequence = base_sequence
    header.record_count = record_count
    header.attributes = attributes
    header.producer_epoch = producer_epoch
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if view.len > INT32_LIMIT - V2_HEADER:
            raise OverflowError(f"{view.len} bytes of records do not fit one batch")
        batch = PyByteArray_FromStringAndSize(NULL, V2_HEADER + view.len)
        p = <uint8_t*>PyByteArray_AS_STRING(batch)
        memcpy(p + V2_HEADER, view.buf, view.len)
        write_header(p, V2_HEADER + view.len, &header)
    finally:
        PyBuffer_Release(&view)
    return batch
