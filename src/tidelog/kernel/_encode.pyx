# cython: boundscheck=True, wraparound=False, cdivision=True
"""Columns into v2 batches.

Each call allocates once: the bytes of all strings plus the largest size of their varints. Before a string is copied,
its offsets are checked against the span that was counted. So columns that contradict themselves raise ValueError and
cannot write past the room. Encoding columns does not hold the GIL.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from libc.stdint cimport INT64_MIN, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from tidelog.kernel._bytes cimport (
    V2_HEADER, tl_put_varint, tl_put_varlong, tl_size_varint, tl_size_varlong, tl_sub64,
)
from tidelog.kernel._header cimport Header, write_header

import numpy as np

from tidelog.kernel.columns import Payload

cdef enum:
    INT32_LIMIT = 0x7fffffff
    MOST_VARINT_BYTES = 36  # per record: length 5, attributes 1, timestamp 10, offset 5, key 5, value 5, headers 5
    MOST_HEADER_BYTES = 10

    ENCODED = 0
    BAD_COLUMNS = 1
    BAD_OFFSET = 2
    TOO_LARGE = 3

cdef const uint8_t* EMPTY = b""

# A column of byte strings for the encoder; NULL offsets mean that all are null.
cdef struct Source:
    const int32_t* offsets
    const uint8_t* data
    const uint8_t* validity
    int32_t limit  # no string may end beyond it

cdef struct Part:
    const uint8_t* data  # NULL for a null string
    int32_t length

cdef struct Sources:
    const int64_t* offset
    const int64_t* timestamp
    const int32_t* header_offsets
    int32_t header_limit
    Source key
    Source value
    Source header_key
    Source header_value

# The common values of a run of records, and its results.
cdef struct Run:
    int64_t base_offset  # used if keep_offsets
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t last_offset_delta
    bint keep_offsets


cdef inline bint read_part(const Source* source, Py_ssize_t index, Part* part) noexcept nogil:
    """Read string number ``index``; return False if its offsets lie outside the span."""
    cdef int32_t start, end
    part.data = NULL
    part.length = -1
    if source.offsets == NULL:
        return True
    start = source.offsets[index]
    end = source.offsets[index + 1]
    if start < 0 or end < start or end > source.limit:
        return False
    if source.validity == NULL or source.validity[index >> 3] >> (index & 7) & 1:
        part.data = source.data + start
        part.length = end - start
    return True


cdef inline uint8_t* put_part(uint8_t* p, const Part* part) noexcept nogil:
    p = tl_put_varint(p, part.length)
    if part.length > 0:
        memcpy(p, part.data, part.length)
        p += part.length
    return p


cdef inline int64_t part_size(const Part* part) noexcept nogil:
    return tl_size_varint(part.length) + (part.length if part.length > 0 else 0)


cdef int64_t headers_size(const Sources* sources, Py_ssize_t row) noexcept nogil:
    """Return the bytes of record ``row``'s header count and headers; -1 if the columns contradict themselves."""
    cdef Part key, value
    cdef int32_t first, last, index
    cdef int64_t size
    if sources.header_offsets == NULL:
        return 1
    first = sources.header_offsets[row]
    last = sources.header_offsets[row + 1]
    if first < 0 or last < first or last > sources.header_limit:
        return -1
    size = tl_size_varint(last - first)
    for index in range(first, last):
        if not read_part(&sources.header_key, index, &key) or not read_part(&sources.header_value, index, &value):
            return -1
        if key.data == NULL:
            return -1
        size += part_size(&key) + part_size(&value)
    return size


cdef uint8_t* put_headers(uint8_t* p, const Sources* sources, Py_ssize_t row) noexcept nogil:
    """Write the headers, after ``headers_size`` found no fault."""
    cdef Part key, value
    cdef int32_t first, last, index
    if sources.header_offsets == NULL:
        return tl_put_varint(p, 0)
    first = sources.header_offsets[row]
    last = sources.header_offsets[row + 1]
    p = tl_put_varint(p, last - first)
    for index in range(first, last):
        read_part(&sources.header_key, index, &key)
        read_part(&sources.header_value, index, &value)
        p = put_part(put_part(p, &key), &value)
    return p


cdef inline int64_t body_size(
    int64_t timestamp_delta, int32_t offset_delta, const Part* key, const Part* value
) noexcept nogil:
    """Return the bytes of a record after its length and before its headers."""
    return 1 + tl_size_varlong(timestamp_delta) + tl_size_varint(offset_delta) + part_size(key) + part_size(value)


