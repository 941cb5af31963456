# An open file of this machine, for kernels that append.
from libc.stdint cimport int64_t

cdef class OpenFile:
    cdef public object _path
    cdef public int _fd
    cpdef Py_ssize_t pwrite(self, data, int64_t position) except -1
