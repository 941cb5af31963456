# cython: boundscheck=True, wraparound=False, cdivision=True
"""Produce validation in place: check v2 batches, then set their offsets, epoch and timestamps.

Each batch gets one pass: header rules, checksum, and every record of an uncompressed batch. A valid batch is patched at
once: base offset and leader epoch, and timestamp type, max timestamp and checksum if they change. Then the next batch
follows. After a problem the buffer may only be used for an error message. Only the header of a compressed batch is
checked; the caller decompresses it and calls ``validate_records``. Like Kafka, ``size`` leaves out a partial batch at
the end of the buffer. Source of the rules: Kafka's ``LogValidator``.

Bounds: ``left`` bytes are known to exist before a field is read; ``length > left - 12`` is refused.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from tidelog.kernel._bytes cimport (
    PREFIX, V2_ATTRIBUTES, V2_BASE_SEQUENCE, V2_BASE_TIMESTAMP, V2_CRC, V2_HEADER, V2_LAST_OFFSET_DELTA,
    V2_LEADER_EPOCH, V2_LENGTH, V2_MAGIC, V2_MAX_TIMESTAMP, V2_MIN_RECORD, V2_PRODUCER_EPOCH, V2_PRODUCER_ID,
    V2_RECORD_COUNT, tl_add64, tl_load16, tl_load32, tl_load64, tl_store16, tl_store32, tl_store64, tl_sub64, tl_varint,
    tl_varlong,
)
from tidelog.kernel._crc cimport crc32c_of
from tidelog.kernel._faults cimport (
    FAULT_BATCH_END, FAULT_CRC, FAULT_HEADER_COUNT, FAULT_HEADER_KEY, FAULT_HEADER_VALUE, FAULT_KEY, FAULT_MAGIC,
    FAULT_NONE, FAULT_OFFSET, FAULT_RECORD_COUNT, FAULT_RECORD_END, FAULT_RECORD_LENGTH, FAULT_SIZE, FAULT_TIMESTAMP,
    FAULT_VALUE,
)

from tidelog.kernel.faults import Fault
from tidelog.kernel.problems import Problem

cdef enum:
    INT32_LIMIT = 0x7fffffff
    HEADER_UP_TO_MAGIC = 17
    MIN_LENGTH = 14
    MIN_RECORD_BODY = 6
    LOG_APPEND_BIT = 8
    CONTROL_BIT = 32
    KEPT_BITS = 0x77
    NO_TIMESTAMP = -1

    # The numbers of problems.py.
    OK = 0
    CORRUPT = 1
    OLD_FORMAT = 2
    TOO_LARGE = 3
    MANY_BATCHES = 4
    BASE_OFFSET = 5
    OFFSET_RANGE = 6
    CONTROL = 7
    SEQUENCE = 8
    RECORD_OFFSETS = 9
    NO_KEY = 10
    TIMESTAMP = 11
    TIMESTAMP_TYPE = 12

# The header fields that the record checks need.
cdef struct BatchFields:
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int32_t record_count
    int16_t attributes


cdef class ProduceRules:
    """The rules of a log for produced batches; created once per configuration.

    ``log_append_time``: the broker sets timestamps. ``before_max_ms`` and ``after_max_ms`` limit the distance of a
    create timestamp from ``now_ms``. ``require_keys``: the topic is compacted. ``from_client``: the sender is neither a
    coordinator nor a leader, so base offset, control bit and sequence are checked. ``single_batch``: refuse more than
    one batch, as Kafka does for producers.
    """

    def __init__(
        self,
        *,
        bint log_append_time=False,
        int64_t before_max_ms=INT64_MAX,
        int64_t after_max_ms=INT64_MAX,
        Py_ssize_t max_batch_bytes=INT32_LIMIT,
        bint require_keys=False,
        bint from_client=True,
        bint single_batch=False,
    ):
        self.rules = Rules(
            before_max_ms, after_max_ms, max_batch_bytes, log_append_time, require_keys, from_client, single_batch
        )


cdef class Validation:
    """The result of a validation. ``problem`` is NONE if all batches were accepted and patched."""

    cdef Outcome outcome
    cdef readonly int64_t first_offset

    @property
    def last_offset(self):
        """The last record's offset; ``first_offset`` - 1 without records."""
        return self.first_offset + self.outcome.record_count - 1

    @property
    def record_count(self):
        return self.outcome.record_count

    @property
    def batch_count(self):
        """The number of accepted batches; after a problem, the index of the invalid batch."""
        return self.outcome.batch_count

    @property
    def size(self):
        """The bytes of the accepted batches, and so the start of the invalid or partial batch."""
        return self.outcome.size

    @property
    def max_timestamp(self):
        """The largest timestamp in ms, -1 for none; for a batch that needs decompression, its header's."""
        return self.outcome.max_timestamp

    @property
    def offset_of_max_timestamp(self):
        """The first record with that timestamp, or the batch's last if only its header was checked; -1 for none."""
        return self.outcome.offset_of_max_timestamp

    @property
    def last_offset_of_max_batch(self):
        """The last offset of the first batch with the max timestamp, for Kafka's time index; -1 for none."""
        return self.outcome.last_offset_of_max_batch

    @property
    def needs_decompression(self):
        """True if a batch is compressed: its records were not checked."""
        return bool(self.outcome.needs_decompression)

    @property
    def problem(self):
        return PROBLEMS[self.outcome.problem]

    @property
    def fault(self):
        """The fault if ``problem`` is CORRUPT."""
        return Fault(self.outcome.fault)

    @property
    def record_index(self):
        """The index of the record with the problem in its batch; -1 if the problem is the batch's."""
        return self.outcome.record_index

    def __bool__(self):
        return self.outcome.problem == OK