cdef inline uint8_t* put_body(
    uint8_t* p, int32_t length, int64_t timestamp_delta, int32_t offset_delta, const Part* key, const Part* value
) noexcept nogil:
    p = tl_put_varint(p, length)
    p[0] = 0
    p = tl_put_varlong(p + 1, timestamp_delta)
    p = tl_put_varint(p, offset_delta)
    return put_part(put_part(p, key), value)


cdef int put_records(
    const Sources* sources, Py_ssize_t first, Py_ssize_t last, Run* run, uint8_t** out
) noexcept nogil:
    """Write the records [first, last) to ``out``, which has room for them."""
    cdef uint8_t* p = out[0]
    cdef Py_ssize_t row
    cdef Part key, value
    cdef int64_t timestamp_delta, delta, headers, length
    run.max_timestamp = INT64_MIN
    run.last_offset_delta = -1
    for row in range(first, last):
        if not read_part(&sources.key, row, &key) or not read_part(&sources.value, row, &value):
            return BAD_COLUMNS
        delta = tl_sub64(sources.offset[row], run.base_offset) if run.keep_offsets else row - first
        if delta <= run.last_offset_delta or delta > INT32_LIMIT:
            return BAD_OFFSET
        timestamp_delta = tl_sub64(sources.timestamp[row], run.base_timestamp)
        headers = headers_size(sources, row)
        if headers < 0:
            return BAD_COLUMNS
        length = body_size(timestamp_delta, <int32_t>delta, &key, &value) + headers
        if length > INT32_LIMIT:
            return TOO_LARGE
        p = put_body(p, <int32_t>length, timestamp_delta, <int32_t>delta, &key, &value)
        if headers == 1:
            p[0] = 0
            p += 1
        else:
            p = put_headers(p, sources, row)
        if sources.timestamp[row] > run.max_timestamp:
            run.max_timestamp = sources.timestamp[row]
        run.last_offset_delta = <int32_t>delta
    out[0] = p
    return ENCODED


cdef int raise_for(int problem) except -1:
    if problem == BAD_COLUMNS:
        raise ValueError("the columns contradict themselves: offsets fall, pass the data, or a header key is null")
    if problem == BAD_OFFSET:
        raise ValueError("offsets do not ascend, or one lies outside the 31 bits above the base offset")
    if problem == TOO_LARGE:
        raise OverflowError("a record or a batch would be larger than 2 GiB")
    return 0


