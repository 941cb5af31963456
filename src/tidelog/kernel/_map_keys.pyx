# cython: boundscheck=True, wraparound=False, cdivision=True
"""Keys of many batches into an OffsetMap, from their raw bytes and without the GIL, in two steps.

``hash_batch_keys`` reads and hashes; several threads may run it. ``put_hashed_keys`` puts the results into the map in
log order. Only this second, much shorter step must wait for earlier chunks.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from tidelog.kernel._buffers cimport Buffers
from tidelog.kernel._faults cimport FAULT_BATCH_END, FAULT_NONE
from tidelog.kernel._memory cimport Block, Memory, give_block, reserve, take_block
from tidelog.kernel._offset_map cimport (
    RUN, OffsetMap, Slots, fetch_slot, put_hash, tl_hash128, tl_little64, tl_note_superseded, tl_pass_over,
)
from tidelog.kernel._open_batch cimport OpenBatch, check_batch, next_record, open_batch
from tidelog.kernel._records cimport NO_MEMORY, tl_record

import numpy as np

from tidelog.kernel.hashed_keys import HashedKeys
from tidelog.kernel.faults import open_error

cdef extern from "siphash_lanes.h" nogil:
    enum:
        MOST_LANES "TL_MOST_LANES"
    int tl_lanes_of_this_cpu()
    void tl_siphash_by_lanes(
        int, uint64_t, uint64_t, const uint8_t* const*, const int32_t*, int, tl_hash128*
    )

cdef int lanes_of_this_cpu = tl_lanes_of_this_cpu()

# A record with a key.
cdef struct Entry:
    tl_hash128 hash
    int64_t offset

cdef struct Hashing:
    uint64_t key_low
    uint64_t key_high
    int64_t start_offset
    Block entries

# Keys that wait until a vector is full, in a batch's order.
cdef struct Waiting:
    const uint8_t* keys[MOST_LANES]
    int32_t lengths[MOST_LANES]
    int count


def hash_batch_keys(
    OffsetMap offset_map not None, buffer, table, *, wanted, int64_t start_offset, opened=None, int64_t base_position=0
):
    """Return HashedKeys of all records from ``start_offset`` on in the ``wanted`` batches (a bool per table row).

    ``opened`` is None, or has an entry per row: a compressed batch's decompressed records, a v2 batch with the
    records of a v0 or v1 batch, or None. Batches that are not wanted, or end below the start, need none. Raise ValueError for rows
    outside the buffer or without their opened batch. Raise CorruptRecordError for an invalid batch.
    """
    cdef Py_ssize_t rows = len(table), row = 0
    cdef Buffers buffers = None
    cdef Py_buffer view
    cdef const int64_t[:] positions = table.position
    cdef const int64_t[:] last_offsets = table.last_offset
    cdef const uint8_t[:] crc_ok = table.crc_ok.view(np.uint8)
    cdef const uint8_t[:] chosen = np.ascontiguousarray(wanted, dtype=np.bool_).view(np.uint8)
    cdef OpenBatch batch
    cdef Hashing work
    cdef int32_t done = -1
    cdef int fault = FAULT_NONE
    ends = np.empty(rows, np.int64)
    cdef int64_t[::1] row_ends = ends
    if chosen.shape[0] != rows:
        raise ValueError(f"wanted has {chosen.shape[0]} rows, the table {rows}")
    if opened is not None:
        if len(opened) != rows:
            raise ValueError(f"opened has {len(opened)} rows, the table {rows}")
        buffers = Buffers(opened)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    work.key_low = offset_map.slots.key_low
    work.key_high = offset_map.slots.key_high
    work.start_offset = start_offset
    work.entries = Block(NULL, 0, 0)
    take_block(&work.entries, view.len // 4)  # only a guess
    try:
        with nogil:
            while row < rows:
                if chosen[row] and last_offsets[row] >= start_offset:
                    fault = open_batch(
                        <const uint8_t*>view.buf, view.len, positions[row] - base_position, crc_ok[row],
                        NULL if buffers is None else &buffers.views[row], &batch,
                    )
                    if not fault:
                        fault = hash_records(&work, &batch, &done)
                    if fault:
                        break
                row_ends[row] = work.entries.used // sizeof(Entry)
                row += 1
        if fault:
            raise open_error(
                fault, position=positions[row], offset=int(table.base_offset[row]), record=done,
                count=batch.header.record_count,
            )
        skipped = np.where(table.last_offset < start_offset, table.magic < 2, ~np.asarray(wanted, np.bool_))
        return HashedKeys(
            memoryview(Memory.take(&work.entries)), ends, np.array(table.last_offset),
            bool((skipped & ~table.is_control).any()),
        )
    finally:
        give_block(&work.entries)
        PyBuffer_Release(&view)


cdef int hash_records(Hashing* work, const OpenBatch* batch, int32_t* done) noexcept nogil:
    """Hash a batch's records; ``done`` becomes the faulty record, or -1 if the fault is the batch's."""
    cdef const uint8_t* p = batch.records
    cdef int64_t last_delta = batch.header.last_offset_delta, offset
    cdef tl_record record
    cdef Entry* entry
    cdef Waiting waiting
    cdef int32_t index
    cdef int fault = check_batch(batch)
    done[0] = -1
    if fault:
        return fault
    if not reserve(&work.entries, <size_t>batch.header.record_count * sizeof(Entry)):
        return NO_MEMORY
    entry = <Entry*>(work.entries.data + work.entries.used)
    waiting.count = 0
    for index in range(batch.header.record_count):
        fault = next_record(p, batch.end, last_delta, &record)
        if fault:
            done[0] = index
            return fault
        p = record.stop
        offset = batch.header.base_offset + record.offset_delta
        if record.key == NULL or offset < work.start_offset:
            continue
        waiting.keys[waiting.count] = record.key
        waiting.lengths[waiting.count] = record.key_length
        waiting.count += 1
        entry.offset = offset
        entry += 1
        if waiting.count == MOST_LANES:
            hash_waiting(work, &waiting, entry)
    hash_waiting(work, &waiting, entry)
    work.entries.used = <uint8_t*>entry - work.entries.data
    return FAULT_NONE if p == batch.end else FAULT_BATCH_END


cdef inline void hash_waiting(const Hashing* work, Waiting* waiting, Entry* end) noexcept nogil:
    """Hash the keys that wait, whose entries are the last ones before ``end``."""
    cdef tl_hash128[MOST_LANES] hashes
    cdef int index
    tl_siphash_by_lanes(
        lanes_of_this_cpu, work.key_low, work.key_high, waiting.keys, waiting.lengths, waiting.count, hashes
    )
    for index in range(waiting.count):
        end[index - waiting.count].hash = hashes[index]
    waiting.count = 0


def put_hashed_keys(OffsetMap offset_map not None, hashed, *, int64_t start_offset):
    """Put the result of ``hash_batch_keys`` for this map; return False if the map became full.

    ``latest_offset`` becomes the last offset of each batch from ``start_offset`` on, wanted or not. Once the map is
    full and another key comes, known or new, it stays at the last key's offset. Kafka's cleaner ends its map there too.
    """
    cdef const uint8_t[::1] data = hashed.entries
    cdef const int64_t[::1] row_ends = hashed.row_ends
    cdef const int64_t[::1] last_offsets = hashed.last_offsets
    cdef Py_ssize_t rows = row_ends.shape[0], row, index = 0, count = data.shape[0] // sizeof(Entry)
    cdef const Entry* entries = <const Entry*>&data[0] if count else NULL
    cdef Slots slots
    cdef int64_t before
    cdef bint all_in = True
    if last_offsets.shape[0] != rows or rows and np.max(hashed.row_ends) > count:
        raise ValueError(f"{count} keys of {rows} batches, of which {last_offsets.shape[0]} have a last offset")
    slots = offset_map.enter(True)
    if hashed.skips_data:
        offset_map.noted.complete = False
    with nogil:
        for row in range(min(RUN, count)):
            fetch_slot(&slots, entries[row].hash)
        for row in range(rows):
            while index < row_ends[row] and all_in:
                if index + RUN < count:
                    fetch_slot(&slots, entries[index + RUN].hash)
                all_in = offset_map.size < offset_map.max_size
                if all_in:
                    before = put_hash(offset_map, &slots, entries[index].hash, entries[index].offset)
                    tl_note_superseded(&offset_map.noted, before, entries[index].offset)
                    index += 1
            if not all_in:
                break
            if last_offsets[row] >= start_offset and last_offsets[row] > offset_map.latest_offset:
                offset_map.latest_offset = last_offsets[row]
        for row in range(index, count):  # none is left unless the map is full
            tl_pass_over(&offset_map.noted, entries[row].offset)
    offset_map.leave(True, &slots)
    return all_in


def siphash_lanes(keys, key):
    """Return the 16 bytes of SipHash-1-3 of each of up to 8 keys, for each number of lanes of this CPU; for tests."""
    cdef list texts = [bytes(one) for one in keys]
    cdef bytes secret = bytes(key)
    cdef Waiting waiting
    cdef tl_hash128[MOST_LANES] hashes
    cdef bytes text
    cdef int lanes
    waiting.count = 0
    for text in texts[:MOST_LANES]:
        waiting.keys[waiting.count] = text
        waiting.lengths[waiting.count] = len(text)
        waiting.count += 1
    found = {}
    for lanes in (1, 4, 8):
        if lanes <= lanes_of_this_cpu:
            tl_siphash_by_lanes(
                lanes, tl_little64(<const uint8_t*>secret, 8), tl_little64(<const uint8_t*>secret + 8, 8),
                waiting.keys, waiting.lengths, waiting.count, hashes,
            )
            found[lanes] = [
                int(hashes[index].low).to_bytes(8, "little") + int(hashes[index].high).to_bytes(8, "little")
                for index in range(waiting.count)
            ]
    return found