cdef object PROBLEMS = tuple(Problem)


cdef int skip_headers(const uint8_t* p, const uint8_t* stop) noexcept nogil:
    cdef int32_t count, length, index
    cdef int used = tl_varint(p, stop, &count)
    if used == 0 or count < 0:
        return FAULT_HEADER_COUNT
    p += used
    if count > (stop - p) // 2:
        return FAULT_HEADER_COUNT
    for index in range(count):
        used = tl_varint(p, stop, &length)
        p += used
        if used == 0 or length < 0 or length > stop - p:
            return FAULT_HEADER_KEY
        p += length
        used = tl_varint(p, stop, &length)
        p += used
        if used == 0 or length > stop - p:
            return FAULT_HEADER_VALUE
        if length > 0:
            p += length
    return FAULT_NONE if p == stop else FAULT_RECORD_END


cdef inline bint is_out_of_range(int64_t timestamp, int64_t now_ms, const Rules* rules) noexcept nogil:
    cdef int64_t behind = tl_sub64(now_ms, timestamp)
    return behind > rules.before_max_ms or tl_sub64(0, behind) > rules.after_max_ms


cdef inline int refuse(Outcome* outcome, int problem, int fault) noexcept nogil:
    outcome.problem = problem
    outcome.fault = fault
    return problem


