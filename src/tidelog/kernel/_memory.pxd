# Growable memory that kernels fill without the GIL and then hand over, once, as a read-only buffer.

from libc.stdint cimport uint8_t
from libc.stdlib cimport realloc

cdef struct Block:
    uint8_t* data
    size_t used
    size_t capacity


# Make room for ``wanted`` bytes in total; return False without memory (the block is then unchanged).
cdef inline bint reserve_total(Block* block, size_t wanted) noexcept nogil:
    cdef void* moved
    if wanted <= block.capacity:
        return True
    if wanted > (<size_t>1 << 48):
        return False
    if wanted < 2 * block.capacity:
        wanted = 2 * block.capacity
    moved = realloc(block.data, wanted)
    if moved == NULL:
        return False
    block.data = <uint8_t*>moved
    block.capacity = wanted
    return True


# Make room for ``extra`` bytes after ``used``.
cdef inline bint reserve(Block* block, size_t extra) noexcept nogil:
    return extra <= (<size_t>1 << 48) and reserve_total(block, block.used + extra)


# The caller must hold the GIL; see _memory.pyx.
cdef void take_block(Block* block, size_t wanted) noexcept
cdef void give_block(Block* block) noexcept


cdef class Memory:
    cdef Block block
    cdef bint writable

    @staticmethod
    cdef Memory take(Block* block)
