# cython: boundscheck=True, wraparound=False, cdivision=True
"""``put_batch_keys``: the latest offset of each key of many batches, straight from their bytes, without the GIL."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.kernel._buffers cimport Buffers
from tidelog.kernel._faults cimport FAULT_BATCH_END, FAULT_NONE
from tidelog.kernel._offset_map cimport RUN, OffsetMap, Slots, hash_key, put_hash, tl_hash128
from tidelog.kernel._open_batch cimport OpenBatch, check_batch, next_record, open_batch
from tidelog.kernel._records cimport tl_record

import numpy as np

from tidelog.kernel.open_fault import open_error

cdef enum:
    MAP_FULL = 110  # beside what open_batch gives

# Keys on their way into the map, whose slots are being fetched.
cdef struct Waiting:
    tl_hash128[RUN] hashes
    int64_t[RUN] offsets
    int count


def put_batch_keys(
    OffsetMap offset_map not None, buffer, table, *, wanted, int64_t start_offset, plain=None, int64_t base_position=0
):
    """Put the keys of all records from ``start_offset`` on that are in the ``wanted`` batches, a bool a table row.

    ``plain``: None, or for each row None or what stands for its batch: where that is compressed its records, where it
    is of v0 or v1 a v2 batch of the same records. Batches that are not wanted, or end below the start, need none.
    Returns the first row that is not wholly in the map: ``len(table)``, or the row where a key found the map full.
    ``latest_offset`` is then the last offset put, else the last offset of the last batch. ValueError for rows that lie
    outside the buffer or are not opened; CorruptRecordError for a bad batch: what came before it is in the map.
    """
    cdef Py_ssize_t rows = len(table), row
    cdef Buffers opened = None
    cdef Py_buffer view
    cdef const int64_t[:] positions = table.position
    cdef const int64_t[:] last_offsets = table.last_offset
    cdef const uint8_t[:] crc_ok = table.crc_ok.view(np.uint8)
    cdef const uint8_t[:] chosen = np.ascontiguousarray(wanted, dtype=np.bool_).view(np.uint8)
    cdef OpenBatch batch
    cdef Slots slots
    cdef int32_t done = -1
    cdef int fault = FAULT_NONE
    if chosen.shape[0] != rows:
        raise ValueError(f"wanted has {chosen.shape[0]} rows, the table {rows}")
    if plain is not None:
        if len(plain) != rows:
            raise ValueError(f"plain has {len(plain)} rows, the table {rows}")
        opened = Buffers(plain)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        slots = offset_map.enter(True)
        with nogil:
            row = 0
            while row < rows:
                if last_offsets[row] >= start_offset:
                    if chosen[row]:
                        fault = open_batch(
                            <const uint8_t*>view.buf, view.len, positions[row] - base_position, crc_ok[row],
                            NULL if opened is None else &opened.views[row], &batch,
                        )
                        if not fault:
                            fault = put_records(offset_map, &slots, &batch, start_offset, &done)
                        if fault:
                            break
                    if last_offsets[row] > offset_map.latest_offset:
                        offset_map.latest_offset = last_offsets[row]
                row += 1
        offset_map.leave(True, &slots)
        if fault and fault != MAP_FULL:
            raise open_error(
                fault, position=positions[row], offset=int(table.base_offset[row]), record=done,
                count=batch.header.record_count,
            )
    finally:
        PyBuffer_Release(&view)
    return row


cdef int put_records(
    OffsetMap offset_map, Slots* slots, const OpenBatch* batch, int64_t start_offset, int32_t* done
) noexcept nogil:
    """``done``: the record where a fault was found, -1 where it is of the whole batch."""
    cdef const uint8_t* p = batch.records
    cdef int64_t base_offset = batch.header.base_offset, last_delta = batch.header.last_offset_delta, offset
    cdef Waiting waiting
    cdef tl_record record
    cdef int32_t index
    cdef int fault
    done[0] = -1
    waiting.count = 0
    fault = check_batch(batch)
    if fault:
        return fault
    for index in range(batch.header.record_count):
        fault = next_record(p, batch.end, last_delta, &record)
        if fault:
            done[0] = index
            return fault if put_waiting(offset_map, slots, &waiting) else MAP_FULL
        p = record.stop
        offset = base_offset + record.offset_delta
        if record.key == NULL or offset < start_offset:
            continue
        waiting.hashes[waiting.count] = hash_key(slots, record.key, record.key_length)
        waiting.offsets[waiting.count] = offset
        waiting.count += 1
        if waiting.count == RUN and not put_waiting(offset_map, slots, &waiting):
            return MAP_FULL
    if not put_waiting(offset_map, slots, &waiting):
        return MAP_FULL
    return FAULT_NONE if p == batch.end else FAULT_BATCH_END


cdef bint put_waiting(OffsetMap offset_map, Slots* slots, Waiting* waiting) noexcept nogil:
    """False once a key comes when the map is full, be it known: there Kafka's cleaner ends its map."""
    cdef int index
    for index in range(waiting.count):
        if offset_map.size >= offset_map.max_size:
            return False
        put_hash(offset_map, slots, waiting.hashes[index], waiting.offsets[index])
    waiting.count = 0
    return True
