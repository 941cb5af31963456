# cython: boundscheck=False, wraparound=False
"""The descriptor of a local file, and the write of an append to it."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t

cdef extern from "unistd.h" nogil:
    Py_ssize_t system_pwrite "pwrite" (int, const void*, size_t, int64_t)


cdef class OpenFile:
    """An open file of this machine. ``_fd`` is -1 after the close. ``LocalFile`` derives from it."""

    def __init__(self, path, int fd):
        self._path, self._fd = path, fd

    cpdef Py_ssize_t pwrite(self, data, int64_t position) except -1:
        """Write a buffer and return its size in bytes.

        If one system call does not write all of it, ``_write_slowly`` writes it once more, or raises the error.
        """
        cdef Py_buffer view
        cdef Py_ssize_t size, done
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        size = view.len
        with nogil:
            done = system_pwrite(self._fd, view.buf, size, position)
        PyBuffer_Release(&view)
        return done if done == size else self._write_slowly(data, position)
