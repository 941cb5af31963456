# The walk over the records of a v2 batch into columns, for _decode.pyx; without Python objects.
#
# A record has this layout: length varint | attributes i8 | timestamp delta varlong | offset delta varint |
# key length varint, key | value length varint, value | header count varint | headers: key length varint, key,
# value length varint, value. A negative key or value length is null.
#
# Bounds: `p <= stop <= end` always holds; every length is compared with the remaining bytes before its use.

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

from tidelog.kernel._bytes cimport TL_SLACK, tl_add64, tl_copy, tl_is_utf8, tl_varint, tl_varlong
from tidelog.kernel._faults cimport (
    FAULT_BATCH_END, FAULT_HEADER_COUNT, FAULT_HEADER_KEY, FAULT_HEADER_VALUE, FAULT_KEY, FAULT_NONE, FAULT_OFFSET,
    FAULT_RECORD_END, FAULT_RECORD_LENGTH, FAULT_TIMESTAMP, FAULT_VALUE,
)
from tidelog.kernel._memory cimport Block, reserve, reserve_total

cdef extern from "record.h" nogil:
    enum: TL_MIN_RECORD_BODY
    # A record: `fields` is the position of its key's length, `rest` of its headers, `stop` of its end.
    ctypedef struct tl_record:
        const uint8_t* fields
        const uint8_t* key
        const uint8_t* value
        const uint8_t* rest
        const uint8_t* stop
        int64_t timestamp_delta
        int32_t offset_delta
        int32_t key_length
        int32_t value_length
    bint tl_usual_record(const uint8_t*, const uint8_t*, int64_t, tl_record*)

cdef enum:
    NO_MEMORY = 100  # differs from the FAULT_* numbers

# A column of byte strings; after the first string, `offsets` has one entry more than there are strings.
cdef struct Strings:
    Block offsets
    Block data
    Block validity
    Py_ssize_t nulls

cdef struct Columns:
    Py_ssize_t rows
    Py_ssize_t headers
    Block offset
    Block timestamp
    Block timestamp_type
    Block batch
    Block sequence
    Block header_offsets
    Strings key
    Strings value
    Strings header_key
    Strings header_value
    bint header_keys_are_utf8

cdef struct Wanted:
    bint keys
    bint values
    bint headers
    bint sequences
    int64_t start_offset
    int64_t end_offset

cdef struct Batch:
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t record_count
    int32_t base_sequence
    int32_t number
    int8_t timestamp_type


# Put byte string number `index` into a column whose data block has room; NULL data is a null. Bytes after the
# string may be read up to `readable_end` (NULL: none).
cdef inline void put_string(
    Strings* column, Py_ssize_t index, const uint8_t* data, int32_t length, const uint8_t* readable_end
) noexcept nogil:
    cdef uint8_t bit = <uint8_t>(1 << (index & 7))
    cdef uint8_t* validity = column.validity.data + (index >> 3)
    if data == NULL:
        validity[0] &= bit - 1  # also clears bits that a rolled back batch left
        column.nulls += 1
    else:
        validity[0] = (validity[0] & (bit - 1)) | bit
        tl_copy(column.data.data + column.data.used, data, length, readable_end)
        column.data.used += length
    (<int32_t*>column.offsets.data)[index + 1] = <int32_t>column.data.used


# A column while a batch's records are added. It keeps the changing values out of memory that the strings' bytes
# could alias, so that the compiler can hold them in registers.
cdef struct Run:
    int32_t* offsets
    uint8_t* data
    uint8_t* validity
    size_t used
    Py_ssize_t nulls


cdef inline Run run_of(const Strings* column) noexcept nogil:
    return Run(
        <int32_t*>column.offsets.data, column.data.data, column.validity.data, column.data.used, column.nulls
    )


cdef inline void end_run(Strings* column, const Run* run) noexcept nogil:
    column.data.used = run.used
    column.nulls = run.nulls


# Put a string as put_string does; its validity bit is already set.
cdef inline void put_in_run(
    Run* run, Py_ssize_t index, const uint8_t* data, int32_t length, const uint8_t* readable_end
) noexcept nogil:
    if data == NULL:
        run.validity[index >> 3] &= <uint8_t>~(1 << (index & 7))
        run.nulls += 1
    else:
        tl_copy(run.data + run.used, data, length, readable_end)
        run.used += length
    run.offsets[index + 1] = <int32_t>run.used


