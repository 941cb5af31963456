# cython: boundscheck=True, wraparound=False, cdivision=True
"""OffsetMap: the latest offset of each key, in a fixed amount of memory, for the log cleaner.

A slot of 24 bytes has a 128-bit keyed hash and an offset + 1 (0: empty); linear probing finds it. Keys are not stored,
so an attacker must not be able to construct equal hashes: it is SipHash-1-3 with a random key from the caller.
``put_hashed_keys`` notes each offset whose key came again in a bit (superseded.h): at most 8 MiB. Bulk calls release
the GIL. Thread rule: any number of threads may look keys up, or one thread may put them; otherwise RuntimeError.
Source of the idea and of the 24-byte slot: Kafka's ``SkimpyOffsetMap``.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

import numpy as np

# Rows of a key column; a NULL validity means that no key is null.
cdef struct Keys:
    const int32_t* offsets
    const uint8_t* data
    const uint8_t* validity


cdef class OffsetMap:
    """A map of ``memory_bytes // 24`` slots, of which the share ``load_factor`` may be used.

    ``key`` has 16 random bytes. Raise ValueError for another length, no slots, or a load factor outside (0, 1).
    """

    def __cinit__(self, Py_ssize_t memory_bytes, *, key, double load_factor=0.9):
        cdef bytes secret = bytes(key)
        if len(secret) != 16:
            raise ValueError(f"the key must be 16 bytes, not {len(secret)}")
        if not 0 < load_factor < 1:
            raise ValueError(f"the load factor must lie between 0 and 1, not {load_factor}")
        cdef Py_ssize_t count = memory_bytes // <Py_ssize_t>sizeof(Slot)
        self.max_size = <Py_ssize_t>(count * load_factor)
        if count < 2 or self.max_size < 1:
            raise ValueError(f"{memory_bytes} bytes hold no entries")
        self.slots.count = count
        self.slots.key_low = tl_little64(<const uint8_t*>secret, 8)
        self.slots.key_high = tl_little64(<const uint8_t*>secret + 8, 8)
        self.latest_offset = -1
        tl_forget_superseded(&self.noted)
        if not tl_zeroed_take(&self.memory, count * sizeof(Slot)):
            raise MemoryError(f"no memory for {count} slots")
        self.slots.first = <Slot*>self.memory.data

    def __dealloc__(self):
        tl_zeroed_free(&self.memory)
        free(self.noted.words)

    def __len__(self):
        return self.size

    @property
    def slot_count(self):
        return self.slots.count

    @property
    def lookups(self):
        """The number of keys put or looked up so far."""
        return self.slots.lookups

    @property
    def probes(self):
        """The number of slots read so far."""
        return self.slots.probes

    @property
    def full(self):
        """True if no new key may be put."""
        return self.size >= self.max_size

    @property
    def utilization(self):
        """The used share of the slots."""
        return self.size / <double>self.slots.count

    @property
    def collision_rate(self):
        """The average number of slots that a lookup reads after the first."""
        return (self.slots.probes - self.slots.lookups) / <double>self.slots.lookups if self.slots.lookups else 0.0

    def clear(self):
        """Forget all keys, counts and the latest offset; keep the memory."""
        cdef Slots slots = self.enter(True)
        if self.size:
            memset(slots.first, 0, slots.count * sizeof(Slot))
        slots.lookups = slots.probes = 0
        self.size = 0
        self.latest_offset = -1
        tl_forget_superseded(&self.noted)
        self.leave(True, &slots)
        self.slots.lookups = self.slots.probes = 0

    cdef Slots enter(self, bint writes) except *:
        """Begin to read or write the slots; ``leave`` takes the counts back."""
        cdef Slots slots = self.slots
        if self.users < 0 or writes and self.users:
            raise RuntimeError("an OffsetMap serves one thread that puts keys, or several that look them up")
        self.users = -1 if writes else self.users + 1
        slots.lookups = slots.probes = 0
        return slots

    cdef void leave(self, bint writes, const Slots* counted) noexcept:
        self.users = 0 if writes else self.users - 1
        self.slots.lookups += counted.lookups
        self.slots.probes += counted.probes

    def put(self, key, int64_t offset):
        """Put ``key`` (any buffer) with ``offset`` >= 0; return False if the map is full and the key is new."""
        cdef tl_hash128 hash = hash_buffer(&self.slots, key)
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        cdef Slots slots = self.enter(True)
        self.noted.complete = False
        added = put_hash(self, &slots, hash, offset) != NO_ROOM
        self.leave(True, &slots)
        return added

    def get(self, key):
        """Return the latest offset of ``key``, or -1 if it was never put."""
        cdef tl_hash128 hash = hash_buffer(&self.slots, key)
        cdef Slots slots = self.enter(False)
        found = offset_in(find_slot(&slots, hash))
        self.leave(False, &slots)
        return found

    def put_columns(self, columns, Py_ssize_t first=0, last=None):
        """Put the keys of the rows [first, last) with their offsets, except null keys.

        Return the first row not put: ``last``, or the row with a new key for the full map. Raise ValueError for columns
        without keys, with a negative offset, or that contradict themselves; no row is put then.
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
        cdef Slots slots = self.enter(True)
        self.noted.complete = False
        with nogil:
            row = put_rows(self, &slots, &keys, &offsets[0] if end > first else NULL, first, end)
        self.leave(True, &slots)
        return row

    def get_columns(self, columns, Py_ssize_t first=0, last=None):
        """Return the latest offset of each key in the rows [first, last) as int64: -1 for a null or unknown key."""
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
        cdef Slots slots = self.enter(False)
        with nogil:
            get_rows(&slots, &keys, first, end, &found[0])
        self.leave(False, &slots)
        return result

    def superseded(self, table):
        """Return a bool per row of ``table``: True for a v2 data batch if all its records' keys came again.

        True is certain if ``put_hashed_keys`` put the keys and the log's offsets ascend. False proves nothing.
        """
        cdef Py_ssize_t rows = len(table), row
        result = np.zeros(rows, np.bool_)
        if not table.summary.sound:
            return result
        cdef uint8_t[::1] found = result.view(np.uint8)
        cdef const int64_t[:] base_offsets = table.base_offset
        cdef const int64_t[:] last_offsets = table.last_offset
        cdef const int32_t[:] counts = table.record_count
        cdef const uint8_t[:] is_data = np.logical_and(table.magic == 2, ~table.is_control).view(np.uint8)
        cdef Slots slots = self.enter(False)
        with nogil:
            for row in range(rows):
                if is_data[row] and counts[row] > 0:
                    found[row] = tl_all_superseded(&self.noted, base_offsets[row], last_offsets[row], counts[row])
        self.leave(False, &slots)
        return result


