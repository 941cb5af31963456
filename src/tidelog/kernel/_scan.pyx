# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""The scan of batches of formats v0, v1 and v2 into a BatchTable: ``scan_batches`` of a buffer, ``BatchScan`` of buffers
that follow each other, and ``scan_headers`` of a file, which reads no records.

Bounds are checked once per batch. Before any field after the first 18 bytes is read, ``size`` is known to fit, and to
be at least the smallest batch of its format. The scan does not hold the GIL.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_SetFromErrno
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from tidelog.kernel._bytes cimport (
    PREFIX, V2_ATTRIBUTES, V2_BASE_SEQUENCE, V2_BASE_TIMESTAMP, V2_CRC, V2_HEADER, V2_LAST_OFFSET_DELTA,
    V2_LEADER_EPOCH, V2_LENGTH, V2_MAGIC, V2_MAX_TIMESTAMP, V2_MIN_RECORD, V2_PRODUCER_EPOCH, V2_PRODUCER_ID,
    V2_RECORD_COUNT, tl_add64, tl_load16, tl_load32, tl_load64,
)
from tidelog.kernel._crc cimport crc32_of, crc32c_of
from tidelog.kernel._layout cimport ROW_BYTES, Rows, bind_rows

from tidelog.kernel.table import BatchTable, Stop, Summary

cdef enum:
    STOP_END = 0
    STOP_PARTIAL = 1
    STOP_BAD_SIZE = 2
    STOP_BAD_MAGIC = 3
    STOP_NO_ROOM = 4  # not the end of the scan: the table must grow
    STOP_FAILED = 5  # the file cannot be read: errno has the reason

    HEADER_UP_TO_MAGIC = 17
    V0_SIZE = 14  # the length field of an empty message
    V1_SIZE = 22
    V2_SIZE = 49

    FIRST_GUESS_ROWS = 65536  # a hostile first batch must not make the table reserve gigabytes
    WINDOW_BYTES = 4096  # small enough to skip the records of most batches, and large enough for many small batches

cdef extern from "<unistd.h>" nogil:
    ssize_t pread(int descriptor, void* data, size_t count, long long position)

cdef object STOPS = tuple(Stop)

cdef struct Walk:
    const uint8_t* data  # NULL: the bytes come from the file ``descriptor``, through ``window``
    int descriptor
    uint8_t[WINDOW_BYTES] window
    Py_ssize_t window_start
    Py_ssize_t window_end
    Py_ssize_t index  # the next batch
    Py_ssize_t end
    int64_t base_position
    int64_t start  # the position of the first row
    int64_t expected  # the bytes of all rows, if all of them are valid
    int64_t partial_size
    Py_ssize_t row
    Py_ssize_t capacity
    bint verify
    int stop  # one of STOP_*
    # The summary of the rows so far.
    int64_t first_offset
    int64_t last_offset
    int64_t producer_id
    int32_t leader_epoch
    int16_t attributes
    bint crcs_ok
    bint sound


cdef void fill_v2(const uint8_t* p, int32_t length, Rows* rows, Py_ssize_t row, bint verify) noexcept nogil:
    cdef int64_t base_offset = <int64_t>tl_load64(p)
    cdef int32_t delta = <int32_t>tl_load32(p + V2_LAST_OFFSET_DELTA)
    cdef int32_t count = <int32_t>tl_load32(p + V2_RECORD_COUNT)
    cdef int16_t attributes = <int16_t>tl_load16(p + V2_ATTRIBUTES)
    cdef int64_t last_offset = tl_add64(base_offset, delta)
    cdef uint32_t crc = tl_load32(p + V2_CRC)
    cdef bint ok = base_offset >= 0 and delta >= 0 and last_offset >= 0 and count >= 0 and count <= <int64_t>delta + 1
    if ok and not attributes & 7:
        ok = <int64_t>count * V2_MIN_RECORD <= length - V2_SIZE
    rows.base_offset[row] = base_offset
    rows.last_offset[row] = last_offset
    rows.base_timestamp[row] = <int64_t>tl_load64(p + V2_BASE_TIMESTAMP)
    rows.max_timestamp[row] = <int64_t>tl_load64(p + V2_MAX_TIMESTAMP)
    rows.producer_id[row] = <int64_t>tl_load64(p + V2_PRODUCER_ID)
    rows.record_count[row] = count
    rows.leader_epoch[row] = <int32_t>tl_load32(p + V2_LEADER_EPOCH)
    rows.base_sequence[row] = <int32_t>tl_load32(p + V2_BASE_SEQUENCE)
    rows.crc[row] = crc
    rows.producer_epoch[row] = <int16_t>tl_load16(p + V2_PRODUCER_EPOCH)
    rows.attributes[row] = attributes
    rows.crc_ok[row] = not verify or crc32c_of(p + V2_ATTRIBUTES, PREFIX + length - V2_ATTRIBUTES, 0) == crc
    rows.header_ok[row] = ok


