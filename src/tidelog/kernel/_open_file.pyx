# cython: boundscheck=False, wraparound=False, cdivision=True
"""The write to an open file as one system call, without the calls of the interpreter around it.

``LocalFile`` derives from it and owns the descriptor. The only kernel with output: an append of 100 bytes takes less
time than the calls that would carry it to ``os.pwrite``.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t

cdef extern from "<unistd.h>" nogil:
    ssize_t c_pwrite "pwrite"(int fd, const void* data, size_t count, long long offset)


cdef class OpenFile:
    """A descriptor, or -1 after the file was closed."""

    def __cinit__(self, *_arguments, **_fields):
        self._fd = -1

    cpdef Py_ssize_t pwrite(self, data, int64_t position) except -1:
        """Write all bytes of ``data`` at ``position``, and return their number."""
        cdef Py_buffer view
        cdef Py_ssize_t done = 0
        cdef ssize_t written
        cdef int fd, number
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            while True:  # more than once after a signal, or at the kernel's limit of 2 GiB per call
                fd = self._fd if self._fd >= 0 else self.fileno()
                with nogil:
                    written = c_pwrite(fd, <const char*>view.buf + done, view.len - done, position + done)
                    number = errno
                if written >= 0:
                    done += written
                    if done >= view.len:
                        return done
                elif number == EINTR:
                    PyErr_CheckSignals()
                else:
                    raise self._write_error(number)
        finally:
            PyBuffer_Release(&view)
