# CRC-32C and CRC-32 for the other kernels, without Python calls.
from libc.stdint cimport uint8_t, uint32_t

cdef uint32_t crc32c_of(const uint8_t* data, size_t length, uint32_t crc) noexcept nogil
cdef uint32_t crc32_of(const uint8_t* data, size_t length, uint32_t crc) noexcept nogil