cdef int check_records(
    const uint8_t* p,
    const uint8_t* end,
    const BatchFields* batch,
    const Rules* rules,
    int64_t now_ms,
    Outcome* outcome,
    int64_t* max_timestamp,
    int32_t* index_of_max,
) noexcept nogil:
    """Check all records of a batch, which must fill [p, end); timestamps are those before any patch."""
    cdef const uint8_t* stop
    cdef int32_t index, length, offset_delta
    cdef int64_t timestamp_delta, timestamp
    cdef bint has_key
    cdef int used, fault
    cdef bint is_append_time = batch.attributes & LOG_APPEND_BIT
    max_timestamp[0] = NO_TIMESTAMP
    index_of_max[0] = -1
    for index in range(batch.record_count):
        outcome.record_index = index
        used = tl_varint(p, end, &length)
        p += used
        if used == 0 or length < MIN_RECORD_BODY or length > end - p:
            return refuse(outcome, CORRUPT, FAULT_RECORD_LENGTH)
        stop = p + length
        p += 1
        used = tl_varlong(p, stop, &timestamp_delta)
        p += used
        if used == 0:
            return refuse(outcome, CORRUPT, FAULT_TIMESTAMP)
        used = tl_varint(p, stop, &offset_delta)
        p += used
        if used == 0:
            return refuse(outcome, CORRUPT, FAULT_OFFSET)
        used = tl_varint(p, stop, &length)
        p += used
        if used == 0 or length > stop - p:
            return refuse(outcome, CORRUPT, FAULT_KEY)
        has_key = length >= 0
        if has_key:
            p += length
        used = tl_varint(p, stop, &length)
        p += used
        if used == 0 or length > stop - p:
            return refuse(outcome, CORRUPT, FAULT_VALUE)
        if length > 0:
            p += length
        if not (stop - p == 1 and p[0] == 0):  # like most records, it has no headers
            fault = skip_headers(p, stop)
            if fault:
                return refuse(outcome, CORRUPT, fault)
        p = stop
        if offset_delta != index:
            return refuse(outcome, RECORD_OFFSETS, FAULT_NONE)
        if rules.require_keys and not has_key:
            return refuse(outcome, NO_KEY, FAULT_NONE)
        timestamp = batch.max_timestamp if is_append_time else tl_add64(batch.base_timestamp, timestamp_delta)
        if not rules.log_append_time:
            if timestamp == NO_TIMESTAMP:
                if is_append_time:
                    return refuse(outcome, TIMESTAMP_TYPE, FAULT_NONE)
            elif is_out_of_range(timestamp, now_ms, rules):
                return refuse(outcome, TIMESTAMP, FAULT_NONE)
        if timestamp > max_timestamp[0]:
            max_timestamp[0] = timestamp
            index_of_max[0] = index
    outcome.record_index = -1
    return OK if p == end else refuse(outcome, CORRUPT, FAULT_BATCH_END)


cdef int check_header(const uint8_t* p, Py_ssize_t size, const Rules* rules, Outcome* outcome) noexcept nogil:
    """Check the header of a complete v2 batch, including the checksum."""
    cdef int32_t count = <int32_t>tl_load32(p + V2_RECORD_COUNT)
    cdef int32_t delta = <int32_t>tl_load32(p + V2_LAST_OFFSET_DELTA)
    cdef int16_t attributes = <int16_t>tl_load16(p + V2_ATTRIBUTES)
    if rules.single_batch and outcome.batch_count:
        return refuse(outcome, MANY_BATCHES, FAULT_NONE)
    if rules.from_client and tl_load64(p) != 0:
        return refuse(outcome, BASE_OFFSET, FAULT_NONE)
    if size > rules.max_batch_bytes:
        return refuse(outcome, TOO_LARGE, FAULT_NONE)
    if crc32c_of(p + V2_ATTRIBUTES, size - V2_ATTRIBUTES, 0) != tl_load32(p + V2_CRC):
        return refuse(outcome, CORRUPT, FAULT_CRC)
    # The record count assigns offsets, so it must be the length of the offset range for any sender.
    if count <= 0 or delta < 0 or <int64_t>delta + 1 != count:
        return refuse(outcome, OFFSET_RANGE, FAULT_NONE)
    if rules.from_client and attributes & CONTROL_BIT:
        return refuse(outcome, CONTROL, FAULT_NONE)
    if rules.from_client and <int64_t>tl_load64(p + V2_PRODUCER_ID) >= 0:
        if <int32_t>tl_load32(p + V2_BASE_SEQUENCE) < 0:
            return refuse(outcome, SEQUENCE, FAULT_NONE)
    if rules.log_append_time and attributes & LOG_APPEND_BIT:
        return refuse(outcome, TIMESTAMP_TYPE, FAULT_NONE)
    return OK


