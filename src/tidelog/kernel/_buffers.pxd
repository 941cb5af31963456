# A list of buffers, held so that a kernel can read them without the GIL.

from cpython.buffer cimport Py_buffer


cdef class Buffers:
    cdef Py_buffer* views
    cdef Py_ssize_t count
    cdef object held
