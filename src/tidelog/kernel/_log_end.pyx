# cython: boundscheck=False, wraparound=False, cdivision=True
"""The end of a segment that is appended to, and of its two indexes: the state that every append reads and changes.

``LogSegment``, ``OffsetIndexWriter``, ``TimeIndexWriter`` and ``IndexBuilder`` derive from these classes, and own the
files. The rules have one home here, whichever way an append takes:

- when the active segment must roll (``SegmentEnd.has_room_for``; ``storage.segment.limits`` has the table of the rule),
- which batch gets index entries (``IndexProgress.add_one``; ``select_index_entries`` is the same for many batches),
- which entries an index takes.

Thread rule: the caller of a change holds the partition's lock. Readers in other threads see every field as it was
before or after a change, because each change of several fields holds the GIL.
Source: Kafka's ``LogSegment``, ``OffsetIndex``, ``TimeIndex``.
"""

import numpy as np

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from tidelog.kernel._bytes cimport tl_store32, tl_store64
from tidelog.kernel._open_file cimport OpenFile

from tidelog.model.errors import InvalidOffsetError, StorageError

cdef enum:
    WAITING = 64
    OFFSET_ENTRY = 8
    TIME_ENTRY = 12

cdef int64_t NONE = INT64_MIN

PENDING_ENTRIES = WAITING


cdef class IndexEnd:
    """The number of entries, the length of the file in bytes, and the view with the entries that wait in memory."""

    cdef int add(self, const uint8_t* entry, Py_ssize_t size) except -1:
        """Add an entry of ``size`` bytes. The caller has checked that there is room."""
        view = self._view
        cdef bytes pending = view[2]
        cdef Py_ssize_t length = PyBytes_GET_SIZE(pending)
        cdef bytes made
        if self._closed:
            self._require_open()
        made = PyBytes_FromStringAndSize(NULL, length + size)
        memcpy(PyBytes_AS_STRING(made), PyBytes_AS_STRING(pending), length)
        memcpy(PyBytes_AS_STRING(made) + length, entry, size)
        if length < (WAITING - 1) * size:
            self._view = tuple.__new__(type(view), (view[0], view[1], made))
        else:
            self._write(made)
        self._count += 1
        return 0


cdef class OffsetIndexEnd(IndexEnd):
    """``_last_offset`` is that of the last entry, or the base offset in an empty index."""

    cdef Py_ssize_t room(self) noexcept:
        return self._length // OFFSET_ENTRY - self._count

    @property
    def is_full(self):
        return self.room() <= 0

    cpdef append(self, int64_t offset, int64_t position):
        """Add an entry. Raise InvalidOffsetError if ``offset`` does not ascend, ValueError if the index is full."""
        cdef uint8_t entry[OFFSET_ENTRY]
        if self.room() <= 0:
            raise ValueError(f"append to a full index of {self._count} entries: {self.path}")
        if self._count and offset <= self._last_offset:
            raise InvalidOffsetError(
                f"an entry for offset {offset} cannot follow the last, {self._last_offset}",
                path=self.path,
                offset=offset,
            )
        if not 0 <= position <= INT32_MAX:
            raise OverflowError(f"position {position} does not fit into an entry of {self.path}")
        tl_store32(entry, relative(self, offset))
        tl_store32(entry + 4, <uint32_t>position)
        self.add(entry, OFFSET_ENTRY)
        self._last_offset = offset