cdef class ColumnEncoder:
    """An encoder for runs of rows of a RecordColumns, whose buffers it holds. Any number of threads may use it."""

    cdef object columns
    cdef list held
    cdef Sources sources
    cdef readonly Py_ssize_t rows

    def __init__(self, columns):
        self.columns = columns
        self.held = []
        self.rows = len(columns.offset)
        self.sources.offset = self.longs(columns.offset)
        self.sources.timestamp = self.longs(columns.timestamp)
        self.strings(&self.sources.key, "key", self.rows)
        self.strings(&self.sources.value, "value", self.rows)
        self.sources.header_offsets = NULL
        self.sources.header_limit = 0
        if columns.header_offsets is not None:
            self.sources.header_offsets = self.ints(columns.header_offsets, self.rows + 1)
            if columns.header_key_offsets is None or columns.header_value_offsets is None:
                raise ValueError("header_offsets without header keys and values")
            self.sources.header_limit = len(columns.header_key_offsets) - 1
            self.strings(&self.sources.header_key, "header_key", self.sources.header_limit)
            self.strings(&self.sources.header_value, "header_value", self.sources.header_limit)

    cdef const int64_t* longs(self, object array) except? NULL:
        cdef const int64_t[::1] view = array
        self.held.append(view)
        if view.shape[0] != self.rows:
            raise ValueError(f"a column of {view.shape[0]} rows beside {self.rows}")
        return &view[0] if self.rows else NULL

    cdef const int32_t* ints(self, object array, Py_ssize_t count) except NULL:
        cdef const int32_t[::1] view = array
        self.held.append(view)
        if view.shape[0] != count:
            raise ValueError(f"an offsets column of {view.shape[0]} entries where {count} belong")
        return &view[0]

    cdef int strings(self, Source* source, str name, Py_ssize_t count) except -1:
        cdef const uint8_t[::1] view
        offsets = getattr(self.columns, name + "_offsets")
        source.offsets = NULL
        source.validity = NULL
        source.limit = 0
        if offsets is None:
            return 0
        source.offsets = self.ints(offsets, count + 1)
        data = memoryview(getattr(self.columns, name + "_data"))
        if data.nbytes > INT32_LIMIT:
            raise ValueError(f"{name}_data holds more than 2 GiB")
        source.limit = data.nbytes
        source.data = EMPTY
        if data.nbytes:
            view = data.cast("B")
            self.held.append(view)
            source.data = &view[0]
        validity = getattr(self.columns, name + "_validity", None)
        if validity is not None and count:
            view = validity
            self.held.append(view)
            if view.shape[0] < (count + 7) // 8:
                raise ValueError(f"{name}_validity has {view.shape[0]} bytes for {count} rows")
            source.validity = &view[0]
        return 0

    cdef int span(self, Py_ssize_t first, Py_ssize_t last, Sources* run, Py_ssize_t* most) except -1:
        """Limit the sources to rows [first, last) in ``run``; ``most`` becomes the largest size of their records."""
        cdef int32_t header_first, header_last
        if not 0 <= first <= last <= self.rows:
            raise ValueError(f"rows [{first}:{last}] of {self.rows}")
        run[0] = self.sources
        most[0] = (last - first) * MOST_VARINT_BYTES
        most[0] += cut(&run.key, first, last) + cut(&run.value, first, last)
        if run.header_offsets != NULL:
            header_first = run.header_offsets[first]
            header_last = run.header_offsets[last]
            if not 0 <= header_first <= header_last <= run.header_limit:
                raise_for(BAD_COLUMNS)
            run.header_limit = header_last
            most[0] += <Py_ssize_t>(header_last - header_first) * MOST_HEADER_BYTES
            most[0] += cut(&run.header_key, header_first, header_last)
            most[0] += cut(&run.header_value, header_first, header_last)
        return 0

    def payload(self, Py_ssize_t first=0, last=None, *, base_offset=None, base_timestamp=None):
        """Return the rows [first, last) as a Payload.

        Offset deltas count from ``base_offset``, or are 0, 1, 2, … without one. Timestamp deltas count from
        ``base_timestamp``, or from the first row's. Raise ValueError for columns that contradict themselves or an
        offset outside 31 bits, OverflowError for a record past 2 GiB.
        """
        cdef Sources sources
        cdef Run run
        cdef Py_ssize_t most
        cdef Py_ssize_t end = self.rows if last is None else last
        cdef int problem
        cdef uint8_t* p
        self.span(first, end, &sources, &most)
        data = PyByteArray_FromStringAndSize(NULL, most)
        p = <uint8_t*>PyByteArray_AS_STRING(data)
        self.start_run(&run, &sources, first, end, base_offset, base_timestamp)
        with nogil:
            problem = put_records(&sources, first, end, &run, &p)
        raise_for(problem)
        PyByteArray_Resize(data, p - <uint8_t*>PyByteArray_AS_STRING(data))
        if first == end:
            return Payload(data, 0, -1, run.base_timestamp, -1)
        return Payload(data, end - first, run.last_offset_delta, run.base_timestamp, run.max_timestamp)

    cdef int start_run(
        self,
        Run* run,
        const Sources* sources,
        Py_ssize_t first,
        Py_ssize_t last,
        object base_offset,
        object base_timestamp,
    ) except -1:
        run.keep_offsets = base_offset is not None
        run.base_offset = base_offset if base_offset is not None else 0
        if base_timestamp is not None:
            run.base_timestamp = base_timestamp
        else:
            run.base_timestamp = sources.timestamp[first] if first < last else -1
        return 0

    def batch_boundaries(
        self, Py_ssize_t first=0, last=None, *, Py_ssize_t max_batch_bytes, Py_ssize_t max_records=INT32_LIMIT
    ):
        """Return the batch boundaries of the rows [first, last): no uncompressed batch exceeds ``max_batch_bytes``.

        Offset deltas are assumed to be 0, 1, 2, … in each batch, timestamp deltas to count from its first row. The
        result is int64 row numbers: ``first``, the first row of each further batch, ``last`` (only ``first`` without
        rows). A record that is too large gets its own batch.
        """
        cdef Sources sources
        cdef Py_ssize_t most, row
        cdef Py_ssize_t end = self.rows if last is None else last
        cdef Py_ssize_t begun = first
        cdef int64_t size = V2_HEADER, length
        if max_records < 1:
            raise ValueError(f"max_records must be at least 1, not {max_records}")
        self.span(first, end, &sources, &most)
        boundaries = [first]
        for row in range(first, end):
            length = record_size(&sources, row, begun)
            if length < 0:
                raise_for(BAD_COLUMNS)
            if row > begun and (size + length > max_batch_bytes or row - begun == max_records):
                boundaries.append(row)
                begun = row
                size = V2_HEADER
                length = record_size(&sources, row, begun)
            size += length
        if end > first:
            boundaries.append(end)
        return np.array(boundaries, np.int64)

    def batches(
        self,
        boundaries,
        *,
        int64_t base_offset=0,
        bint keep_offsets=False,
        int16_t attributes=0,
        int32_t leader_epoch=-1,
        int64_t producer_id=-1,
        int16_t producer_epoch=-1,
        int32_t base_sequence=-1,
    ):
        """Return uncompressed batches of the rows between neighbouring ``boundaries``, back to back in one bytearray.

        Offsets continue from ``base_offset`` (with ``keep_offsets`` they are the column's, and ``base_offset`` is
        unused), sequences from ``base_sequence`` if it is not negative. Raises the errors of ``payload``.
        """
        cdef const int64_t[::1] bounds = np.ascontiguousarray(boundaries, np.int64)
        cdef Py_ssize_t count = bounds.shape[0] - 1
        cdef Sources sources
        cdef Header header
        cdef Run run
        cdef Py_ssize_t most, index, first, last
        cdef int problem = ENCODED
        cdef uint8_t* p
        cdef uint8_t* start
        if count < 1:
            return bytearray()
        for index in range(count):
            if bounds[index] >= bounds[index + 1]:
                raise ValueError(f"boundary {bounds[index + 1]} after {bounds[index]}: boundaries must ascend")
        self.span(bounds[0], bounds[count], &sources, &most)
        data = PyByteArray_FromStringAndSize(NULL, most + count * V2_HEADER)
        p = <uint8_t*>PyByteArray_AS_STRING(data)
        header.attributes = attributes
        header.leader_epoch = leader_epoch
        header.producer_id = producer_id
        header.producer_epoch = producer_epoch
        header.base_sequence = base_sequence
        run.keep_offsets = keep_offsets
        with nogil:
            for index in range(count):
                first = bounds[index]
                last = bounds[index + 1]
                start = p
                p += V2_HEADER
                header.base_offset = sources.offset[first] if keep_offsets else base_offset + (first - bounds[0])
                run.base_offset = header.base_offset
                run.base_timestamp = sources.timestamp[first]
                problem = put_records(&sources, first, last, &run, &p)
                if problem:
                    break
                if p - start > INT32_LIMIT:
                    problem = TOO_LARGE
                    break
                header.base_timestamp = run.base_timestamp
                header.max_timestamp = run.max_timestamp
                header.last_offset_delta = run.last_offset_delta
                header.record_count = <int32_t>(last - first)
                write_header(start, p - start, &header)
                if header.base_sequence >= 0:
                    header.base_sequence = <int32_t>((<int64_t>header.base_sequence + (last - first)) & INT32_LIMIT)
        raise_for(problem)
        PyByteArray_Resize(data, p - <uint8_t*>PyByteArray_AS_STRING(data))
        return data


