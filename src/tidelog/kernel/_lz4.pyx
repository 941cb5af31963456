# cython: boundscheck=True, wraparound=False, cdivision=True
"""``open_lz4_frames``: it decompresses many LZ4 frames of Kafka's clients without the GIL.

For small batches, a library call per frame costs more than the decompression, because it allocates memory and Python
objects each time. lz4.h lists the frames that are supported.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from tidelog.kernel._memory cimport Block, Memory, give_block, reserve, take_block

import numpy as np

cdef extern from "lz4.h" nogil:
    enum: TL_LZ4_SLACK
    enum: TL_LZ4_HEADER
    const uint32_t TL_LZ4_PLAIN
    size_t tl_lz4_block_bytes(const uint8_t*, size_t)
    uint32_t tl_lz4_size(const uint8_t*)
    Py_ssize_t tl_lz4_block(const uint8_t*, size_t, uint8_t*, size_t)

cdef enum:
    OPENED = 0
    LEFT = 1
    NO_MEMORY = 2


def open_lz4_frames(buffer, starts, ends, *, Py_ssize_t enough_bytes, Py_ssize_t max_bytes):
    """Return the plain bytes of the frames ``buffer[starts[i]:ends[i]]`` back to back, and the end of each in them.

    Ends are int64. -1 marks a frame for the library: damaged, of another kind, or larger than ``max_bytes``.
    Decompression stops at ``enough_bytes``: there are as many ends as processed frames, at least one. Raise ValueError
    for no frames, or for frames outside the buffer.
    """
    cdef const int64_t[::1] first = np.ascontiguousarray(starts, np.int64)
    cdef const int64_t[::1] last = np.ascontiguousarray(ends, np.int64)
    cdef Py_ssize_t count = first.shape[0], done = 0
    cdef Py_buffer view
    cdef Block out = Block(NULL, 0, 0)
    cdef int state = OPENED
    found = np.empty(count, np.int64)
    cdef int64_t[::1] plain_ends = found
    if count == 0 or last.shape[0] != count:
        raise ValueError(f"{count} frames begin, {last.shape[0]} end")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        for done in range(count):
            if not 0 <= first[done] <= last[done] <= view.len:
                raise ValueError(f"no frame lies at [{first[done]}:{last[done]}] of {view.len} bytes")
        take_block(&out, enough_bytes + max(enough_bytes // 8, 1 << 17))
        done = 0
        with nogil:
            while done < count and (done == 0 or <Py_ssize_t>out.used < enough_bytes):
                state = open_frame(
                    &out, <const uint8_t*>view.buf + first[done], last[done] - first[done], max_bytes
                )
                if state == NO_MEMORY:
                    break
                plain_ends[done] = <int64_t>out.used if state == OPENED else -1
                done += 1
        if state == NO_MEMORY:
            raise MemoryError()
        return memoryview(Memory.take(&out)), found[:done]
    finally:
        give_block(&out)
        PyBuffer_Release(&view)


cdef int open_frame(Block* out, const uint8_t* p, size_t n, size_t max_bytes) noexcept nogil:
    """Append the frame to ``out``, or return LEFT with ``out`` unchanged."""
    cdef size_t begun = out.used
    cdef size_t block_bytes = tl_lz4_block_bytes(p, n)
    cdef const uint8_t* end = p + n
    cdef Py_ssize_t plain
    cdef uint32_t size
    if block_bytes == 0:
        return LEFT
    p += TL_LZ4_HEADER
    while end - p >= 4:
        size = tl_lz4_size(p)
        p += 4
        if size == 0:
            return OPENED
        if not reserve(out, block_bytes + TL_LZ4_SLACK):
            return NO_MEMORY
        plain = -1
        if (size & ~TL_LZ4_PLAIN) <= <size_t>(end - p):
            plain = put_block(out.data + out.used, p, size, block_bytes)
        if plain < 0 or out.used + plain - begun > max_bytes:
            break
        out.used += plain
        p += size & ~TL_LZ4_PLAIN
    out.used = begun
    return LEFT


cdef inline Py_ssize_t put_block(uint8_t* out, const uint8_t* p, uint32_t size, size_t room) noexcept nogil:
    if not size & TL_LZ4_PLAIN:
        return tl_lz4_block(p, size, out, room)
    size &= ~TL_LZ4_PLAIN
    if size > room:
        return -1
    memcpy(out, p, size)
    return size
