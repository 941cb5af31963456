# cython: boundscheck=True, wraparound=False, cdivision=True
"""Memory: a block that a kernel filled, owned by Python and readable by anything that speaks the buffer protocol."""

from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from libc.stdlib cimport free, malloc
from libc.stdint cimport uint8_t


cdef class Memory:
    """Read-only bytes; freed with the last view on them."""

    @staticmethod
    cdef Memory take(Block* block):
        """Own what ``block`` holds and leave it empty."""
        cdef Memory memory = Memory.__new__(Memory)
        memory.block = block[0]
        block.data = NULL
        block.used = block.capacity = 0
        if memory.block.data == NULL:  # an empty buffer still needs an address
            memory.block.data = <uint8_t*>malloc(1)
            if memory.block.data == NULL:
                raise MemoryError()
        return memory

    def __dealloc__(self):
        free(self.block.data)

    def __len__(self):
        return self.block.used

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.block.data, self.block.used, True, flags)
