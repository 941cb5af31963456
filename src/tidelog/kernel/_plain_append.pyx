# cython: boundscheck=False, wraparound=True, cdivision=True
"""The append of plain batches as leader: check, place, write and account, in one call with the partition's lock.

Several batches come from as many requests, and are written together. A batch is plain if all of this holds:

- It is the only one in its buffer, of format v2, uncompressed, a client's and not of a transaction.
- It is stored as it was sent, fits into the active segment, and belongs to the log's latest leader epoch.
- Its producer, if it has an id, continues its last batch in the log.

Everything else, and every error, is left to the general way (``PartitionLog.append_as_leader``), which finds the buffer
as valid as it was. A plain append leaves the same bytes and the same state as the general way.

Readers take no lock, so the order of the last steps matters: the log end moves before the high watermark.
Source of the rules: Kafka's ``UnifiedLog.append``, ``ProducerStateManager``.
"""

from cpython.buffer cimport PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from tidelog.kernel._bytes cimport (
    PREFIX, V2_ATTRIBUTES, V2_BASE_SEQUENCE, V2_HEADER, V2_LEADER_EPOCH, V2_LENGTH, V2_MAGIC, V2_PRODUCER_EPOCH,
    V2_PRODUCER_ID, tl_load16, tl_load32, tl_load64, tl_store32, tl_store64,
)
from tidelog.kernel._log_end cimport AppendedBatch, SegmentEnd
from tidelog.kernel._log_offsets cimport LogOffsets
from tidelog.kernel._named_tuple cimport PyType_GenericAlloc, set_field
from tidelog.kernel._validate cimport Outcome, ProduceRules, take_batch

from tidelog.model.errors import StorageError
from tidelog.model.offsets import LogOffsetMetadata

cdef enum:
    CODEC_BITS = 7
    TRANSACTIONAL_BIT = 16
    CONTROL_BIT = 32
    MAX_SEQUENCE = 0x7fffffff
    NO_SEQUENCE = -1
    CHECKED_OFFSET = 0  # the fields of a batch that is checked, but not yet placed
    CHECKED_EPOCH = -1
    PLACE_FIELDS = 3  # in a LogOffsetMetadata
    CACHED_FIELDS = 4  # in a CachedBatch
    RESULT_FIELDS = 7  # in an AppendResult


def last_sequence_of(int64_t base_sequence, int64_t delta):
    """Return the sequence ``delta`` records after ``base_sequence``, or -1 if there are no sequences."""
    return sequence_after(base_sequence, delta)


cdef inline int64_t sequence_after(int64_t base_sequence, int64_t delta) noexcept:
    if base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    if base_sequence > MAX_SEQUENCE - delta:
        return delta - (MAX_SEQUENCE - base_sequence) - 1
    return base_sequence + delta


def next_sequence(int64_t last_sequence):
    """Return the sequence after ``last_sequence``, which may be the largest."""
    return next_after(last_sequence)


cdef inline int64_t next_after(int64_t last_sequence) noexcept:
    return 0 if last_sequence == MAX_SEQUENCE else last_sequence + 1


def continues(entry not None, int64_t producer_epoch, int64_t base_sequence, int attributes):
    """Return True if a client's data batch simply follows the last batch of its producer: it has the same epoch, the
    next sequence and the same transaction state."""
    return follows(entry, producer_epoch, base_sequence, attributes)


cdef bint follows(object entry, int64_t producer_epoch, int64_t base_sequence, int attributes) except -1:
    batches = entry.batches
    if not batches or attributes & CONTROL_BIT or <int64_t>entry.producer_epoch != producer_epoch:
        return False
    if bool(attributes & TRANSACTIONAL_BIT) != (entry.transaction_first_offset is not None):
        return False
    return base_sequence == next_after(<int64_t>batches[-1][0])