cdef class TimeIndexEnd(IndexEnd):
    """The last entry is (``_last_timestamp``, ``_last_offset``), or (-1, base offset) in an empty index."""

    cdef Py_ssize_t room(self) noexcept:
        """Return the number of free slots. The last one is reserved for the entry at the end of the active segment."""
        return self._length // TIME_ENTRY - self._count

    @property
    def is_full(self):
        """True if only the reserved slot is left."""
        return self.room() <= 1

    cpdef maybe_append(self, int64_t timestamp, int64_t offset, bint skip_full_check=False):
        """Add an entry if ``timestamp`` is above the last one. An equal timestamp is a no-op.

        Raise InvalidOffsetError if ``offset`` is below the last. Raise ValueError if ``timestamp`` is below the last or
        the index is full. ``skip_full_check`` allows the use of the reserved slot.
        """
        cdef uint8_t entry[TIME_ENTRY]
        cdef Py_ssize_t room = self.room()
        if room <= 1 and (not skip_full_check or (room <= 0 and timestamp > self._last_timestamp)):
            raise ValueError(f"append to a full time index of {self._count} entries: {self.path}")
        if self._count and offset < self._last_offset:
            raise InvalidOffsetError(
                f"an entry for offset {offset} cannot follow the last, {self._last_offset}",
                path=self.path,
                offset=offset,
            )
        if timestamp > self._last_timestamp:
            tl_store64(entry, <uint64_t>timestamp)
            tl_store32(entry + 8, relative(self, offset))
            self.add(entry, TIME_ENTRY)
            self._last_timestamp, self._last_offset = timestamp, offset
        elif self._count and timestamp < self._last_timestamp:
            raise ValueError(
                f"an entry for timestamp {timestamp} cannot follow the last, {self._last_timestamp}: {self.path}"
            )


cdef uint32_t relative(IndexEnd index, int64_t offset) except? 0xffffffff:
    """Return an offset as stored. Raise OverflowError if it is not within 31 bits above the base offset: Kafka's
    IndexOffsetOverflowException."""
    if not 0 <= offset - index._base_offset <= INT32_MAX:
        raise OverflowError(
            f"offset {offset} is not within 31 bits above the base offset {index._base_offset} of {index.path}"
        )
    return <uint32_t>(offset - index._base_offset)


cdef class IndexProgress:
    """The state between two batches: the bytes since the last entry, the largest timestamp (ms, -1: none) with its
    offset, and the offset of the last entry."""

    def __init__(self, int64_t base_offset, int64_t interval_bytes):
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._state = (0, -1, base_offset, base_offset - 1)

    @property
    def _state(self):
        """The state as ``select_index_entries`` takes it."""
        return self.since_entry, self.largest_timestamp, self.offset_of_largest, self.last_entry_offset

    @_state.setter
    def _state(self, state):
        cdef int64_t since, timestamp, offset, last
        since, timestamp, offset, last = state
        self.since_entry, self.largest_timestamp, self.offset_of_largest = since, timestamp, offset
        self.last_entry_offset = last

    cpdef bint add_one(self, Py_ssize_t size, int64_t last_offset, int64_t max_timestamp) noexcept:
        """Add a single batch as ``add`` does. Return True if it gets entries, at its own position."""
        cdef bint is_wanted = self.since_entry > self._interval_bytes
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp, self.offset_of_largest = max_timestamp, last_offset
        if is_wanted:
            self.since_entry, self.last_entry_offset = 0, last_offset
        self.since_entry += size
        return is_wanted


