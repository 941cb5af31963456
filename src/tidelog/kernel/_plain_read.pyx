# cython: boundscheck=False, wraparound=False, cdivision=True
"""The read of a log for a consumer in the plain case.

A read is plain if all of this holds:

- It begins in the log, at or below the high watermark, of which the position is known.
- The log has no open transaction, so that its last stable offset is the high watermark. For committed records there is
  no aborted transaction either in the segments that the read might need.
- The segment in which it begins has its first batch, as it has unless that was compacted away.

Everything else, and every error, is left to the general way (``PartitionLog.read``), which finds the same bytes.

Most reads begin where the one before has ended, or at the high watermark, once records follow it. That place is
remembered until the next truncation, so that the read needs no index and no search. Thread rule: one thread, while
others may change the log. Source of the rules: Kafka's ``UnifiedLog.read``, ``LocalLog.read``.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from tidelog.kernel._bytes cimport (
    PREFIX, V2_HEADER, V2_LAST_OFFSET_DELTA, V2_LENGTH, V2_MAGIC, tl_load32, tl_load64,
)

cdef enum:
    MOST_INDEXES = 8  # transaction indexes that a plain read looks at


cdef class PlainReads:
    """The plain way of reads from one log."""

    def __init__(self, state, lifecycle):
        self.state, self.lifecycle = state, lifecycle
        self.segments, self.offsets = state.segments, state.offsets

    cdef object read(
        self, int64_t start, int64_t max_bytes, bint is_committed, bint is_first, Py_ssize_t copied_bytes,
        ReadOffsets* found
    ):
        """Return bytes, or a SegmentRead if they are more than ``copied_bytes``. Return None if the read is not plain.

        ``is_first`` lets the first batch exceed ``max_bytes``. ``found`` gets the offsets. Raise StorageError or
        ClosedError as a read does.
        """
        cdef SegmentEnd segment
        cdef tuple segments
        cdef Py_ssize_t slot
        cdef int64_t end, size
        # The order matters while others append: see ``LogState.last_stable`` and ``LogState.offset_snapshot``.
        cdef int64_t log_start = self.offsets.log_start
        cdef object watermark = self.offsets.high_watermark
        cdef int64_t limit = (<tuple>watermark)[0]
        if self.lifecycle.is_closed or not log_start <= start <= limit or <int64_t>watermark[2] < 0:
            return None
        if not self.state.has_no_transactions:
            return None
        segments = self.segments.at_this_moment
        slot = slot_of(segments, start)
        if slot < 0 or (is_committed and may_have_aborted(segments, slot)):
            return None
        found.log_start, found.high_watermark = log_start, limit
        segment = segments[slot]
        if start == limit:
            if segment.base_offset == <int64_t>watermark[1]:
                self.remember(segment, start, watermark[2])
            return b""
        end = segment._size
        if segment.base_offset == <int64_t>watermark[1]:
            end = min(end, <int64_t>watermark[2])
        if segment is self.place_segment and start == self.place_offset:
            size = min(max_bytes, end - self.place_position)
            data = self.at_place(size) if V2_HEADER <= size <= copied_bytes else None
            if data is not None:
                return data
        batches = segment.read(start, max_bytes=max_bytes, max_position=end, min_one_message=is_first)
        if batches is None:
            return None
        if batches.first_entry_incomplete or not batches.size:
            return b""
        if batches.size > copied_bytes:
            return batches
        data = batches.data()
        self.remember_end(segment, batches.start[2], data)
        return data

    cdef object at_place(self, int64_t size):
        """Return the bytes at the place. Return None if the first batch is not complete."""
        cdef SegmentEnd segment = self.place_segment
        if self.place_truncations != self.state.truncation_count:
            return None
        data = segment._file.pread(size, self.place_position)
        if PyBytes_GET_SIZE(data) < size or size_of(<const uint8_t*>PyBytes_AS_STRING(data), size) < 0:
            return None
        self.remember_end(segment, self.place_position, data)
        return data

    cdef int remember(self, SegmentEnd segment, int64_t offset, int64_t position) except -1:
        self.place_segment, self.place_offset, self.place_position = segment, offset, position
        self.place_truncations = self.state.truncation_count
        return 0

    cdef int remember_end(self, SegmentEnd segment, int64_t position, bytes data) except -1:
        """Remember the end of the last complete batch of ``data``, which lies at ``position``."""
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t at = 0
        cdef int64_t taken, offset = -1
        while size - at >= V2_HEADER:
            taken = size_of(p + at, size - at)
            if taken < 0:
                break
            offset = <int64_t>tl_load64(p + at) + <int32_t>tl_load32(p + at + V2_LAST_OFFSET_DELTA) + 1
            at += taken
        if offset >= 0:
            self.remember(segment, offset, position + at)
        return 0


cdef inline int64_t size_of(const uint8_t* p, int64_t available) noexcept:
    """Return the size of a v2 batch that is complete, or -1."""
    cdef int64_t size = PREFIX + <int64_t><int32_t>tl_load32(p + V2_LENGTH)
    return size if p[V2_MAGIC] == 2 and V2_HEADER <= size <= available else -1


cdef Py_ssize_t slot_of(tuple segments, int64_t offset) except -2:
    """Return the index of the last segment that begins at or below an offset, or -1."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = len(segments)
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if (<SegmentEnd>segments[middle]).base_offset <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


cdef bint may_have_aborted(tuple segments, Py_ssize_t slot) except -1:
    """Return False if no segment from ``slot`` on has a transaction index."""
    cdef Py_ssize_t i
    if len(segments) - slot > MOST_INDEXES:
        return True
    for i in range(slot, len(segments)):
        if (<SegmentEnd>segments[i])._indexes.transactions.exists:
            return True
    return False
