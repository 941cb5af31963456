# cython: boundscheck=True, wraparound=False, cdivision=True
"""OffsetMap: the latest offset of each key, in a fixed amount of memory, for the log cleaner.

Slots of 24 bytes: a 128-bit keyed hash and an offset + 1 (0: empty), found by linear probing. Keys themselves are not
kept, so the hash must be one that an attacker cannot aim: SipHash-1-3 under a key that the caller draws at random.
Bulk calls release the GIL; a map serves one thread at a time, a second one gets RuntimeError. Source of the idea and
of the 24-byte slot: Kafka's ``SkimpyOffsetMap``.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

import numpy as np

cdef extern from "siphash.h" nogil:
    ctypedef struct tl_hash128:
        uint64_t low
        uint64_t high
    tl_hash128 tl_siphash(uint64_t, uint64_t, const uint8_t*, size_t, int, int)
    uint64_t tl_little64(const uint8_t*, size_t)

cdef extern from "zeroed.h" nogil:
    ctypedef struct tl_zeroed:
        void* data
    bint tl_zeroed_take(tl_zeroed*, size_t)
    void tl_zeroed_free(tl_zeroed*)

cdef extern from *:
    """
    static inline size_t tl_scale(uint64_t hash, size_t slots) {
        return (size_t)(((unsigned __int128)hash * slots) >> 64);
    }
    static inline void tl_prefetch(const void *p) { __builtin_prefetch(p, 1); }
    """
    size_t tl_scale(uint64_t, size_t) nogil
    void tl_prefetch(const void*) nogil

cdef enum:
    WORD_ROUNDS = 1
    END_ROUNDS = 3
    RUN = 16  # keys hashed, and their slots fetched, before the first of them is looked at

cdef struct Slot:
    uint64_t low
    uint64_t high
    uint64_t offset_and_one

# A run of rows of a column of keys; NULL validity: none is null.
cdef struct Keys:
    const int32_t* offsets
    const uint8_t* data
    const uint8_t* validity


cdef class OffsetMap:
    """Room for ``memory_bytes // 24`` slots, of which ``load_factor`` may be used.

    ``key``: 16 random bytes. ValueError for another length, no slots, or a load factor outside (0, 1).
    """

    cdef tl_zeroed memory
    cdef Slot* slots
    cdef readonly Py_ssize_t slot_count
    cdef readonly Py_ssize_t max_size
    cdef readonly Py_ssize_t size
    cdef readonly int64_t lookups
    cdef readonly int64_t probes
    cdef public int64_t latest_offset
    cdef uint64_t key_low
    cdef uint64_t key_high
    cdef bint busy

    def __cinit__(self, Py_ssize_t memory_bytes, *, key, double load_factor=0.9):
        cdef bytes secret = bytes(key)
        if len(secret) != 16:
            raise ValueError(f"the key must be 16 bytes, not {len(secret)}")
        if not 0 < load_factor < 1:
            raise ValueError(f"the load factor must lie between 0 and 1, not {load_factor}")
        self.slot_count = memory_bytes // <Py_ssize_t>sizeof(Slot)
        self.max_size = <Py_ssize_t>(self.slot_count * load_factor)
        if self.slot_count < 2 or self.max_size < 1:
            raise ValueError(f"{memory_bytes} bytes hold no entries")
        self.key_low = tl_little64(<const uint8_t*>secret, 8)
        self.key_high = tl_little64(<const uint8_t*>secret + 8, 8)
        self.latest_offset = -1
        if not tl_zeroed_take(&self.memory, self.slot_count * sizeof(Slot)):
            raise MemoryError(f"no memory for {self.slot_count} slots")
        self.slots = <Slot*>self.memory.data

    def __dealloc__(self):
        tl_zeroed_free(&self.memory)

    def __len__(self):
        return self.size

    @property
    def full(self):
        """No new key may be put."""
        return self.size >= self.max_size

    @property
    def utilization(self):
        """Used slots by all slots."""
        return self.size / <double>self.slot_count

    @property
    def collision_rate(self):
        """Slots looked at beyond the first, a look-up."""
        return (self.probes - self.lookups) / <double>self.lookups if self.lookups else 0.0

    def clear(self):
        """Forget all keys, counts and the latest offset; the memory stays."""
        self.enter()
        memset(self.slots, 0, self.slot_count * sizeof(Slot))
        self.size = 0
        self.lookups = self.probes = 0
        self.latest_offset = -1
        self.busy = False

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError("an OffsetMap serves one thread at a time")
        self.busy = True
        return 0

    cdef Slot* find(self, tl_hash128 hash) noexcept nogil:
        """The slot of the hash, or the empty one where it belongs; there is one, as max_size < slot_count."""
        cdef size_t index = tl_scale(hash.low, self.slot_count)
        cdef Slot* slot = self.slots + index
        self.lookups += 1
        self.probes += 1
        while slot.offset_and_one and (slot.low != hash.low or slot.high != hash.high):
            self.probes += 1
            index += 1
            if index == <size_t>self.slot_count:
                index = 0
            slot = self.slots + index
        return slot

    cdef bint put_hash(self, tl_hash128 hash, int64_t offset) noexcept nogil:
        """False where the key is new and there is no room; a smaller offset never replaces a larger one."""
        cdef Slot* slot = self.find(hash)
        if not slot.offset_and_one:
            if self.size >= self.max_size:
                return False
            self.size += 1
            slot.low = hash.low
            slot.high = hash.high
        if <uint64_t>offset + 1 > slot.offset_and_one:
            slot.offset_and_one = <uint64_t>offset + 1
        if offset > self.latest_offset:
            self.latest_offset = offset
        return True

    cdef inline tl_hash128 hash_of(self, const uint8_t* data, size_t length) noexcept nogil:
        return tl_siphash(self.key_low, self.key_high, data, length, WORD_ROUNDS, END_ROUNDS)

    cdef tl_hash128 hash_buffer(self, object key) except *:
        cdef Py_buffer view
        cdef tl_hash128 hash
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        hash = self.hash_of(<const uint8_t*>view.buf, view.len)
        PyBuffer_Release(&view)
        return hash

    def put(self, key, int64_t offset):
        """Note that ``key`` (any buffer) occurs at ``offset`` >= 0; False where the map is full and the key new."""
        cdef tl_hash128 hash = self.hash_buffer(key)
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        self.enter()
        added = self.put_hash(hash, offset)
        self.busy = False
        return added

    def get(self, key):
        """The latest offset of ``key``, -1 where it was never put."""
        cdef tl_hash128 hash = self.hash_buffer(key)
        self.enter()
        found = <int64_t>self.find(hash).offset_and_one - 1
        self.busy = False
        return found

    def put_columns(self, columns, Py_ssize_t first=0, last=None):
        """Put the keys of the rows [first, last) with their offsets, null keys aside.

        Returns the first row not put: ``last``, or the row whose new key found the map full. ValueError for columns
        without keys, with a negative offset, or that contradict themselves; the rows before the bad one are put.
        """
        cdef Py_ssize_t end = len(columns.offset) if last is None else last
        cdef const int64_t[::1] offsets = columns.offset
        cdef const int32_t[::1] key_offsets
        cdef const uint8_t[::1] data
        cdef const uint8_t[::1] validity
        cdef Keys keys
        cdef Py_ssize_t row = first
        key_offsets, data, validity = keys_of(columns, first, end)
        keys.offsets = &key_offsets[0]
        keys.data = &data[0]
        keys.validity = NULL
        if validity is not None:
            keys.validity = &validity[0]
        if end > first and np.min(columns.offset[first:end]) < 0:
            raise ValueError("a row has a negative offset")
        self.enter()
        with nogil:
            row = self.put_rows(&keys, &offsets[0] if end > first else NULL, first, end)
        self.busy = False
        return row

    cdef Py_ssize_t put_rows(
        self, const Keys* keys, const int64_t* offsets, Py_ssize_t first, Py_ssize_t last
    ) noexcept nogil:
        cdef tl_hash128[RUN] hashes
        cdef Py_ssize_t row, end
        cdef int index
        while first < last:
            end = min(first + RUN, last)
            self.hash_rows(keys, first, end, hashes)
            for row in range(first, end):
                index = <int>(row - first)
                if is_valid(keys, row) and not self.put_hash(hashes[index], offsets[row]):
                    return row
            first = end
        return last

    cdef void hash_rows(self, const Keys* keys, Py_ssize_t first, Py_ssize_t last, tl_hash128* hashes) noexcept nogil:
        cdef Py_ssize_t row
        for row in range(first, last):
            if is_valid(keys, row):
                hashes[row - first] = self.hash_of(
                    keys.data + keys.offsets[row], keys.offsets[row + 1] - keys.offsets[row]
                )
                tl_prefetch(self.slots + tl_scale(hashes[row - first].low, self.slot_count))

    def get_columns(self, columns, Py_ssize_t first=0, last=None):
        """The latest offset of each key in the rows [first, last) as int64: -1 for a null key or one never put."""
        cdef Py_ssize_t end = len(columns.offset) if last is None else last
        cdef const int32_t[::1] key_offsets
        cdef const uint8_t[::1] data
        cdef const uint8_t[::1] validity
        cdef Keys keys
        cdef int64_t[::1] found
        key_offsets, data, validity = keys_of(columns, first, end)
        keys.offsets = &key_offsets[0]
        keys.data = &data[0]
        keys.validity = NULL
        if validity is not None:
            keys.validity = &validity[0]
        result = np.full(end - first, -1, np.int64)
        found = result
        if end == first:
            return result
        self.enter()
        with nogil:
            self.get_rows(&keys, first, end, &found[0])
        self.busy = False
        return result

    cdef void get_rows(self, const Keys* keys, Py_ssize_t first, Py_ssize_t last, int64_t* found) noexcept nogil:
        cdef tl_hash128[RUN] hashes
        cdef Py_ssize_t row, end
        while first < last:
            end = min(first + RUN, last)
            self.hash_rows(keys, first, end, hashes)
            for row in range(first, end):
                if is_valid(keys, row):
                    found[0] = <int64_t>self.find(hashes[row - first]).offset_and_one - 1
                found += 1
            first = end


cdef inline bint is_valid(const Keys* keys, Py_ssize_t row) noexcept nogil:
    return keys.validity == NULL or keys.validity[row >> 3] >> (row & 7) & 1


cdef tuple keys_of(object columns, Py_ssize_t first, Py_ssize_t last):
    """Offsets, data and validity of the keys, checked: the offsets of the rows ascend and lie in the data."""
    if columns.key_offsets is None:
        raise ValueError("the columns have no keys")
    offsets = columns.key_offsets
    if not 0 <= first <= last <= len(columns.offset) or len(offsets) != len(columns.offset) + 1:
        raise ValueError(f"rows [{first}:{last}] of {len(columns.offset)} rows and {len(offsets)} key offsets")
    data = np.frombuffer(columns.key_data, np.uint8) if len(columns.key_data) else np.zeros(1, np.uint8)
    part = offsets[first : last + 1]
    if np.min(part) < 0 or np.max(part) > len(columns.key_data) or np.any(np.diff(part) < 0):
        raise ValueError("the columns contradict themselves: key offsets fall or pass the data")
    validity = columns.key_validity
    if validity is not None and len(validity) < (last + 7) // 8:
        raise ValueError(f"key_validity has {len(validity)} bytes for {last} rows")
    return offsets, data, validity if last else None


def siphash(data, key, int word_rounds=WORD_ROUNDS, int end_rounds=END_ROUNDS):
    """The 16 bytes that the published algorithm gives; for tests."""
    cdef bytes secret = bytes(key)
    cdef bytes text = bytes(data)
    cdef tl_hash128 hash = tl_siphash(
        tl_little64(<const uint8_t*>secret, 8), tl_little64(<const uint8_t*>secret + 8, 8), <const uint8_t*>text,
        len(text), word_rounds, end_rounds,
    )
    return int(hash.low).to_bytes(8, "little") + int(hash.high).to_bytes(8, "little")