cdef void fill_legacy(
    const uint8_t* p, int32_t length, int8_t magic, Rows* rows, Py_ssize_t row, bint verify
) noexcept nogil:
    cdef int64_t offset = <int64_t>tl_load64(p)
    cdef uint32_t crc = tl_load32(p + 12)
    cdef uint8_t attributes = p[17]
    cdef int64_t timestamp = <int64_t>tl_load64(p + 18) if magic == 1 else -1
    rows.base_offset[row] = offset
    rows.last_offset[row] = offset
    rows.base_timestamp[row] = timestamp
    rows.max_timestamp[row] = timestamp
    rows.producer_id[row] = -1
    rows.record_count[row] = -1 if attributes & 7 else 1
    rows.leader_epoch[row] = -1
    rows.base_sequence[row] = -1
    rows.crc[row] = crc
    rows.producer_epoch[row] = -1
    rows.attributes[row] = attributes
    rows.crc_ok[row] = not verify or crc32_of(p + HEADER_UP_TO_MAGIC - 1, length - 4, 0) == crc
    rows.header_ok[row] = offset >= 0


cdef void sum_up(Walk* walk, const Rows* rows, Py_ssize_t row) noexcept nogil:
    cdef int64_t base_offset = rows.base_offset[row]
    if row == 0:
        walk.first_offset = base_offset
    elif base_offset <= walk.last_offset:
        walk.sound = False
    walk.last_offset = rows.last_offset[row]
    walk.crcs_ok &= rows.crc_ok[row]
    walk.sound &= rows.crc_ok[row] & rows.header_ok[row]
    if rows.producer_id[row] > walk.producer_id:
        walk.producer_id = rows.producer_id[row]
    if rows.leader_epoch[row] > walk.leader_epoch:
        walk.leader_epoch = rows.leader_epoch[row]
    if rows.magic[row] == 2:
        walk.attributes |= rows.attributes[row]


cdef int find_header(Walk* walk, const uint8_t** p) noexcept nogil:
    """Let ``p`` point to the next batch's header, or to all bytes that are left. Return 0, STOP_PARTIAL or STOP_FAILED."""
    cdef Py_ssize_t left = walk.end - walk.index
    cdef Py_ssize_t needed = left if left < V2_HEADER else V2_HEADER
    cdef Py_ssize_t wanted = needed
    cdef ssize_t count
    if walk.data != NULL:
        p[0] = walk.data + walk.index
        return 0
    if walk.index < walk.window_start or walk.index + needed > walk.window_end:
        if walk.index < walk.window_end + WINDOW_BYTES:  # the batch before is small: the next ones may be too
            wanted = left if left < WINDOW_BYTES else WINDOW_BYTES
        count = pread(walk.descriptor, walk.window, wanted, walk.index)
        if count < 0:
            return STOP_FAILED
        walk.window_start, walk.window_end = walk.index, walk.index + count
        if count < needed:
            return STOP_PARTIAL  # the owner truncated the file
    p[0] = walk.window + (walk.index - walk.window_start)
    return 0


