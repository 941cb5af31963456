# The slots of an OffsetMap, for the kernels that put and look up keys themselves. They call `enter` before they
# release the GIL and `leave` after they hold it again; _offset_map.pyx has the rules for several threads.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from "siphash.h" nogil:
    ctypedef struct tl_hash128:
        uint64_t low
        uint64_t high
    enum:
        WORD_ROUNDS "TL_WORD_ROUNDS"
        END_ROUNDS "TL_END_ROUNDS"
    tl_hash128 tl_siphash(uint64_t, uint64_t, const uint8_t*, size_t, int, int)
    uint64_t tl_little64(const uint8_t*, size_t)

cdef extern from "zeroed.h" nogil:
    ctypedef struct tl_zeroed:
        void* data
    bint tl_zeroed_take(tl_zeroed*, size_t)
    void tl_zeroed_free(tl_zeroed*)

cdef extern from "superseded.h" nogil:
    ctypedef struct tl_superseded:
        uint64_t* words
        bint complete
    void tl_forget_superseded(tl_superseded*)
    void tl_note_superseded(tl_superseded*, int64_t, int64_t)
    void tl_pass_over(tl_superseded*, int64_t)
    bint tl_is_superseded(const tl_superseded*, int64_t)
    bint tl_is_latest(const tl_superseded*, int64_t)
    bint tl_all_superseded(const tl_superseded*, int64_t, int64_t, int64_t)

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
    NEVER = -1  # the key did not come before
    NO_ROOM = -2
    RUN = 16  # the number of keys that are hashed, and whose slots are prefetched, before the first slot is read

cdef struct Slot:
    uint64_t low
    uint64_t high
    uint64_t offset_and_one

# The values for lookups. Each caller counts in its own copy until `leave`.
cdef struct Slots:
    Slot* first
    size_t count
    uint64_t key_low
    uint64_t key_high
    int64_t lookups
    int64_t probes


# Two prefetches, because every fourth slot lies in two cache lines.
cdef inline void fetch_slot(const Slots* slots, tl_hash128 hash) noexcept nogil:
    cdef const Slot* slot = slots.first + tl_scale(hash.low, slots.count)
    tl_prefetch(slot)
    tl_prefetch(&slot.offset_and_one)


# Hash a key and prefetch its slot.
cdef inline tl_hash128 hash_key(const Slots* slots, const uint8_t* data, size_t length) noexcept nogil:
    cdef tl_hash128 hash = tl_siphash(slots.key_low, slots.key_high, data, length, WORD_ROUNDS, END_ROUNDS)
    fetch_slot(slots, hash)
    return hash


# Return the slot of the hash, or the empty slot for it; there is one, because a map never uses all its slots.
cdef inline Slot* find_slot(Slots* slots, tl_hash128 hash) noexcept nogil:
    cdef Slot* slot = slots.first + tl_scale(hash.low, slots.count)
    cdef Slot* end = slots.first + slots.count
    slots.lookups += 1
    slots.probes += 1
    while slot.offset_and_one and (slot.low != hash.low or slot.high != hash.high):
        slots.probes += 1
        slot += 1
        if slot == end:
            slot = slots.first
    return slot


cdef inline int64_t offset_in(const Slot* slot) noexcept nogil:
    return <int64_t>(slot.offset_and_one - 1)


cdef class OffsetMap:
    cdef tl_zeroed memory
    cdef Slots slots
    cdef readonly Py_ssize_t max_size
    cdef readonly Py_ssize_t size
    cdef public int64_t latest_offset
    cdef tl_superseded noted
    cdef int users

    cdef Slots enter(self, bint writes) except *
    cdef void leave(self, bint writes, const Slots* counted) noexcept


# Put a hash; return the key's previous latest offset, NEVER, or NO_ROOM if it is new and does not fit. A smaller
# offset never replaces a larger one.
cdef inline int64_t put_hash(OffsetMap offset_map, Slots* slots, tl_hash128 hash, int64_t offset) noexcept nogil:
    cdef Slot* slot = find_slot(slots, hash)
    cdef int64_t before = offset_in(slot)
    if before == NEVER:
        if offset_map.size >= offset_map.max_size:
            return NO_ROOM
        offset_map.size += 1
        slot.low = hash.low
        slot.high = hash.high
    if offset > before:
        slot.offset_and_one = <uint64_t>offset + 1
    if offset > offset_map.latest_offset:
        offset_map.latest_offset = offset
    return before
