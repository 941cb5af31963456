# cython: language_level=3
"""CRC-32C and CRC-32 over any buffer; the implementation is chosen when the module is loaded.

Other kernels cimport ``crc32c_of`` and ``crc32_of``, so that the choice is made once. The GIL is released for large
buffers. Thread rule: any thread.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "checksums.h" nogil:
    const char* tl_crc32c_chosen_name
    const char* tl_crc32c_lanes_name
    void tl_checksums_start()
    uint32_t tl_crc32c(const uint8_t*, size_t, uint32_t)
    uint32_t tl_crc32c_by_lanes(const uint8_t*, size_t, uint32_t)
    uint32_t tl_crc32c_in_software(const uint8_t*, size_t, uint32_t)
    uint32_t tl_crc32(const uint8_t*, size_t, uint32_t)

ctypedef uint32_t (*Checksum)(const uint8_t*, size_t, uint32_t) noexcept nogil

tl_checksums_start()

# Below this size, releasing the GIL costs more than the checksum.
cdef enum:
    GIL_BYTES = 16384


cdef uint32_t crc32c_of(const uint8_t* data, size_t length, uint32_t crc) noexcept nogil:
    return tl_crc32c(data, length, crc)


cdef uint32_t crc32_of(const uint8_t* data, size_t length, uint32_t crc) noexcept nogil:
    return tl_crc32(data, length, crc)


cdef uint32_t in_lanes(const uint8_t* data, size_t length, uint32_t crc) noexcept nogil:
    return tl_crc32c_by_lanes(data, length, crc)


cdef uint32_t in_software(const uint8_t* data, size_t length, uint32_t crc) noexcept nogil:
    return tl_crc32c_in_software(data, length, crc)


cdef object checksum(Checksum function, object buffer, uint32_t crc):
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if view.len < GIL_BYTES:
            crc = function(<const uint8_t*>view.buf, view.len, crc)
        else:
            with nogil:
                crc = function(<const uint8_t*>view.buf, view.len, crc)
    finally:
        PyBuffer_Release(&view)
    return crc


def crc32c(buffer, uint32_t crc=0):
    """Return the CRC-32C of ``buffer``; ``crc`` is the CRC of the bytes before it."""
    return checksum(crc32c_of, buffer, crc)


def crc32(buffer, uint32_t crc=0):
    """Return the CRC-32 (zlib's polynomial) of ``buffer``; ``crc`` is the CRC of the bytes before it."""
    return checksum(crc32_of, buffer, crc)


def crc32c_implementations():
    """Return the implementations that this machine can run, by name; the first one is in use."""
    cdef str chosen = tl_crc32c_chosen_name.decode("ascii")
    cdef str lanes = tl_crc32c_lanes_name.decode("ascii")
    found = {chosen: crc32c}
    if lanes:
        found.setdefault(lanes, crc32c_in_lanes)
    found.setdefault("portable", crc32c_portable)
    return found


def crc32c_in_lanes(buffer, uint32_t crc=0):
    """Return the CRC-32C by the instruction of the CPU, as on a machine that has no wider ones."""
    return checksum(in_lanes, buffer, crc)


def crc32c_portable(buffer, uint32_t crc=0):
    """Return the CRC-32C by tables, as on a machine without the instruction."""
    return checksum(in_software, buffer, crc)