cdef void patch_timestamps(uint8_t* p, Py_ssize_t size, int64_t max_timestamp, bint log_append) noexcept nogil:
    """Set type and max timestamp; if they change, also set the checksum and clear undefined attribute bits."""
    cdef uint16_t old = tl_load16(p + V2_ATTRIBUTES)
    cdef uint16_t stamp = LOG_APPEND_BIT if log_append else 0
    cdef uint16_t attributes = (old & KEPT_BITS) | stamp
    if old & LOG_APPEND_BIT == stamp and <int64_t>tl_load64(p + V2_MAX_TIMESTAMP) == max_timestamp:
        return
    tl_store16(p + V2_ATTRIBUTES, attributes)
    tl_store64(p + V2_MAX_TIMESTAMP, <uint64_t>max_timestamp)
    tl_store32(p + V2_CRC, crc32c_of(p + V2_ATTRIBUTES, size - V2_ATTRIBUTES, 0))


cdef int take_batch(
    uint8_t* p,
    Py_ssize_t size,
    const Rules* rules,
    int64_t next_offset,
    int32_t leader_epoch,
    int64_t now_ms,
    Outcome* outcome,
) noexcept nogil:
    """Check and patch the v2 batch in [p, p + size)."""
    cdef BatchFields batch
    cdef int64_t max_timestamp
    cdef int32_t index_of_max
    if check_header(p, size, rules, outcome):
        return outcome.problem
    batch.base_timestamp = <int64_t>tl_load64(p + V2_BASE_TIMESTAMP)
    batch.max_timestamp = <int64_t>tl_load64(p + V2_MAX_TIMESTAMP)
    batch.record_count = <int32_t>tl_load32(p + V2_RECORD_COUNT)
    batch.attributes = <int16_t>tl_load16(p + V2_ATTRIBUTES)
    batch.base_offset = next_offset + outcome.record_count
    if batch.record_count > INT64_MAX - batch.base_offset:
        return refuse(outcome, OFFSET_RANGE, FAULT_NONE)
    if batch.attributes & 7:
        outcome.needs_decompression = True
        max_timestamp = batch.max_timestamp
        index_of_max = batch.record_count - 1
    else:
        if <int64_t>batch.record_count * V2_MIN_RECORD > size - V2_HEADER:
            return refuse(outcome, CORRUPT, FAULT_RECORD_COUNT)
        if check_records(p + V2_HEADER, p + size, &batch, rules, now_ms, outcome, &max_timestamp, &index_of_max):
            return outcome.problem
    tl_store64(p, <uint64_t>batch.base_offset)
    tl_store32(p + V2_LEADER_EPOCH, <uint32_t>leader_epoch)
    if rules.log_append_time:
        max_timestamp = now_ms
        index_of_max = 0
        patch_timestamps(p, size, now_ms, True)
    elif not batch.attributes & 7:
        patch_timestamps(p, size, max_timestamp, False)
    if max_timestamp > outcome.max_timestamp:
        outcome.max_timestamp = max_timestamp
        outcome.offset_of_max_timestamp = batch.base_offset + index_of_max
        outcome.last_offset_of_max_batch = batch.base_offset + batch.record_count - 1
    outcome.record_count += batch.record_count
    outcome.batch_count += 1
    outcome.size += size
    return OK


cdef void take_batches(
    uint8_t* data,
    Py_ssize_t length,
    const Rules* rules,
    int64_t next_offset,
    int32_t leader_epoch,
    int64_t now_ms,
    Outcome* outcome,
) noexcept nogil:
    cdef Py_ssize_t left
    cdef int32_t claimed
    cdef int magic
    cdef uint8_t* p
    while True:
        left = length - outcome.size
        if left <= HEADER_UP_TO_MAGIC:
            return
        p = data + outcome.size
        claimed = <int32_t>tl_load32(p + V2_LENGTH)
        magic = p[V2_MAGIC]
        if claimed < MIN_LENGTH:
            refuse(outcome, CORRUPT, FAULT_SIZE)
            return
        if claimed > left - PREFIX:
            return
        if magic > 2:
            refuse(outcome, CORRUPT, FAULT_MAGIC)
            return
        if magic < 2:
            refuse(outcome, OLD_FORMAT, FAULT_NONE)
            return
        if claimed < V2_HEADER - PREFIX:
            refuse(outcome, CORRUPT, FAULT_SIZE)
            return
        if take_batch(p, <Py_ssize_t>claimed + PREFIX, rules, next_offset, leader_epoch, now_ms, outcome):
            return


