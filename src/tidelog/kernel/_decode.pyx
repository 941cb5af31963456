# cython: boundscheck=True, wraparound=False, cdivision=True
"""ColumnDecoder: record batches into columns, many batches per call without the GIL.

The hot loop is in _records.pxd. This module has the checks before it (buffer bounds, header, room below the limit) and
its results (errors, finished columns). A batch is added completely or not at all.
Thread rule: a decoder serves one thread at a time; a second thread gets RuntimeError.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from tidelog.kernel._bytes cimport (
    PREFIX, TL_SLACK, V2_ATTRIBUTES, V2_BASE_SEQUENCE, V2_BASE_TIMESTAMP, V2_HEADER, V2_LAST_OFFSET_DELTA, V2_LENGTH,
    V2_MAGIC, V2_MAX_TIMESTAMP, V2_MIN_RECORD, V2_RECORD_COUNT, tl_add64, tl_load16, tl_load32, tl_load64,
)
from tidelog.kernel._faults cimport FAULT_CRC, FAULT_HEADER, FAULT_NONE, FAULT_RECORD_COUNT
from tidelog.kernel._memory cimport Block, Memory, give_block, take_block
from tidelog.kernel._records cimport (
    NO_MEMORY, Batch, Columns, Strings, Wanted, add_records, put_header, put_string, reserve_rows, reserve_strings,
)

import numpy as np

from tidelog.kernel.columns import RecordColumns
from tidelog.kernel.faults import Fault
from tidelog.model.errors import CorruptRecordError

cdef enum:
    INT32_LIMIT = 0x7fffffff
    # The reasons why add_row stopped, apart from the FAULT_* numbers and NO_MEMORY.
    STOP_OTHER_ROW = 101
    STOP_FULL = 102
    STOP_NOT_IN_BUFFER = 103


cdef class ColumnDecoder:
    """A collector of records until ``finish``.

    ``keys``, ``values``, ``headers``, ``sequences`` choose columns; offset, timestamp, timestamp type and batch number
    are always included. Records with an offset outside [start_offset, end_offset) are left out.
    ``max_rows`` and ``max_bytes`` are soft limits: after them, ``full`` is True and add_batches refuses further ones.
    ``limit_bytes`` is hard: no data column ever exceeds it (int32 offsets end at 2 GiB).
    """

    cdef Columns columns
    cdef Wanted wanted
    cdef Py_ssize_t max_rows
    cdef Py_ssize_t max_bytes
    cdef Py_ssize_t limit_bytes
    cdef Py_ssize_t key_bytes  # at the last finish
    cdef bint refused
    cdef bint busy
    cdef readonly Py_ssize_t stopped_at

    def __cinit__(
        self,
        *,
        bint keys=True,
        bint values=True,
        bint headers=True,
        bint sequences=False,
        int64_t start_offset=INT64_MIN,
        int64_t end_offset=INT64_MAX,
        Py_ssize_t max_rows=INT32_LIMIT,
        Py_ssize_t max_bytes=INT32_LIMIT,
        Py_ssize_t limit_bytes=INT32_LIMIT,
    ):
        if not 0 < limit_bytes <= INT32_LIMIT:
            raise ValueError(f"limit_bytes must be from 1 to {INT32_LIMIT}, not {limit_bytes}")
        if max_rows < 1 or max_bytes < 1:
            raise ValueError(f"max_rows and max_bytes must be at least 1, not {max_rows} and {max_bytes}")
        memset(&self.columns, 0, sizeof(Columns))
        self.columns.header_keys_are_utf8 = True
        self.wanted = Wanted(keys, values, headers, sequences, start_offset, end_offset)
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.limit_bytes = limit_bytes

    def __dealloc__(self):
        self.drop()

    cdef void drop(self) noexcept:
        """Free all columns; the decoder is empty then."""
        cdef Columns* c = &self.columns
        give_block(&c.offset)
        give_block(&c.timestamp)
        give_block(&c.timestamp_type)
        give_block(&c.batch)
        give_block(&c.sequence)
        give_block(&c.header_offsets)
        free_strings(&c.key)
        free_strings(&c.value)
        free_strings(&c.header_key)
        free_strings(&c.header_value)
        memset(c, 0, sizeof(Columns))
        c.header_keys_are_utf8 = True

    @property
    def rows(self):
        """The number of records that the decoder holds."""
        return self.columns.rows

    @property
    def data_bytes(self):
        """The bytes of keys, values and headers that the decoder holds."""
        return self.bytes_held()

    @property
    def full(self):
        """True if ``finish`` must be called first: a soft limit was reached, or a batch exceeded the hard one."""
        return self.refused or self.columns.rows >= self.max_rows or self.bytes_held() >= self.max_bytes

    cdef Py_ssize_t bytes_held(self) noexcept nogil:
        return (
            self.columns.key.data.used + self.columns.value.data.used
            + self.columns.header_key.data.used + self.columns.header_value.data.used
        )

    cpdef bint fits(self, Py_ssize_t payload_bytes) noexcept:
        """Return True if a payload of that size fits below the hard limit."""
        return self.has_room(payload_bytes)

    cdef bint has_room(self, Py_ssize_t payload_bytes) noexcept nogil:
        cdef Columns* c = &self.columns
        cdef size_t most = max(c.key.data.used, c.value.data.used)
        most = max(most, max(c.header_key.data.used, c.header_value.data.used))
        if payload_bytes > self.limit_bytes - <Py_ssize_t>most:
            return False
        # every record and every header takes some bytes too, so this limits their int32 numbers
        return payload_bytes <= INT32_LIMIT - 1 - max(c.rows, c.headers)

    cdef void make_room(self, const uint8_t* data, Py_ssize_t length) noexcept:
        """Allocate an empty decoder's memory, assuming that all batches in ``data`` are like the first: only a guess.

        The guess for keys is their size at the last ``finish``; all other bytes may be values.
        """
        cdef Columns* c = &self.columns
        cdef Py_ssize_t size, count
        if c.offset.data != NULL or length < V2_HEADER:
            return
        size = min(max(<int32_t>tl_load32(data + V2_LENGTH), V2_HEADER) + PREFIX, length)
        count = min(max(<int32_t>tl_load32(data + V2_RECORD_COUNT), 0), size // V2_MIN_RECORD)
        length = min(length, min(self.max_bytes, self.limit_bytes) + size)
        count = min(<Py_ssize_t>(<double>count / size * length), self.max_rows) + count + 64
        take_block(&c.offset, count * 8)
        take_block(&c.timestamp, count * 8)
        take_block(&c.timestamp_type, count)
        take_block(&c.batch, count * 4)
        if self.wanted.keys:
            take_strings_room(&c.key, count, min(length, self.key_bytes + self.key_bytes // 8 + size))
        if self.wanted.values:
            take_strings_room(&c.value, count, length)
        if self.wanted.headers:
            take_block(&c.header_offsets, (count + 1) * 4)

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError("a ColumnDecoder serves one thread at a time")
        self.busy = True
        return 0

    def add_batches(
        self, buffer, table, Py_ssize_t first=0, last=None, *, int64_t base_position=0, Py_ssize_t batch=0, keep=None
    ):
        """Add the rows [first, last) of ``table``, whose batches lie in ``buffer`` from ``base_position`` on.

        Return the first row not consumed: ``last``, a compressed or legacy row, or the row that made the decoder
        ``full``. ``keep`` has a bool per table row; False skips the row. Records get the batch number ``batch`` + row.
        Raise CorruptRecordError for an invalid batch: ``stopped_at`` is its row, the rows before it are added, and the
        caller may continue at ``stopped_at + 1``. Raise OverflowError if a single batch exceeds the limit.
        """
        cdef Py_ssize_t end = len(table) if last is None else last
        cdef Py_buffer view
        cdef const int64_t[:] positions = table.position
        cdef const uint8_t[:] crc_ok = table.crc_ok.view(np.uint8)
        cdef const uint8_t[:] kept
        cdef const uint8_t* chosen = NULL
        cdef Py_ssize_t row = first
        cdef int64_t start
        cdef int32_t done = 0
        cdef int stop = FAULT_NONE
        if not 0 <= first <= end <= positions.shape[0]:
            raise ValueError(f"rows [{first}:{end}] of a table of {positions.shape[0]}")
        if batch < 0 or batch > INT32_LIMIT - positions.shape[0]:
            raise ValueError(f"batch numbers from {batch} on do not fit 31 bits")
        if keep is not None:
            kept = np.ascontiguousarray(keep, dtype=np.bool_).view(np.uint8)
            if kept.shape[0] != positions.shape[0]:
                raise ValueError(f"keep has {kept.shape[0]} rows, the table {positions.shape[0]}")
        self.enter()
        try:
            PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
            try:
                start = positions[row] - base_position if row < end else view.len
                if 0 <= start < view.len:
                    self.make_room(<const uint8_t*>view.buf + start, view.len - start)
                with nogil:
                    while row < end:
                        if keep is not None and not kept[row]:
                            row += 1
                            continue
                        stop = self.add_row(
                            <const uint8_t*>view.buf, view.len, positions[row] - base_position, crc_ok[row],
                            <int32_t>(batch + row), &done,
                        )
                        if stop:
                            break
                        row += 1
            finally:
                PyBuffer_Release(&view)
        finally:
            self.busy = False
        self.stopped_at = row
        if stop and stop != STOP_OTHER_ROW:
            self.explain(stop, positions[row], int(table.base_offset[row]), done, int(table.record_count[row]))
        return row

    cdef int add_row(
        self, const uint8_t* data, Py_ssize_t length, int64_t index, bint crc_ok, int32_t number, int32_t* done
    ) noexcept nogil:
        """Add the batch at ``data[index:]``; all fields come from its own header, so a wrong table can do no harm."""
        cdef Batch batch
        cdef const uint8_t* p
        cdef int32_t size
        cdef int16_t attributes
        if index < 0 or index > length or length - index <= V2_MAGIC:
            return STOP_NOT_IN_BUFFER
        p = data + index
        size = <int32_t>tl_load32(p + V2_LENGTH)
        if size < 0 or size > length - index - PREFIX:
            return STOP_NOT_IN_BUFFER
        if not crc_ok:
            return FAULT_CRC
        if p[V2_MAGIC] != 2:
            return STOP_OTHER_ROW
        if size < V2_HEADER - PREFIX:
            return STOP_NOT_IN_BUFFER
        attributes = <int16_t>tl_load16(p + V2_ATTRIBUTES)
        batch.base_offset = <int64_t>tl_load64(p)
        batch.last_offset = tl_add64(batch.base_offset, <int32_t>tl_load32(p + V2_LAST_OFFSET_DELTA))
        batch.base_timestamp = <int64_t>tl_load64(p + V2_BASE_TIMESTAMP)
        batch.max_timestamp = <int64_t>tl_load64(p + V2_MAX_TIMESTAMP)
        batch.record_count = <int32_t>tl_load32(p + V2_RECORD_COUNT)
        batch.base_sequence = <int32_t>tl_load32(p + V2_BASE_SEQUENCE)
        batch.number = number
        batch.timestamp_type = attributes >> 3 & 1
        if not header_holds(&batch):
            return FAULT_HEADER
        if batch.last_offset < self.wanted.start_offset or batch.base_offset >= self.wanted.end_offset:
            return FAULT_NONE
        if attributes & 7:
            return STOP_OTHER_ROW
        if self.columns.rows >= self.max_rows or self.bytes_held() >= self.max_bytes:
            return STOP_FULL
        if not self.has_room(size):
            self.refused = True
            return STOP_FULL
        size -= V2_HEADER - PREFIX
        if <int64_t>batch.record_count * V2_MIN_RECORD > size:
            return FAULT_RECORD_COUNT
        return add_records(&self.columns, &self.wanted, &batch, p + V2_HEADER, p + V2_HEADER + size, done)

    def add_payload(
        self,
        payload,
        *,
        int64_t base_offset,
        int64_t base_timestamp,
        int64_t max_timestamp,
        int attributes,
        int32_t record_count,
        int32_t batch=0,
        int32_t base_sequence=-1,
        last_offset=None,
        position=None,
    ):
        """Add the records of a v2 batch from its decompressed payload; the other arguments are header fields.

        With ``last_offset``, records above it are corrupt. Errors contain ``position``. Raises the errors of
        ``add_batches``, and OverflowError if the payload may not fit (see ``fits``): then call ``finish`` first.
        """
        cdef Py_buffer view
        cdef Batch fields
        cdef int32_t done = 0
        cdef int stop
        fields.base_offset = base_offset
        if last_offset is not None:
            fields.last_offset = last_offset
        else:
            fields.last_offset = base_offset + min(INT32_LIMIT, INT64_MAX - max(base_offset, 0))
        fields.base_timestamp = base_timestamp
        fields.max_timestamp = max_timestamp
        fields.record_count = record_count
        fields.base_sequence = base_sequence
        fields.number = batch
        fields.timestamp_type = attributes >> 3 & 1
        self.enter()
        try:
            PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
            try:
                with nogil:
                    stop = self.add_fields(&fields, <const uint8_t*>view.buf, view.len, &done)
            finally:
                PyBuffer_Release(&view)
        finally:
            self.busy = False
        if stop:
            self.explain(stop, position, base_offset, done, record_count)
        if stop == STOP_FULL:
            raise OverflowError("the payload may pass the limit of a data column: finish first")

    cdef int add_fields(self, const Batch* batch, const uint8_t* p, Py_ssize_t length, int32_t* done) noexcept nogil:
        if not header_holds(batch):
            return FAULT_HEADER
        if not self.has_room(length):
            self.refused = True
            return STOP_FULL
        if <int64_t>batch.record_count * V2_MIN_RECORD > length:
            return FAULT_RECORD_COUNT
        return add_records(&self.columns, &self.wanted, batch, p, p + length, done)

    def add_record(
        self,
        *,
        int64_t offset,
        int64_t timestamp,
        int8_t timestamp_type,
        key=None,
        value=None,
        headers=(),
        int32_t batch=0,
        int32_t sequence=-1,
    ):
        """Add a single record by its parts (formats v0 and v1). ``headers``: pairs of bytes key and bytes or None."""
        cdef Columns* c = &self.columns
        cdef Py_ssize_t row
        parts = [None if part is None else bytes(part) for part in (key, value)]
        pairs = [(bytes(name), None if part is None else bytes(part)) for name, part in headers]
        total = sum(len(part) for part in parts if part is not None)
        total += sum(len(name) + len(part or b"") + 2 for name, part in pairs)
        if not self.wanted.start_offset <= offset < self.wanted.end_offset:
            return
        self.enter()
        try:
            if not self.has_room(total + V2_MIN_RECORD):
                self.refused = True
                raise OverflowError("the record may pass the limit of a data column: finish first")
            if not reserve_rows(c, &self.wanted, c.rows + 1, total):
                raise MemoryError()
            row = c.rows
            (<int64_t*>c.offset.data)[row] = offset
            (<int64_t*>c.timestamp.data)[row] = timestamp
            (<int8_t*>c.timestamp_type.data)[row] = timestamp_type
            (<int32_t*>c.batch.data)[row] = batch
            if self.wanted.sequences:
                (<int32_t*>c.sequence.data)[row] = sequence
            if self.wanted.keys:
                put_bytes(&c.key, row, parts[0])
            if self.wanted.values:
                put_bytes(&c.value, row, parts[1])
            if self.wanted.headers:
                for name, part in pairs:
                    put_header_bytes(c, name, part)
                (<int32_t*>c.header_offsets.data)[row + 1] = <int32_t>c.headers
            c.rows = row + 1
        finally:
            self.busy = False

    cdef int explain(self, int stop, object position, int64_t offset, int32_t done, int32_t count) except -1:
        """Raise the error that ``stop`` means, if any."""
        if stop == NO_MEMORY:
            raise MemoryError()
        if stop == STOP_NOT_IN_BUFFER:
            raise ValueError(f"the batch at position {position} does not lie in this buffer")
        if stop == STOP_FULL:
            if self.refused and not self.columns.rows:
                self.refused = False
                raise OverflowError(f"the batch at offset {offset} alone passes the limit of {self.limit_bytes} bytes")
            return 0
        fault = Fault(stop)
        message = f"{fault.sentence}: record {done} of {count}" if fault.is_of_a_record else fault.sentence
        raise CorruptRecordError(message, position=position, offset=offset)

    def finish(self):
        """Return the records so far as RecordColumns; the decoder is then empty and may be used again."""
        cdef Columns* c = &self.columns
        cdef Py_ssize_t rows = c.rows
        cdef Py_ssize_t headers = c.headers
        self.enter()
        try:
            if not reserve_rows(c, &self.wanted, rows, 0):
                raise MemoryError()
            c.rows = c.headers = 0
            self.refused = False
            self.key_bytes = <Py_ssize_t>c.key.data.used
            columns = {
                "offset": array_of(&c.offset, np.int64, rows),
                "timestamp": array_of(&c.timestamp, np.int64, rows),
                "timestamp_type": array_of(&c.timestamp_type, np.int8, rows),
                "batch": array_of(&c.batch, np.int32, rows),
            }
            if self.wanted.sequences:
                columns["sequence"] = array_of(&c.sequence, np.int32, rows)
            if self.wanted.keys:
                take_strings(columns, "key", &c.key, rows)
            if self.wanted.values:
                take_strings(columns, "value", &c.value, rows)
            if self.wanted.headers:
                columns["header_offsets"] = array_of(&c.header_offsets, np.int32, rows + 1)
                take_strings(columns, "header_key", &c.header_key, headers)
                take_strings(columns, "header_value", &c.header_value, headers)
                columns["header_keys_are_utf8"] = bool(c.header_keys_are_utf8)
                del columns["header_key_validity"], columns["header_key_null_count"]
                c.header_keys_are_utf8 = True
        except MemoryError:
            self.drop()  # some columns are already moved out: no rows are better than incomplete rows
            raise
        finally:
            self.busy = False
        return RecordColumns(**columns)


cdef bint header_holds(const Batch* batch) noexcept nogil:
    cdef int64_t span
    if batch.base_offset < 0 or batch.last_offset < batch.base_offset or batch.record_count < 0:
        return False
    span = batch.last_offset - batch.base_offset
    return span <= INT32_LIMIT and batch.record_count <= span + 1


cdef object array_of(Block* block, object dtype, Py_ssize_t count):
    """Return the first ``count`` items as an array that owns the memory; the block is then empty."""
    block.used = count * dtype().itemsize
    return np.frombuffer(Memory.take(block), dtype, count)


cdef int take_strings(dict columns, str name, Strings* column, Py_ssize_t count) except -1:
    if not reserve_strings(column, count, 0):
        raise MemoryError()
    columns[name + "_offsets"] = array_of(&column.offsets, np.int32, count + 1)
    columns[name + "_data"] = memoryview(Memory.take(&column.data))
    if count & 7:  # a rolled back batch may have left higher bits
        column.validity.data[count >> 3] &= (1 << (count & 7)) - 1
    validity = array_of(&column.validity, np.uint8, (count + 7) // 8)
    columns[name + "_validity"] = validity if column.nulls else None
    columns[name + "_null_count"] = column.nulls
    column.nulls = 0
    return 0


cdef void put_bytes(Strings* column, Py_ssize_t index, bytes part):
    cdef const uint8_t* data = NULL
    cdef int32_t length = -1
    if part is not None:
        data = <const uint8_t*>PyBytes_AS_STRING(part)
        length = <int32_t>len(part)
    put_string(column, index, data, length, NULL)


cdef int put_header_bytes(Columns* columns, bytes name, bytes part) except -1:
    cdef const uint8_t* value = NULL
    cdef int32_t length = -1
    if part is not None:
        value = <const uint8_t*>PyBytes_AS_STRING(part)
        length = <int32_t>len(part)
    if put_header(columns, <const uint8_t*>PyBytes_AS_STRING(name), <int32_t>len(name), value, length, NULL):
        raise MemoryError()
    return 0


cdef void free_strings(Strings* column) noexcept:
    give_block(&column.offsets)
    give_block(&column.data)
    give_block(&column.validity)


cdef void take_strings_room(Strings* column, size_t count, size_t data_bytes) noexcept:
    take_block(&column.offsets, (count + 1) * 4)
    take_block(&column.validity, (count >> 3) + 1)
    take_block(&column.data, data_bytes + TL_SLACK)