cdef class SegmentEnd:
    """The end of a segment: its size in bytes, and the state by which it rolls. Times are in ms."""

    def __init__(self, int64_t base_offset, int64_t size, int64_t created_ms):
        self.base_offset = base_offset
        self._size = size
        self._created_ms = created_ms
        self.roll_start = NONE

    @property
    def size(self):
        """The bytes of all batches."""
        return self._size

    @property
    def _roll_timestamp(self):
        """The largest timestamp of the first batch, or None as long as it is unknown."""
        return None if self.roll_start == NONE else self.roll_start

    @_roll_timestamp.setter
    def _roll_timestamp(self, timestamp):
        self.roll_start = NONE if timestamp is None else timestamp

    def _set_roll_limits(self, int64_t segment_bytes, int64_t roll_after_ms):
        self.segment_bytes, self.roll_after_ms = segment_bytes, roll_after_ms

    cdef bint allows(
        self, int64_t end, int64_t last_offset, int64_t max_timestamp, int64_t start, int64_t now_ms
    ) noexcept nogil:
        """Return True if a batch may end at ``end``. ``start`` is the first batch's timestamp, or negative."""
        cdef int64_t waited_ms = max_timestamp - start if start >= 0 else now_ms - self._created_ms
        return (
            end <= self.segment_bytes
            and last_offset - self.base_offset <= INT32_MAX
            and waited_ms <= self.roll_after_ms
        )

    def _rows_allowed(
        self,
        const int32_t[:] size,
        const int64_t[:] last_offset,
        const int64_t[:] max_timestamp,
        roll_timestamp,
        int64_t now_ms,
    ):
        """Return an array of bool: for each batch, appended after those before it, True if no limit is exceeded."""
        cdef Py_ssize_t row
        cdef int64_t end = self._size
        cdef int64_t start = -1 if roll_timestamp is None else roll_timestamp
        if not size.shape[0] == last_offset.shape[0] == max_timestamp.shape[0]:
            raise ValueError(f"columns of {size.shape[0]}, {last_offset.shape[0]}, {max_timestamp.shape[0]} rows")
        allowed = np.empty(size.shape[0], np.bool_)
        cdef uint8_t[:] out = allowed.view(np.uint8)
        for row in range(size.shape[0]):
            end += size[row]
            out[row] = self.allows(end, last_offset[row], max_timestamp[row], start, now_ms)
        return allowed

    cpdef bint has_room_for(self, Py_ssize_t size, int64_t last_offset, int64_t max_timestamp, int64_t now_ms) except -1:
        """Return True if another batch belongs into this non-empty segment; ``limits`` explains the rule."""
        cdef AppendedBatch batch
        batch.size, batch.last, batch.max_timestamp = size, last_offset, max_timestamp
        return self.takes(&batch, 0, 0, now_ms)

    cdef bint takes(
        self, const AppendedBatch* batch, Py_ssize_t batches, Py_ssize_t bytes_before, int64_t now_ms
    ) except -1:
        """Return True if a batch belongs into this segment behind ``batches`` others of ``bytes_before`` bytes, which
        are not yet appended."""
        cdef OffsetIndexEnd offset_index
        cdef TimeIndexEnd time_index
        cdef int64_t end = self._size + bytes_before + batch.size
        if self.roll_start == NONE or self._size == 0:
            return False
        if not self.allows(end, batch.last, batch.max_timestamp, self.roll_start, now_ms):
            return False
        offset_index, time_index = self._indexes.growing()
        return offset_index.room() > batches and time_index.room() > batches + 1

    cpdef append_one(self, data, Py_ssize_t size, int64_t last_offset, int64_t max_timestamp):
        """Append a single batch of ``size`` bytes that is known to fit; without a table, for speed."""
        cdef int64_t start = self._size
        self.write(data)
        if start == 0:
            self.roll_start = max_timestamp
        self.add(start, size, last_offset, max_timestamp)

    cdef int append_run(self, list parts, const AppendedBatch* batches, Py_ssize_t count) except -1:
        """Append batches that are known to fit, with one write. ``parts`` are their bytes."""
        cdef Py_ssize_t i
        self.write(parts)
        for i in range(count):
            self.add(self._size, batches[i].size, batches[i].last, batches[i].max_timestamp)
        return 0

    cdef int write(self, data) except -1:
        """Write a buffer, or a list of buffers, at the end. A failed write leaves nothing behind it."""
        file = self._file_or_none
        if self._builder is None or file is None:
            self._index_builder()
            file = self._file
        try:
            if type(data) is list:
                file.pwrite_all(data, self._size)
            elif isinstance(file, OpenFile):
                (<OpenFile>file).pwrite(data, self._size)
            else:
                file.pwrite(data, self._size)
        except StorageError:
            file.truncate(self._size)
            raise
        return 0

    cdef int add(self, int64_t start, Py_ssize_t size, int64_t last_offset, int64_t max_timestamp) except -1:
        """Add a batch that is written at ``start``, the end, with its index entries."""
        cdef IndexProgress builder = self._builder
        cdef OffsetIndexEnd offset_index
        cdef TimeIndexEnd time_index
        self._size = start + size
        if IndexProgress.add_one(builder, size, last_offset, max_timestamp):
            offset_index, time_index = self._indexes.growing()
            offset_index.append(last_offset, start)
            time_index.maybe_append(builder.largest_timestamp, builder.offset_of_largest)
        return 0