cdef class PlainAppends:
    """The plain way into one log. ``rules`` are its AppendRules, ``example`` is any result of an append."""

    def __init__(self, state, lifecycle, rules, example not None):
        self.state, self.lifecycle, self.lock = state, lifecycle, lifecycle.lock
        self.segments, self.offsets, self.epochs, self.topic = state.segments, state.offsets, state.epochs, state.topic
        self.producers, self.dirty = state.producers.state, state.dirty
        self.entries = self.producers.producers
        self.rules, self.is_possible = rules.of_clients, rules.allows_plain
        self.result_type, self.stats = type(example), example.stats
        self.process = lifecycle.guard.process

    def append(self, buffer, int32_t leader_epoch, int64_t now_ms, bint is_replicated):
        """Append a plain batch and return the result, or return None with nothing done.

        ``is_replicated`` also moves the high watermark to the log end. A StorageError fails the log.
        """
        cdef Py_buffer view
        cdef AppendedBatch batch
        if not self.is_possible:
            return None
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        try:
            batch.p, batch.size = <uint8_t*>view.buf, view.len
            if not self.append_run(buffer, &batch, 1, leader_epoch, now_ms, is_replicated):
                return None
        finally:
            PyBuffer_Release(&view)
        result = PyType_GenericAlloc(self.result_type, RESULT_FIELDS)
        set_field(result, 0, batch.first)
        set_field(result, 1, batch.last)
        set_field(result, 2, self.offsets.log_start)
        set_field(result, 3, batch.max_timestamp)
        set_field(result, 4, -1)
        set_field(result, 5, False)
        set_field(result, 6, self.stats)
        return result

    cdef Py_ssize_t append_run(
        self, object buffers, AppendedBatch* batches, Py_ssize_t count, int32_t leader_epoch, int64_t now_ms,
        bint is_replicated
    ) except -1:
        """Append the first of several batches of a producer, as long as they are plain, with one write. Return their
        number.

        ``buffers`` is a list of their bytes once more, as Python's buffers, or the buffer of the only batch. Their
        offsets and timestamps are set in ``batches``.
        After a StorageError they are valid as before.
        """
        cdef Py_ssize_t i
        if not (self.is_possible and self.process.is_current):
            return 0
        for i in range(count):
            if not is_candidate(batches[i].p, batches[i].size):
                count = i
                break
        if not count:
            return 0
        lifecycle = self.lifecycle
        self.lock.acquire()
        try:
            if lifecycle.is_closed or lifecycle.failure is not None or lifecycle.is_retired:
                return 0
            return self.append_held(buffers, batches, count, leader_epoch, now_ms, is_replicated)
        except StorageError as error:
            lifecycle.fail(error)
            raise
        finally:
            self.lock.release()

    cdef Py_ssize_t append_held(
        self, object buffers, AppendedBatch* batches, Py_ssize_t count, int32_t leader_epoch, int64_t now_ms,
        bint is_replicated
    ) except -1:
        cdef LogOffsets offsets = self.offsets
        cdef tuple segments = self.segments.at_this_moment
        cdef tuple epochs = self.epochs.entries
        cdef SegmentEnd segment = segments[len(segments) - 1]
        cdef int64_t next_offset = (<tuple>offsets.log_end)[0]
        cdef Py_ssize_t taken = 0
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t i
        cdef int64_t producer_id = <int64_t>tl_load64(batches.p + V2_PRODUCER_ID)
        entry, state = None, self.state
        if not epochs or self.topic.is_unwritten or state.dropped_epoch is not None or not state.has_no_transactions:
            return 0
        latest = epochs[len(epochs) - 1]
        if <int64_t>(<tuple>latest)[0] != leader_epoch or <int64_t>(<tuple>latest)[1] > next_offset:
            return 0
        if producer_id >= 0:
            entry = self.continued(batches.p, producer_id)
            if entry is None:
                return 0
        while taken < count and self.check(batches, taken, next_offset, size, segment, now_ms):
            next_offset = batches[taken].last + 1
            size += batches[taken].size
            taken += 1
        if not taken:
            return 0
        # From here on nothing is refused.
        for i in range(taken):
            put(&batches[i], batches[i].first, leader_epoch)
        self.dirty.add(segment.base_offset)
        try:
            if taken == 1:
                data = buffers[0] if type(buffers) is list else buffers
                SegmentEnd.append_one(segment, data, size, batches.last, batches.max_timestamp)
            else:
                segment.append_run(buffers[:taken], batches, taken)
        except StorageError:
            for i in range(taken):
                put(&batches[i], CHECKED_OFFSET, CHECKED_EPOCH)
            raise
        end = PyType_GenericAlloc(<type>LogOffsetMetadata, PLACE_FIELDS)
        set_field(end, 0, next_offset)
        set_field(end, 1, segment.base_offset)
        set_field(end, 2, segment._size)
        offsets.move_log_end(end)
        if entry is not None:
            for i in range(taken):
                account(entry, &batches[i])
        self.producers.map_end_offset = next_offset
        if (is_replicated or state.is_sole_replica) and offsets.high_watermark is not end:
            offsets.move_high_watermark(end)
        return taken

    cdef bint check(
        self, AppendedBatch* batches, Py_ssize_t i, int64_t first, Py_ssize_t bytes_before, SegmentEnd segment,
        int64_t now_ms
    ) except -1:
        """Return True if a batch is plain behind those before it. The first has a producer that continues."""
        cdef AppendedBatch* batch = &batches[i]
        cdef Outcome outcome
        if i and not is_next(&batches[i - 1], batch):
            return False
        memset(&outcome, 0, sizeof(Outcome))
        outcome.max_timestamp = -1
        if take_batch(batch.p, batch.size, &self.rules.rules, CHECKED_OFFSET, CHECKED_EPOCH, now_ms, &outcome):
            return False
        batch.first, batch.last, batch.max_timestamp = first, first + outcome.record_count - 1, outcome.max_timestamp
        if batch.last < first or not segment.takes(batch, i, bytes_before, now_ms):
            return False
        return True

    cdef object continued(self, const uint8_t* p, int64_t producer_id):
        """Return the producer's entry, or None if the batch does not simply continue it."""
        entry = self.entries.get(producer_id)
        if entry is None or self.producers.verifications.get(producer_id) is not None:
            return None
        if not follows(
            entry,
            <int16_t>tl_load16(p + V2_PRODUCER_EPOCH),
            <int32_t>tl_load32(p + V2_BASE_SEQUENCE),
            tl_load16(p + V2_ATTRIBUTES),
        ):
            return None
        return entry


