# cython: boundscheck=True, wraparound=False, cdivision=True
"""Buffers: a sequence of buffers and Nones, held so that kernels can read them without the GIL."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport calloc, free


cdef class Buffers:
    """The buffers of ``items``; ``views[i].buf`` is NULL for None. TypeError or BufferError for any other item."""

    def __cinit__(self, items):
        cdef Py_ssize_t index
        self.held = items
        self.views = <Py_buffer*>calloc(max(1, len(items)), sizeof(Py_buffer))
        if self.views == NULL:
            raise MemoryError()
        for index, item in enumerate(items):
            self.count = index + 1
            if item is not None:
                PyObject_GetBuffer(item, &self.views[index], PyBUF_SIMPLE)

    def __dealloc__(self):
        cdef Py_ssize_t index
        for index in range(self.count):
            PyBuffer_Release(&self.views[index])
        free(self.views)
