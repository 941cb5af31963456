# cython: boundscheck=True, wraparound=False, cdivision=True
"""Memory blocks that a kernel filled, owned by Python and readable through the buffer protocol.

Large blocks are reused: the system gives fresh ones page by page, each with a fault and 4 KiB of zeros, which takes
longer than filling them. So after the last view is gone, a block becomes spare. Spare blocks have SPARE_BYTES in total;
the oldest ones are freed first. A block is either spare or owned by one Memory, never both. The GIL guards the spare
blocks, so they must be taken before a kernel releases it.
"""

from cpython.buffer cimport Py_buffer, PyBuffer_FillInfo
from libc.stdlib cimport free, malloc
from libc.stdint cimport uint8_t
from libc.string cimport memmove

cdef enum:
    SPARE_BLOCKS = 48
    SPARE_BYTES = 64 << 20
    LEAST_SPARE = 32 << 10  # the C library recycles smaller blocks itself
    MOST_SPARE = 16 << 20
    MOST_SLACK = 3  # a spare block serves a request for at least a third of its size

cdef Block spare[SPARE_BLOCKS]
cdef Py_ssize_t spare_count = 0
cdef size_t spare_bytes = 0


cdef void take_block(Block* block, size_t wanted) noexcept:
    """Give an empty ``block`` room for ``wanted`` bytes, possibly from a spare one. Without memory it stays empty."""
    global spare_count, spare_bytes
    cdef Py_ssize_t index, best = -1
    if block.data != NULL:
        return
    for index in range(spare_count):
        if wanted <= spare[index].capacity <= MOST_SLACK * wanted:
            if best < 0 or spare[index].capacity <= spare[best].capacity:
                best = index
    if best >= 0:
        block[0] = spare[best]
        remove_spare(best)
        return
    if wanted >= LEAST_SPARE:
        wanted = (wanted + wanted // 8 + 0xffff) & ~<size_t>0xffff  # so that it fits the next, slightly larger request
    block.data = <uint8_t*>malloc(wanted if wanted else 1)
    block.used = 0
    block.capacity = wanted if block.data != NULL else 0


cdef void give_block(Block* block) noexcept:
    """Take the memory of ``block``, which must not be used any more, and leave it empty."""
    global spare_count, spare_bytes
    if LEAST_SPARE <= block.capacity <= MOST_SPARE:
        while spare_count and (spare_count == SPARE_BLOCKS or spare_bytes + block.capacity > SPARE_BYTES):
            free(spare[0].data)
            remove_spare(0)
        spare[spare_count] = block[0]
        spare[spare_count].used = 0
        spare_count += 1
        spare_bytes += block.capacity
    else:
        free(block.data)
    block.data = NULL
    block.used = block.capacity = 0


cdef void remove_spare(Py_ssize_t index) noexcept:
    global spare_count, spare_bytes
    spare_count -= 1
    spare_bytes -= spare[index].capacity
    memmove(&spare[index], &spare[index + 1], (spare_count - index) * sizeof(Block))


def take_buffer(size_t size):
    """Return ``size`` writable bytes with any content; they are recycled after the last view is gone."""
    cdef Block block = Block(NULL, 0, 0)
    cdef Memory memory
    take_block(&block, size)
    if block.data == NULL:
        raise MemoryError()
    block.used = size
    memory = Memory.take(&block)
    memory.writable = True
    return memoryview(memory)


cdef class Memory:
    """A buffer of bytes, read-only except for ``take_buffer``'s."""

    @staticmethod
    cdef Memory take(Block* block):
        """Take ownership of the memory of ``block`` and leave it empty."""
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
        give_block(&self.block)

    def __len__(self):
        return self.block.used

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.block.data, self.block.used, not self.writable, flags)