cdef inline void put(const AppendedBatch* batch, int64_t offset, int32_t leader_epoch) noexcept:
    tl_store64(batch.p, <uint64_t>offset)
    tl_store32(batch.p + V2_LEADER_EPOCH, <uint32_t>leader_epoch)


cdef int account(object entry, const AppendedBatch* batch) except -1:
    """Note a batch in its producer's entry."""
    cdef int64_t base_sequence = <int32_t>tl_load32(batch.p + V2_BASE_SEQUENCE)
    cdef int64_t delta = batch.last - batch.first
    batches = entry.batches
    cached = PyType_GenericAlloc(type(batches[-1]), CACHED_FIELDS)
    set_field(cached, 0, sequence_after(base_sequence, delta))
    set_field(cached, 1, batch.last)
    set_field(cached, 2, delta)
    set_field(cached, 3, batch.max_timestamp)
    batches.append(cached)
    entry.last_timestamp = batch.max_timestamp
    return 0


cdef bint is_next(const AppendedBatch* before, const AppendedBatch* batch) noexcept:
    """Return True if a batch has the producer of the one before it, and the next sequence, or both have none."""
    cdef int64_t base_sequence = <int32_t>tl_load32(before.p + V2_BASE_SEQUENCE)
    cdef int64_t producer_id = <int64_t>tl_load64(before.p + V2_PRODUCER_ID)
    return producer_id == <int64_t>tl_load64(batch.p + V2_PRODUCER_ID) and (
        producer_id < 0
        or tl_load16(before.p + V2_PRODUCER_EPOCH) == tl_load16(batch.p + V2_PRODUCER_EPOCH)
        and <int32_t>tl_load32(batch.p + V2_BASE_SEQUENCE)
        == next_after(sequence_after(base_sequence, before.last - before.first))
    )


cdef inline bint is_candidate(const uint8_t* p, Py_ssize_t size) noexcept:
    """Return True if the header may be that of a plain batch that fills the buffer."""
    return (
        size >= V2_HEADER
        and <int32_t>tl_load32(p + V2_LENGTH) == size - PREFIX
        and p[V2_MAGIC] == 2
        and not tl_load16(p + V2_ATTRIBUTES) & (CODEC_BITS | TRANSACTIONAL_BIT | CONTROL_BIT)
    )
