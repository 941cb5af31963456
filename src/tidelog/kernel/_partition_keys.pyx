# cython: boundscheck=True, wraparound=False, cdivision=True
"""The partition of each key by murmur2, as the Java client's default partitioner computes it.

Source: Kafka's ``Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``. Austin Appleby's murmur2 is in the public
domain.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

import numpy as np

cdef enum:
    MIXER = 0x5BD1E995

cdef uint32_t SEED = 0x9747B28C


cdef inline uint32_t murmur2(const uint8_t* data, int32_t size) noexcept nogil:
    cdef uint32_t hash = SEED ^ <uint32_t>size, word
    cdef int32_t at = 0
    while at + 4 <= size:
        word = (
            data[at] | <uint32_t>data[at + 1] << 8 | <uint32_t>data[at + 2] << 16 | <uint32_t>data[at + 3] << 24
        ) * <uint32_t>MIXER
        hash = (hash * <uint32_t>MIXER) ^ ((word ^ (word >> 24)) * <uint32_t>MIXER)
        at += 4
    if size > at:
        if size - at == 3:
            hash ^= <uint32_t>data[at + 2] << 16
        if size - at >= 2:
            hash ^= <uint32_t>data[at + 1] << 8
        hash = (hash ^ data[at]) * <uint32_t>MIXER
    hash = (hash ^ (hash >> 13)) * <uint32_t>MIXER
    return hash ^ (hash >> 15)


def partition_keys(data, const int32_t[:] offsets, int32_t partitions):
    """Return the partition of each of n keys as int32; key i is ``data[offsets[i]:offsets[i + 1]]``.

    A null key's result has no meaning. Raise ValueError for no partitions, or if offsets do not ascend within the data.
    """
    cdef Py_ssize_t count = offsets.shape[0] - 1, number
    cdef Py_buffer view
    cdef int32_t start, end
    cdef bint in_bounds = True
    if partitions < 1 or count < 0:
        raise ValueError(f"{count} keys for {partitions} partitions")
    found = np.empty(count, np.int32)
    cdef int32_t[::1] answer = found
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            for number in range(count):
                start, end = offsets[number], offsets[number + 1]
                if not 0 <= start <= end <= view.len:
                    in_bounds = False
                    break
                answer[number] = <int32_t>(
                    (murmur2(<const uint8_t*>view.buf + start, end - start) & 0x7FFFFFFF) % <uint32_t>partitions
                )
    finally:
        PyBuffer_Release(&view)
    if not in_bounds:
        raise ValueError(f"the offsets of key {number} do not lie within the data")
    return found