cdef Validation blank(int64_t first_offset):
    cdef Validation validation = Validation.__new__(Validation)
    memset(&validation.outcome, 0, sizeof(Outcome))
    validation.first_offset = first_offset
    validation.outcome.max_timestamp = NO_TIMESTAMP
    validation.outcome.offset_of_max_timestamp = -1
    validation.outcome.last_offset_of_max_batch = -1
    validation.outcome.record_index = -1
    return validation


def validate_batches(buffer, ProduceRules rules not None, int64_t next_offset, int32_t leader_epoch, int64_t now_ms):
    """Check and patch the batches in ``buffer``, which must be writable: the first record gets ``next_offset``.

    Return a Validation; invalid bytes raise no error. Raise ValueError for a negative ``next_offset``. The GIL is held,
    since a call takes only about a microsecond.
    """
    cdef Py_buffer view
    cdef Validation validation = blank(next_offset)
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        if next_offset < 0:
            raise ValueError(f"offset {next_offset} is negative")
        take_batches(
            <uint8_t*>view.buf, view.len, &rules.rules, next_offset, leader_epoch, now_ms, &validation.outcome
        )
    finally:
        PyBuffer_Release(&view)
    return validation


def validate_records(
    payload,
    ProduceRules rules not None,
    int64_t now_ms,
    *,
    int64_t base_offset,
    int64_t base_timestamp,
    int64_t max_timestamp,
    int attributes,
    int32_t record_count,
):
    """Check the decompressed records of a batch that ``validate_batches`` left compressed.

    The other arguments are fields of its header. Nothing is patched: if ``max_timestamp`` of the result differs from
    the header's (and producers set the timestamps), ``set_max_timestamp`` must correct the batch.
    """
    cdef Py_buffer view
    cdef Validation validation = blank(base_offset)
    cdef BatchFields batch = BatchFields(
        base_offset, base_timestamp, max_timestamp, record_count, <int16_t>(attributes & 0x7fff)
    )
    cdef int64_t found
    cdef int32_t index_of_max
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        if record_count <= 0 or <int64_t>record_count * V2_MIN_RECORD > view.len:
            refuse(&validation.outcome, CORRUPT, FAULT_RECORD_COUNT)
        elif not check_records(
            <const uint8_t*>view.buf, <const uint8_t*>view.buf + view.len, &batch, &rules.rules, now_ms,
            &validation.outcome, &found, &index_of_max,
        ):
            validation.outcome.record_count = record_count
            validation.outcome.batch_count = 1
            validation.outcome.size = view.len
            validation.outcome.max_timestamp = found
            if index_of_max >= 0:
                validation.outcome.offset_of_max_timestamp = base_offset + index_of_max
                validation.outcome.last_offset_of_max_batch = base_offset + record_count - 1
    finally:
        PyBuffer_Release(&view)
    return validation


def set_max_timestamp(buffer, int64_t max_timestamp, bint log_append=False):
    """Set timestamp type, max timestamp and checksum of the v2 batch that fills ``buffer``."""
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        if view.len < V2_HEADER or (<uint8_t*>view.buf)[V2_MAGIC] != 2:
            raise ValueError("the buffer does not hold a v2 batch")
        patch_timestamps(<uint8_t*>view.buf, view.len, max_timestamp, log_append)
    finally:
        PyBuffer_Release(&view)