cdef int64_t record_size(const Sources* sources, Py_ssize_t row, Py_ssize_t begun) noexcept nogil:
    """Return the bytes of record ``row`` in a batch that begins with row ``begun``; -1 for wrong columns."""
    cdef Part key, value
    cdef int64_t headers, length
    if not read_part(&sources.key, row, &key) or not read_part(&sources.value, row, &value):
        return -1
    headers = headers_size(sources, row)
    if headers < 0:
        return -1
    length = headers + body_size(
        tl_sub64(sources.timestamp[row], sources.timestamp[begun]), <int32_t>(row - begun), &key, &value
    )
    return length + (tl_size_varint(<int32_t>length) if length <= INT32_LIMIT else 5)


cdef Py_ssize_t cut(Source* source, Py_ssize_t first, Py_ssize_t last) except -1:
    """Limit a source to the strings [first, last); return the size of their bytes."""
    cdef int32_t start, end
    if source.offsets == NULL:
        return 0
    start = source.offsets[first]
    end = source.offsets[last]
    if not 0 <= start <= end <= source.limit:
        raise_for(BAD_COLUMNS)
    source.limit = end
    return end - start


def encode_payload(columns, Py_ssize_t first=0, last=None, *, base_offset=None, base_timestamp=None):
    """Encode a payload; a caller with several payloads of the same columns should keep a ColumnEncoder."""
    return ColumnEncoder(columns).payload(first, last, base_offset=base_offset, base_timestamp=base_timestamp)


def encode_batch(columns, Py_ssize_t first=0, last=None, **fields):
    """Return one uncompressed batch of the rows [first, last), at least one; ``fields`` as in ``batches``."""
    cdef Py_ssize_t end = len(columns.offset) if last is None else last
    return ColumnEncoder(columns).batches((first, end), **fields)
