# cython: boundscheck=True, wraparound=False, cdivision=True
"""Binary search in the bytes of an offset or time index.

The search first checks if the target lies in the last entries (8 KiB of them), as for reads near the log's end. Their
pages are in memory, while the middle of a large index may come from the disk. Source: Kafka's ``AbstractIndex``.
If entries do not ascend, the result is some slot, never an error.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.kernel._bytes cimport tl_load32, tl_load64

cdef enum:
    WARM_BYTES = 8192

# These arrays are indexed by IndexKey.
cdef int[4] ENTRY_SIZE = [8, 8, 12, 12]
cdef int[4] KEY_START = [0, 4, 0, 8]


cdef inline int64_t key_at(const uint8_t* data, Py_ssize_t slot, int kind) noexcept nogil:
    cdef const uint8_t* p = data + slot * ENTRY_SIZE[kind] + KEY_START[kind]
    return <int64_t>tl_load64(p) if kind == 2 else <int64_t><int32_t>tl_load32(p)


cdef Py_ssize_t below(const uint8_t* data, Py_ssize_t count, int kind, int64_t target, bint equal) noexcept nogil:
    """Return the number of leading entries below the target (``equal``: or at the target)."""
    cdef Py_ssize_t low = 0, high = count, middle
    cdef Py_ssize_t warm = count - WARM_BYTES // ENTRY_SIZE[kind]
    cdef int64_t key
    if warm > 0:
        key = key_at(data, warm, kind)
        if key < target or (equal and key == target):
            low = warm + 1
        else:
            high = warm
    while low < high:
        middle = low + (high - low) // 2
        key = key_at(data, middle, kind)
        if key < target or (equal and key == target):
            low = middle + 1
        else:
            high = middle
    return low


cdef Py_ssize_t search(
    object buffer, int kind, int64_t target, Py_ssize_t count, bint equal, Py_ssize_t* whole
) except -1:
    cdef Py_buffer view
    cdef Py_ssize_t found
    if not 0 <= kind <= 3:
        raise ValueError(f"{kind} is no IndexKey")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        whole[0] = view.len // ENTRY_SIZE[kind]
        if count >= 0:
            if count > whole[0]:
                raise ValueError(f"{count} entries in a buffer of {view.len} bytes")
            whole[0] = count
        found = below(<const uint8_t*>view.buf, whole[0], kind, target, equal)
    finally:
        PyBuffer_Release(&view)
    return found


def lookup_index(buffer, int key, int64_t target, Py_ssize_t count=-1):
    """Return the slot of the last of the first ``count`` entries whose ``key`` is at most ``target``, or -1.

    ``key`` is an IndexKey; a ``count`` of -1 means all complete entries. Raise ValueError if the buffer has fewer.
    """
    cdef Py_ssize_t whole
    return search(buffer, key, target, count, True, &whole) - 1


def lookup_index_above(buffer, int key, int64_t target, Py_ssize_t count=-1):
    """Return the slot of the first entry whose ``key`` is at least ``target``, or -1; otherwise as ``lookup_index``."""
    cdef Py_ssize_t whole
    cdef Py_ssize_t slot = search(buffer, key, target, count, False, &whole)
    return slot if slot < whole else -1
