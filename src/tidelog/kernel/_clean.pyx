# cython: boundscheck=True, wraparound=False, cdivision=True
"""The cleaner's filter, without the GIL: batches lose the records that an OffsetMap made obsolete.

``filter_batches`` decides, copies and rebuilds. It leaves plain records in batches that must be compressed again. The
caller compresses them, and ``pack_batches`` inserts the results. The module clean_batches of record/cleaning has the
rules for records and batches. Thread rule: any number of threads may filter with one map.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from tidelog.kernel._buffers cimport Buffers
from tidelog.kernel._bytes cimport (
    V2_HEADER, tl_add64, tl_put_varint, tl_put_varlong, tl_size_varint, tl_size_varlong, tl_sub64,
)
from tidelog.kernel._faults cimport FAULT_BATCH_END, FAULT_NONE
from tidelog.kernel._header cimport Header, read_header, write_header
from tidelog.kernel._memory cimport Block, Memory, give_block, reserve, reserve_total, take_block
from tidelog.kernel._offset_map cimport (
    OffsetMap, Slots, find_slot, hash_key, offset_in, tl_hash128, tl_is_latest, tl_is_superseded, tl_superseded,
)
from tidelog.kernel._open_batch cimport EMPTY_LEGACY, TOO_LARGE, OpenBatch, check_batch, next_record, open_batch
from tidelog.kernel._records cimport NO_MEMORY, tl_record

import numpy as np

from tidelog.kernel.batch_retention import FilteredBatches
from tidelog.kernel.faults import open_error

cdef enum:
    # the numbers of ``Retention``
    DELETE = 0
    RETAIN_EMPTY = 2
    # the attribute bits
    LOG_APPEND = 0x08
    CONTROL = 0x20
    DELETE_HORIZON = 0x40
    KEPT_ATTRIBUTES = 0x38  # timestamp type, transactional, control
    MOST_VARINT_BYTES = 21  # a record's length, attributes and deltas

# A record that was read; if it stays, `fields` to `stop` is copied.
cdef struct Seen:
    const uint8_t* fields
    const uint8_t* stop
    int64_t timestamp_delta
    tl_hash128 hash  # the key's hash, whose slot is being prefetched; unset if the record is known as the latest
    int32_t offset_delta
    bint has_key
    bint has_value
    bint is_latest  # certainly the latest of its key; False proves nothing

# The start and end of a batch that must be compressed.
cdef struct Span:
    int64_t start
    int64_t end

cdef struct Filter:
    Slots slots
    tl_superseded noted
    int64_t latest_offset
    int64_t now_ms
    int64_t new_horizon
    bint legacy_tombstones_stay
    Block out
    Block seen
    Block unpacked
    int64_t records_read
    int64_t records_kept
    int64_t invalid_records

# The result for one batch.
cdef struct Found:
    int32_t kept
    bint has_tombstone
    int32_t record  # the faulty record, or -1 for the batch


def filter_batches(
    buffer, table, decisions, OffsetMap offset_map not None, rules, *, opened=None, int64_t base_position=0
):
    """Return the FilteredBatches of the rows of ``table`` by ``decisions`` (BatchRetention) and ``rules`` (CleaningRules).

    ``opened`` is as in ``hash_batch_keys``; rows that are deleted or discarded need none. Raise ValueError for rows
    outside the buffer or without their opened batch. Raise CorruptRecordError for an invalid batch, InvalidRecordError for
    a legacy batch that must stay without records.
    """
    cdef Py_ssize_t rows = len(table), row = 0
    cdef const int64_t[:] positions = table.position
    cdef const uint8_t[:] crc_ok = table.crc_ok.view(np.uint8)
    cdef const uint8_t[:] retention = column_of(decisions, "retention", rows)
    cdef const uint8_t[:] discard = column_of(decisions, "discard", rows)
    cdef const uint8_t[:] ends_empty_transaction = column_of(decisions, "ends_empty_transaction", rows)
    cdef Buffers buffers = None
    cdef Py_buffer view
    cdef OpenBatch batch
    cdef Found found
    cdef Filter work
    cdef int fault = FAULT_NONE
    if opened is not None:
        if len(opened) != rows:
            raise ValueError(f"opened has {len(opened)} rows, the table {rows}")
        buffers = Buffers(opened)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        start_filter(&work, offset_map, rules, view.len)
        work.slots = offset_map.enter(False)
        work.noted = offset_map.noted
        with nogil:
            while row < rows:
                if retention[row] != DELETE:
                    found.record = -1
                    fault = open_batch(
                        <const uint8_t*>view.buf, view.len, positions[row] - base_position, crc_ok[row],
                        NULL if buffers is None else &buffers.views[row], &batch,
                    )
                    if not fault:
                        fault = filter_batch(
                            &work, &batch, retention[row], discard[row], ends_empty_transaction[row], &found
                        )
                    if fault:
                        break
                row += 1
        offset_map.leave(False, &work.slots)
        if fault:
            raise open_error(
                fault, position=positions[row], offset=int(table.base_offset[row]), record=found.record,
                count=batch.header.record_count,
            )
        return finished(&work)
    finally:
        give_block(&work.out)
        give_block(&work.seen)
        give_block(&work.unpacked)
        PyBuffer_Release(&view)


cdef object column_of(object decisions, str name, Py_ssize_t rows):
    column = np.ascontiguousarray(getattr(decisions, name)).view(np.uint8)
    if len(column) != rows:
        raise ValueError(f"{name} has {len(column)} rows, the table {rows}")
    return column


cdef int start_filter(Filter* work, OffsetMap offset_map, object rules, Py_ssize_t length) except -1:
    cdef Block none = Block(NULL, 0, 0)
    work.out = work.seen = work.unpacked = none
    work.latest_offset = offset_map.latest_offset
    work.now_ms = rules.now_ms
    work.new_horizon = tl_add64(work.now_ms, rules.delete_retention_ms)
    work.legacy_tombstones_stay = rules.retain_legacy_deletes
    work.records_read = work.records_kept = work.invalid_records = 0
    take_block(&work.out, length)
    return 0


cdef object finished(Filter* work):
    spans = np.empty((work.unpacked.used // sizeof(Span), 2), np.int64)
    cdef int64_t[:, ::1] cells = spans
    if work.unpacked.used:
        memcpy(&cells[0, 0], work.unpacked.data, work.unpacked.used)
    data = memoryview(Memory.take(&work.out))
    return FilteredBatches(data, spans, work.records_read, work.records_kept, work.invalid_records)


cdef int filter_batch(
    Filter* work, const OpenBatch* batch, uint8_t retention, bint discard, bint ends_empty_transaction, Found* found
) noexcept nogil:
    cdef const Header* header = &batch.header
    cdef bint is_new
    cdef int64_t horizon = -1
    cdef int fault
    found.kept = 0
    found.has_tombstone = False
    if not discard:
        fault = select_records(work, batch, found)
        if fault:
            return fault
    work.records_read += header.record_count
    work.records_kept += found.kept
    if not found.kept:
        return put_empty(work, batch) if retention == RETAIN_EMPTY else FAULT_NONE
    if header.attributes & DELETE_HORIZON:
        is_new = False
        horizon = header.base_timestamp
    else:
        is_new = found.has_tombstone or ends_empty_transaction
        if is_new:
            horizon = work.new_horizon
    if found.kept == header.record_count and not is_new and not batch.is_legacy:
        return put_whole(work, batch)
    return rebuild(work, batch, found.kept, horizon)


cdef int select_records(Filter* work, const OpenBatch* batch, Found* found) noexcept nogil:
    """Select the records that stay in ``work.seen``. All are read, and their slots prefetched, before any check."""
    cdef int32_t index, count = 0
    cdef Seen* seen
    cdef int fault = check_batch(batch)
    if fault:
        return fault
    if not reserve_total(&work.seen, <size_t>batch.header.record_count * sizeof(Seen)):
        return NO_MEMORY
    seen = <Seen*>work.seen.data
    fault = read_records(work, batch, seen, &count, &found.record)
    if fault:
        return fault
    for index in range(count):
        if stays(work, batch, &seen[index]):
            if not seen[index].has_value:
                found.has_tombstone = True
            if found.kept != index:
                seen[found.kept] = seen[index]
            found.kept += 1
    return FAULT_NONE


cdef int read_records(
    Filter* work, const OpenBatch* batch, Seen* seen, int32_t* count, int32_t* at_fault
) noexcept nogil:
    """Read all records except those known as superseded; ``count`` becomes the number of records in ``seen``."""
    cdef const uint8_t* p = batch.records
    cdef const uint8_t* end = batch.end
    cdef int64_t last_delta = batch.header.last_offset_delta
    cdef Slots slots = work.slots
    cdef tl_superseded noted = work.noted
    cdef bint may_go = not batch.header.attributes & CONTROL
    cdef tl_record record
    cdef int64_t offset
    cdef int32_t index
    cdef int fault
    for index in range(batch.header.record_count):
        fault = next_record(p, end, last_delta, &record)
        if fault:
            at_fault[0] = index
            return fault
        p = record.stop
        if record.key != NULL:
            offset = batch.header.base_offset + record.offset_delta
            if may_go and tl_is_superseded(&noted, offset):
                continue
            seen.is_latest = tl_is_latest(&noted, offset)
            if not seen.is_latest:
                seen.hash = hash_key(&slots, record.key, record.key_length)
        seen.fields = record.fields
        seen.stop = p
        seen.timestamp_delta = record.timestamp_delta
        seen.offset_delta = record.offset_delta
        seen.has_key = record.key != NULL
        seen.has_value = record.value != NULL
        seen += 1
        count[0] += 1
    return FAULT_NONE if p == end else FAULT_BATCH_END


cdef inline bint stays(Filter* work, const OpenBatch* batch, const Seen* record) noexcept nogil:
    cdef const Header* header = &batch.header
    cdef int64_t offset = header.base_offset + record.offset_delta
    if header.attributes & CONTROL or offset > work.latest_offset:
        return True
    if not record.has_key:
        work.invalid_records += 1
        return False
    if not record.is_latest and offset < offset_in(find_slot(&work.slots, record.hash)):
        return False
    if record.has_value:
        return True
    if batch.is_legacy:
        return work.legacy_tombstones_stay
    return not header.attributes & DELETE_HORIZON or work.now_ms < header.base_timestamp


cdef int put_whole(Filter* work, const OpenBatch* batch) noexcept nogil:
    if not reserve(&work.out, batch.size):
        return NO_MEMORY
    memcpy(work.out.data + work.out.used, batch.whole, batch.size)
    work.out.used += batch.size
    return FAULT_NONE


cdef int put_empty(Filter* work, const OpenBatch* batch) noexcept nogil:
    cdef Header header = batch.header
    if batch.is_legacy:
        return EMPTY_LEGACY
    if not reserve(&work.out, V2_HEADER):
        return NO_MEMORY
    header.attributes &= KEPT_ATTRIBUTES
    header.base_timestamp = -1
    header.record_count = 0
    write_header(work.out.data + work.out.used, V2_HEADER, &header)
    work.out.used += V2_HEADER
    return FAULT_NONE


cdef int rebuild(Filter* work, const OpenBatch* batch, int32_t count, int64_t horizon) noexcept nogil:
    """Build a batch of the kept records; a negative horizon means none."""
    cdef const Seen* kept = <const Seen*>work.seen.data
    cdef Header header = batch.header
    cdef int32_t base_delta = 0
    cdef Span span
    cdef uint8_t* start
    cdef uint8_t* p
    if batch.is_legacy:
        base_delta = kept[0].offset_delta
        header.base_offset += base_delta
        header.last_offset_delta = kept[count - 1].offset_delta - base_delta
    if not reserve(&work.out, V2_HEADER + (batch.end - batch.records) + <size_t>count * MOST_VARINT_BYTES):
        return NO_MEMORY
    header.attributes = header.attributes & KEPT_ATTRIBUTES | batch.codec | (DELETE_HORIZON if horizon >= 0 else 0)
    header.base_timestamp = horizon if horizon >= 0 else timestamp_of(batch, &kept[0])
    header.record_count = count
    start = work.out.data + work.out.used
    p = put_records(start + V2_HEADER, batch, kept, base_delta, &header)
    if p == NULL or p - start > INT32_MAX:
        return TOO_LARGE
    write_header(start, p - start, &header)
    if batch.codec:
        span.start = work.out.used
        span.end = span.start + (p - start)
        if not reserve(&work.unpacked, sizeof(Span)):
            return NO_MEMORY
        memcpy(work.unpacked.data + work.unpacked.used, &span, sizeof(Span))
        work.unpacked.used += sizeof(Span)
    work.out.used += p - start
    return FAULT_NONE


cdef inline int64_t timestamp_of(const OpenBatch* batch, const Seen* record) noexcept nogil:
    if batch.header.attributes & LOG_APPEND:
        return batch.header.max_timestamp
    return tl_add64(batch.header.base_timestamp, record.timestamp_delta)


cdef uint8_t* put_records(
    uint8_t* p, const OpenBatch* batch, const Seen* kept, int32_t base_delta, Header* header
) noexcept nogil:
    """Write the records and set ``header``'s largest timestamp to theirs; return NULL if a record exceeds 2 GiB."""
    cdef int64_t timestamp, timestamp_delta, length, max_timestamp = -1
    cdef int32_t index, offset_delta
    cdef Py_ssize_t size
    for index in range(header.record_count):
        size = kept[index].stop - kept[index].fields
        timestamp = timestamp_of(batch, &kept[index])
        max_timestamp = max(max_timestamp, timestamp)
        timestamp_delta = tl_sub64(timestamp, header.base_timestamp)
        offset_delta = kept[index].offset_delta - base_delta
        length = 1 + tl_size_varlong(timestamp_delta) + tl_size_varint(offset_delta) + size
        if length > INT32_MAX:
            return NULL
        p = tl_put_varint(p, <int32_t>length)
        p[0] = 0
        p = tl_put_varlong(p + 1, timestamp_delta)
        p = tl_put_varint(p, offset_delta)
        memcpy(p, kept[index].fields, size)
        p += size
    if not header.attributes & LOG_APPEND:
        header.max_timestamp = max_timestamp
    return p