cdef int walk_batches(Walk* walk, Rows* rows) noexcept nogil:
    """Fill rows until the data or the room ends; return one of STOP_*."""
    cdef const uint8_t* p = NULL
    cdef Py_ssize_t left
    cdef int failure
    cdef int32_t length
    cdef int8_t magic
    while True:
        left = walk.end - walk.index
        if left <= HEADER_UP_TO_MAGIC:  # less than a header plus a byte: Kafka's FileLogInputStream ends here too
            return STOP_PARTIAL if left else STOP_END
        failure = find_header(walk, &p)
        if failure:
            return failure
        length = <int32_t>tl_load32(p + V2_LENGTH)
        if length < V0_SIZE:
            return STOP_BAD_SIZE
        if length > left - PREFIX:
            walk.partial_size = <int64_t>length + PREFIX
            return STOP_PARTIAL
        magic = <int8_t>p[V2_MAGIC]
        if magic < 0 or magic > 2:
            return STOP_BAD_MAGIC
        if length < (V2_SIZE if magic == 2 else V1_SIZE if magic == 1 else V0_SIZE):
            return STOP_BAD_SIZE
        if length > 0x7fffffff - PREFIX:
            return STOP_BAD_SIZE  # the complete batch would not fit into the size column
        if walk.row == walk.capacity:
            return STOP_NO_ROOM
        rows.position[walk.row] = walk.base_position + walk.index
        rows.size[walk.row] = PREFIX + length
        rows.magic[walk.row] = magic
        if magic == 2:
            fill_v2(p, length, rows, walk.row, walk.verify)
        else:
            fill_legacy(p, length, magic, rows, walk.row, walk.verify)
        sum_up(walk, rows, walk.row)
        walk.row += 1
        walk.index += PREFIX + length


cdef Py_ssize_t first_guess(Walk* walk) noexcept nogil:
    """Return the number of rows to reserve, assuming that all batches are like the first."""
    cdef Py_ssize_t left = walk.end - walk.index
    cdef const uint8_t* p = NULL
    cdef int32_t length
    cdef int64_t guess
    if left <= HEADER_UP_TO_MAGIC or find_header(walk, &p):
        return 0
    length = <int32_t>tl_load32(p + V2_LENGTH)
    if length < V0_SIZE or length > left - PREFIX:
        return 0
    guess = walk.expected // (<int64_t>length + PREFIX)
    guess += guess // 8
    return guess if guess < FIRST_GUESS_ROWS else FIRST_GUESS_ROWS