# Mark the strings [first, last) as not null.
cdef inline void set_valid(Strings* column, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef uint8_t* bits = column.validity.data
    cdef Py_ssize_t byte = first >> 3
    if first >= last:
        return
    bits[byte] = (bits[byte] & ((1 << (first & 7)) - 1)) | (0xff << (first & 7) & 0xff)
    if (last - 1) >> 3 > byte:
        memset(bits + byte + 1, 0xff, ((last - 1) >> 3) - byte)


# Make room for `count` strings in total and for `extra` bytes of data after the existing ones.
cdef inline bint reserve_strings(Strings* column, size_t count, size_t extra) noexcept nogil:
    if not reserve_total(&column.offsets, (count + 1) * 4) or not reserve_total(&column.validity, (count >> 3) + 1):
        return False
    (<int32_t*>column.offsets.data)[0] = 0
    return reserve(&column.data, extra + TL_SLACK)


# Make room for `count` rows in total and for `extra` bytes of keys and of values.
cdef inline bint reserve_rows(Columns* columns, const Wanted* wanted, size_t count, size_t extra) noexcept nogil:
    if not reserve_total(&columns.offset, count * 8) or not reserve_total(&columns.timestamp, count * 8):
        return False
    if not reserve_total(&columns.timestamp_type, count) or not reserve_total(&columns.batch, count * 4):
        return False
    if wanted.sequences and not reserve_total(&columns.sequence, count * 4):
        return False
    if wanted.keys and not reserve_strings(&columns.key, count, extra):
        return False
    if wanted.values and not reserve_strings(&columns.value, count, extra):
        return False
    if wanted.headers:
        if not reserve_total(&columns.header_offsets, (count + 1) * 4):
            return False
        (<int32_t*>columns.header_offsets.data)[0] = 0
    return True


cdef inline int put_header(
    Columns* columns,
    const uint8_t* key,
    int32_t key_length,
    const uint8_t* value,
    int32_t value_length,
    const uint8_t* readable_end,
) noexcept nogil:
    cdef Py_ssize_t index = columns.headers
    if not reserve_strings(&columns.header_key, index + 1, key_length):
        return NO_MEMORY
    if not reserve_strings(&columns.header_value, index + 1, value_length if value != NULL else 0):
        return NO_MEMORY
    put_string(&columns.header_key, index, key, key_length, readable_end)
    put_string(&columns.header_value, index, value, value_length, readable_end)
    if not tl_is_utf8(key, key + key_length):
        columns.header_keys_are_utf8 = False
    columns.headers = index + 1
    return FAULT_NONE


# Check the headers of a record, which must end at `stop`, and add them to the columns if `keep`.
cdef inline int walk_headers(Columns* columns, bint keep, const uint8_t* p, const uint8_t* stop) noexcept nogil:
    cdef int32_t count, key_length, value_length
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int32_t index
    cdef int used = tl_varint(p, stop, &count)
    if used == 0 or count < 0:
        return FAULT_HEADER_COUNT
    p += used
    if count > (stop - p) // 2:  # a header has at least two lengths
        return FAULT_HEADER_COUNT
    for index in range(count):
        used = tl_varint(p, stop, &key_length)
        p += used
        if used == 0 or key_length < 0 or key_length > stop - p:
            return FAULT_HEADER_KEY
        key = p
        p += key_length
        used = tl_varint(p, stop, &value_length)
        p += used
        if used == 0 or value_length > stop - p:
            return FAULT_HEADER_VALUE
        value = NULL
        if value_length >= 0:
            value = p
            p += value_length
        if keep and put_header(columns, key, key_length, value, value_length, stop):
            return NO_MEMORY
    return FAULT_NONE if p == stop else FAULT_RECORD_END


# Read a record field by field with all bounds; return FAULT_NONE or the first fault. Headers are not checked.
cdef inline int read_record(
    const uint8_t* p, const uint8_t* end, int64_t last_delta, tl_record* record
) noexcept nogil:
    cdef const uint8_t* stop
    cdef int32_t length
    cdef int used = tl_varint(p, end, &length)
    p += used
    if used == 0 or length < TL_MIN_RECORD_BODY or length > end - p:
        return FAULT_RECORD_LENGTH
    stop = record.stop = p + length
    p += 1  # the unused attributes
    used = tl_varlong(p, stop, &record.timestamp_delta)
    p += used
    if used == 0:
        return FAULT_TIMESTAMP
    used = tl_varint(p, stop, &record.offset_delta)
    p += used
    if used == 0 or record.offset_delta < 0 or record.offset_delta > last_delta:
        return FAULT_OFFSET
    record.fields = p
    used = tl_varint(p, stop, &record.key_length)
    p += used
    if used == 0 or record.key_length > stop - p:
        return FAULT_KEY
    record.key = NULL
    if record.key_length >= 0:
        record.key = p
        p += record.key_length
    used = tl_varint(p, stop, &record.value_length)
    p += used
    if used == 0 or record.value_length > stop - p:
        return FAULT_VALUE
    record.value = NULL
    if record.value_length >= 0:
        record.value = p
        p += record.value_length
    record.rest = p
    return FAULT_NONE


# Add all records of a batch, which must fill [p, end). The caller has reserved room for them and marked their keys
# and values as not null. `done` counts complete records. After a fault the columns' counts are not reliable.
cdef inline int walk_records(
    Columns* columns, Wanted wanted, Batch batch, const uint8_t* p, const uint8_t* end, int32_t* done
) noexcept nogil:
    cdef tl_record record
    cdef int32_t index
    cdef int64_t offset
    cdef int64_t last_delta = batch.last_offset - batch.base_offset
    cdef int64_t* offsets = <int64_t*>columns.offset.data
    cdef int64_t* timestamps = <int64_t*>columns.timestamp.data
    cdef int32_t* header_offsets = <int32_t*>columns.header_offsets.data
    cdef Py_ssize_t row = columns.rows
    cdef Run keys = run_of(&columns.key)
    cdef Run values = run_of(&columns.value)
    cdef int fault
    cdef bint keep
    for index in range(batch.record_count):
        done[0] = index
        if not tl_usual_record(p, end, last_delta, &record):
            fault = read_record(p, end, last_delta, &record)
            if fault:
                return fault
        p = record.stop
        offset = batch.base_offset + record.offset_delta
        keep = wanted.start_offset <= offset < wanted.end_offset
        if p - record.rest != 1 or record.rest[0] != 0:  # most records have no headers
            fault = walk_headers(columns, keep and wanted.headers, record.rest, p)
            if fault:
                return fault
        if not keep:
            continue
        offsets[row] = offset
        timestamps[row] = (
            batch.max_timestamp if batch.timestamp_type == 1
            else tl_add64(batch.base_timestamp, record.timestamp_delta)
        )
        if wanted.keys:
            put_in_run(&keys, row, record.key, record.key_length, end)
        if wanted.values:
            put_in_run(&values, row, record.value, record.value_length, end)
        if wanted.headers:
            header_offsets[row + 1] = <int32_t>columns.headers
        if wanted.sequences:
            (<int32_t*>columns.sequence.data)[row] = sequence_after(batch.base_sequence, record.offset_delta)
        row += 1
    if p != end:
        return FAULT_BATCH_END
    columns.rows = row
    end_run(&columns.key, &keys)
    end_run(&columns.value, &values)
    return FAULT_NONE


# Sequences wrap from 2^31 - 1 to 0; a negative base means the batch has none.
cdef inline int32_t sequence_after(int32_t base, int32_t delta) noexcept nogil:
    if base < 0:
        return -1
    return <int32_t>((<int64_t>base + delta) & 0x7fffffff)


# The counts before a batch, to restore if it fails.
cdef struct Mark:
    Py_ssize_t rows
    Py_ssize_t headers
    Py_ssize_t key_nulls
    Py_ssize_t value_nulls
    Py_ssize_t header_value_nulls
    size_t key_bytes
    size_t value_bytes
    size_t header_key_bytes
    size_t header_value_bytes
    bint header_keys_are_utf8


cdef inline void mark_columns(const Columns* columns, Mark* mark) noexcept nogil:
    mark.rows = columns.rows
    mark.headers = columns.headers
    mark.key_nulls = columns.key.nulls
    mark.value_nulls = columns.value.nulls
    mark.header_value_nulls = columns.header_value.nulls
    mark.key_bytes = columns.key.data.used
    mark.value_bytes = columns.value.data.used
    mark.header_key_bytes = columns.header_key.data.used
    mark.header_value_bytes = columns.header_value.data.used
    mark.header_keys_are_utf8 = columns.header_keys_are_utf8


cdef inline void roll_back(Columns* columns, const Mark* mark) noexcept nogil:
    columns.rows = mark.rows
    columns.headers = mark.headers
    columns.key.nulls = mark.key_nulls
    columns.value.nulls = mark.value_nulls
    columns.header_value.nulls = mark.header_value_nulls
    columns.key.data.used = mark.key_bytes
    columns.value.data.used = mark.value_bytes
    columns.header_key.data.used = mark.header_key_bytes
    columns.header_value.data.used = mark.header_value_bytes
    columns.header_keys_are_utf8 = mark.header_keys_are_utf8


# Decode the records in [p, end) behind the existing rows; after a fault, all rows of the batch are removed.
cdef inline int add_records(
    Columns* columns, const Wanted* wanted, const Batch* batch, const uint8_t* p, const uint8_t* end, int32_t* done
) noexcept nogil:
    cdef Mark mark
    cdef int fault
    cdef Py_ssize_t row
    cdef int32_t* numbers
    if not reserve_rows(columns, wanted, columns.rows + batch.record_count, end - p):
        return NO_MEMORY
    mark_columns(columns, &mark)
    if wanted.keys:
        set_valid(&columns.key, mark.rows, mark.rows + batch.record_count)
    if wanted.values:
        set_valid(&columns.value, mark.rows, mark.rows + batch.record_count)
    fault = walk_records(columns, wanted[0], batch[0], p, end, done)
    if fault:
        roll_back(columns, &mark)
        return fault
    numbers = <int32_t*>columns.batch.data
    for row in range(mark.rows, columns.rows):
        numbers[row] = batch.number
        (<int8_t*>columns.timestamp_type.data)[row] = batch.timestamp_type
    return FAULT_NONE