def pack_batches(filtered, packed):
    """Return ``filtered.data`` with the buffers ``packed`` as records of the batches in ``filtered.unpacked``.

    Raise ValueError if their numbers differ or a batch lies outside the data, OverflowError if one exceeds 2 GiB.
    """
    cdef const int64_t[:, ::1] spans = filtered.unpacked
    cdef const uint8_t[::1] data = filtered.data
    cdef Buffers records = Buffers(packed)
    cdef Py_ssize_t count = spans.shape[0], index, size = data.shape[0], done = 0, start, end
    cdef Block out = Block(NULL, 0, 0)
    if records.count != count:
        raise ValueError(f"{records.count} payloads for {count} batches")
    for index in range(count):
        start, end = spans[index, 0], spans[index, 1]
        if not done <= start <= end <= data.shape[0] or end - start < V2_HEADER:
            raise ValueError(f"no batch lies at [{start}:{end}] of {data.shape[0]} bytes")
        done = end
        if records.views[index].len > INT32_MAX - V2_HEADER:
            raise OverflowError(f"{records.views[index].len} bytes of records do not fit one batch")
        size += V2_HEADER + records.views[index].len - (end - start)
    take_block(&out, size)
    if out.data == NULL:
        raise MemoryError()
    if size:
        with nogil:
            put_packed(&out, &data[0] if data.shape[0] else NULL, data.shape[0], spans, records)
    return memoryview(Memory.take(&out))


cdef int put_packed(
    Block* out, const uint8_t* data, Py_ssize_t length, const int64_t[:, ::1] spans, Buffers records
) noexcept nogil:
    cdef Header header
    cdef Py_ssize_t index, done = 0, size
    cdef uint8_t* p = out.data
    for index in range(spans.shape[0]):
        memcpy(p, data + done, spans[index, 0] - done)
        p += spans[index, 0] - done
        size = records.views[index].len
        memcpy(p + V2_HEADER, records.views[index].buf, size)
        read_header(data + spans[index, 0], &header)
        write_header(p, V2_HEADER + size, &header)
        p += V2_HEADER + size
        done = spans[index, 1]
    memcpy(p, data + done, length - done)
    out.used = p + (length - done) - out.data
    return 0