cdef object grown(object block, Rows* rows, Walk* walk):
    """Return a larger block with the rows so far; ``rows`` then points into it."""
    cdef Py_ssize_t old = walk.capacity, index, count = walk.row
    cdef double done = walk.base_position + walk.index - walk.start
    cdef Py_ssize_t capacity = max(2 * old, 16)
    cdef Rows before = rows[0]
    if done > 0:
        capacity = max(old + old // 4 + 16, min(<Py_ssize_t>(count * (walk.expected / done) * 1.125), 16 * capacity))
    new_block = PyBytes_FromStringAndSize(NULL, capacity * ROW_BYTES)
    walk.capacity = capacity
    bind_rows(rows, PyBytes_AS_STRING(new_block), capacity)
    memcpy(rows.position, before.position, count * 8)
    memcpy(rows.base_offset, before.base_offset, count * 8)
    memcpy(rows.last_offset, before.last_offset, count * 8)
    memcpy(rows.base_timestamp, before.base_timestamp, count * 8)
    memcpy(rows.max_timestamp, before.max_timestamp, count * 8)
    memcpy(rows.producer_id, before.producer_id, count * 8)
    memcpy(rows.size, before.size, count * 4)
    memcpy(rows.record_count, before.record_count, count * 4)
    memcpy(rows.leader_epoch, before.leader_epoch, count * 4)
    memcpy(rows.base_sequence, before.base_sequence, count * 4)
    memcpy(rows.crc, before.crc, count * 4)
    memcpy(rows.producer_epoch, before.producer_epoch, count * 2)
    memcpy(rows.attributes, before.attributes, count * 2)
    memcpy(rows.magic, before.magic, count)
    memcpy(rows.crc_ok, before.crc_ok, count)
    memcpy(rows.header_ok, before.header_ok, count)
    return new_block


cdef class BatchScan:
    """A scan of buffers that follow each other, whose batches become one table.

    ``position`` is that of the first byte in its file. ``expected_bytes`` are those of all buffers, about.
    """

    cdef Walk walk
    cdef Rows rows
    cdef object block

    def __init__(self, int64_t position=0, *, int64_t expected_bytes=0, bint verify_crc=True):
        begin(&self.walk, position, expected_bytes, verify_crc)
        self.block = b""

    @property
    def end_position(self):
        """The position after the last batch, where the next buffer begins."""
        return self.walk.base_position

    @property
    def partial_size(self):
        """The size that an incomplete batch at the end of the last buffer claims, or 0 if that is unknown."""
        return self.walk.partial_size

    def add(self, buffer):
        """Scan a buffer, and return the kind of its end. A batch that is incomplete in it has no row yet."""
        cdef Py_buffer view
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            self.walk.data, self.walk.index, self.walk.end = <const uint8_t*>view.buf, 0, view.len
            self.block = walked(self.block, &self.walk, &self.rows)
            self.walk.base_position += self.walk.index
            self.walk.index = 0
            return STOPS[self.walk.stop]
        finally:
            PyBuffer_Release(&view)

    def table(self):
        """Return the table of all batches so far."""
        return table_of(self.block, &self.walk)


def scan_batches(buffer, Py_ssize_t start=0, end=None, *, int64_t base_position=0, bint verify_crc=True):
    """Scan ``buffer[start:end]``. Invalid bytes end the scan and set ``stop``; they raise no error.

    ``base_position`` is the position of ``buffer[0]`` in its file. Raise ValueError if ``start`` or ``end`` lies
    outside.
    """
    cdef Py_buffer view
    cdef Walk walk
    cdef Py_ssize_t stop
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        stop = view.len if end is None else end
        if not 0 <= start <= stop <= view.len:
            raise ValueError(f"cannot scan [{start}:{end}] of a buffer of {view.len} bytes")
        begin(&walk, base_position + start, stop - start, verify_crc)
        walk.data, walk.base_position, walk.index, walk.end = <const uint8_t*>view.buf, base_position, start, stop
        return scanned(&walk)
    finally:
        PyBuffer_Release(&view)


def scan_headers(int descriptor, Py_ssize_t start, Py_ssize_t end):
    """Scan the bytes from ``start`` to ``end`` of an open file without reading records or checking CRCs. A file that
    ends earlier ends the scan as invalid bytes do.

    Raise ValueError if ``end`` is below ``start``, and OSError if the file cannot be read.
    """
    cdef Walk walk
    if not 0 <= start <= end:
        raise ValueError(f"cannot scan [{start}:{end}] of a file")
    begin(&walk, start, end - start, False)
    walk.descriptor, walk.base_position, walk.index, walk.end = descriptor, 0, start, end
    return scanned(&walk)


cdef void begin(Walk* walk, int64_t position, int64_t expected, bint verify) noexcept:
    """Prepare a walk without bytes, whose first row will be at ``position``."""
    walk.data = NULL
    walk.window_start = walk.window_end = walk.index = walk.end = 0
    walk.base_position = walk.start = position
    walk.expected, walk.verify = expected, verify
    walk.row = walk.capacity = walk.partial_size = 0
    walk.stop = STOP_END
    walk.first_offset = walk.last_offset = walk.producer_id = walk.leader_epoch = -1
    walk.attributes = 0
    walk.crcs_ok = walk.sound = True


cdef object walked(object block, Walk* walk, Rows* rows):
    """Walk to the end of the bytes, and return the block with the rows."""
    walk.partial_size = 0
    if not walk.capacity:
        walk.capacity = first_guess(walk)
        block = PyBytes_FromStringAndSize(NULL, walk.capacity * ROW_BYTES)
        bind_rows(rows, PyBytes_AS_STRING(block), walk.capacity)
    while True:
        with nogil:
            walk.stop = walk_batches(walk, rows)
        if walk.stop == STOP_FAILED:
            PyErr_SetFromErrno(OSError)
        if walk.stop != STOP_NO_ROOM:
            return block
        block = grown(block, rows, walk)


cdef object scanned(Walk* walk):
    cdef Rows rows
    return table_of(walked(None, walk, &rows), walk)


cdef object table_of(object block, const Walk* walk):
    return BatchTable(
        block,
        capacity=walk.capacity,
        first=0,
        count=walk.row,
        end_position=walk.base_position + walk.index,
        stop=STOPS[walk.stop],
        partial_size=walk.partial_size,
        crc_verified=bool(walk.verify),
        summary=Summary(
            walk.first_offset, walk.last_offset, bool(walk.crcs_ok), bool(walk.sound), walk.attributes,
            walk.leader_epoch, walk.producer_id,
        ),
    )