cdef tl_hash128 hash_buffer(const Slots* slots, object key) except *:
    cdef Py_buffer view
    cdef tl_hash128 hash
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    hash = hash_key(slots, <const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return hash


cdef Py_ssize_t put_rows(
    OffsetMap offset_map, Slots* slots, const Keys* keys, const int64_t* offsets, Py_ssize_t first, Py_ssize_t last
) noexcept nogil:
    cdef tl_hash128[RUN] hashes
    cdef Py_ssize_t row, end
    while first < last:
        end = min(first + RUN, last)
        hash_rows(slots, keys, first, end, hashes)
        for row in range(first, end):
            if is_valid(keys, row) and put_hash(offset_map, slots, hashes[row - first], offsets[row]) == NO_ROOM:
                return row
        first = end
    return last


cdef void get_rows(
    Slots* slots, const Keys* keys, Py_ssize_t first, Py_ssize_t last, int64_t* found
) noexcept nogil:
    cdef tl_hash128[RUN] hashes
    cdef Py_ssize_t row, end
    while first < last:
        end = min(first + RUN, last)
        hash_rows(slots, keys, first, end, hashes)
        for row in range(first, end):
            if is_valid(keys, row):
                found[0] = offset_in(find_slot(slots, hashes[row - first]))
            found += 1
        first = end


cdef void hash_rows(
    const Slots* slots, const Keys* keys, Py_ssize_t first, Py_ssize_t last, tl_hash128* hashes
) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(first, last):
        if is_valid(keys, row):
            hashes[row - first] = hash_key(
                slots, keys.data + keys.offsets[row], keys.offsets[row + 1] - keys.offsets[row]
            )


cdef inline bint is_valid(const Keys* keys, Py_ssize_t row) noexcept nogil:
    return keys.validity == NULL or keys.validity[row >> 3] >> (row & 7) & 1


cdef tuple keys_of(object columns, Py_ssize_t first, Py_ssize_t last):
    """Return offsets, data and validity of the keys; the rows' offsets ascend and lie in the data."""
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
    """Return the 16 bytes of the published algorithm; for tests."""
    cdef bytes secret = bytes(key)
    cdef bytes text = bytes(data)
    cdef tl_hash128 hash = tl_siphash(
        tl_little64(<const uint8_t*>secret, 8), tl_little64(<const uint8_t*>secret + 8, 8), <const uint8_t*>text,
        len(text), word_rounds, end_rounds,
    )
    return int(hash.low).to_bytes(8, "little") + int(hash.high).to_bytes(8, "little")
