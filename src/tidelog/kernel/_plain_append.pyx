# cython: boundscheck=False, wraparound=True, cdivision=True
"""The append of one plain batch as leader: check, place, write and account, in one call with the partition's lock.

A batch is plain if all of this holds:

- It is the only one in its buffer, of format v2, uncompressed, a client's and not of a transaction.
- It is stored as it was sent, fits into the active segment, and belongs to the log's latest leader epoch.
- Its producer, if it has an id, continues its last batch in the log.

Everything else, and every error, is left to the general way (``PartitionLog.append_as_leader``), which finds the buffer
as valid as it was. A plain append leaves the same bytes and the same state as the general way.

Readers take no lock, so the order of the last steps matters: the log end moves before the high watermark.
Source of the rules: Kafka's ``UnifiedLog.append``, ``ProducerStateManager``.
"""

from cpython.buffer cimport PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from tidelog.kernel._bytes cimport (
    PREFIX, V2_ATTRIBUTES, V2_BASE_SEQUENCE, V2_HEADER, V2_LEADER_EPOCH, V2_LENGTH, V2_MAGIC, V2_PRODUCER_EPOCH,
    V2_PRODUCER_ID, tl_load16, tl_load32, tl_load64, tl_store32, tl_store64,
)
from tidelog.kernel._log_end cimport SegmentEnd
from tidelog.kernel._log_offsets cimport LogOffsets
from tidelog.kernel._validate cimport Outcome, ProduceRules, take_batch

from tidelog.model.errors import StorageError
from tidelog.model.offsets import LogOffsetMetadata

cdef enum:
    CODEC_BITS = 7
    TRANSACTIONAL_BIT = 16
    CONTROL_BIT = 32
    MAX_SEQUENCE = 0x7fffffff
    NO_SEQUENCE = -1


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

    def append(self, buffer, int32_t leader_epoch, int64_t now_ms, bint is_replicated):
        """Append a plain batch and return the result, or return None with nothing done.

        ``is_replicated`` also moves the high watermark to the log end. A StorageError fails the log. Raise ForkError
        in a forked child.
        """
        cdef Py_buffer view
        if not self.is_possible:
            return None
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        try:
            if not is_candidate(<const uint8_t*>view.buf, view.len):
                return None
            return self.append_locked(buffer, <uint8_t*>view.buf, view.len, leader_epoch, now_ms, is_replicated)
        finally:
            PyBuffer_Release(&view)

    cdef object append_at(
        self, object frame, uint8_t* p, Py_ssize_t start, Py_ssize_t size, int32_t leader_epoch, int64_t now_ms,
        bint is_replicated
    ):
        """Append the ``size`` bytes from ``start`` on of a buffer, which ``p`` points to, as ``append`` does."""
        if not self.is_possible or not is_candidate(p + start, size):
            return None
        batch = PyMemoryView_FromObject(frame)[start:start + size]
        return self.append_locked(batch, p + start, size, leader_epoch, now_ms, is_replicated)

    cdef object append_locked(
        self, object buffer, uint8_t* p, Py_ssize_t size, int32_t leader_epoch, int64_t now_ms, bint is_replicated
    ):
        lifecycle = self.lifecycle
        lifecycle.guard.check()
        self.lock.acquire()
        try:
            if lifecycle.is_closed or lifecycle.failure is not None or lifecycle.is_retired:
                return None
            return self.append_held(buffer, p, size, leader_epoch, now_ms, is_replicated)
        except StorageError as error:
            lifecycle.fail(error)
            raise
        finally:
            self.lock.release()

    cdef object append_held(
        self, object buffer, uint8_t* p, Py_ssize_t size, int32_t leader_epoch, int64_t now_ms, bint is_replicated
    ):
        cdef Outcome outcome
        cdef LogOffsets offsets = self.offsets
        cdef tuple segments = self.segments.at_this_moment
        cdef tuple epochs = self.epochs.entries
        cdef SegmentEnd segment = segments[len(segments) - 1]
        cdef int64_t first = offsets.log_end[0]
        cdef int64_t producer_id = <int64_t>tl_load64(p + V2_PRODUCER_ID)
        cdef int64_t last, base_sequence
        entry, state = None, self.state
        if not epochs or self.topic.is_unwritten or not state.has_no_transactions:
            return None
        latest = epochs[len(epochs) - 1]
        if <int64_t>latest[0] != leader_epoch or <int64_t>latest[1] > first:
            return None
        if producer_id >= 0:
            entry = self.continued(p, producer_id)
            if entry is None:
                return None
        memset(&outcome, 0, sizeof(Outcome))
        outcome.max_timestamp = -1
        if take_batch(p, size, &self.rules.rules, 0, -1, now_ms, &outcome):
            return None
        last = first + outcome.record_count - 1
        if last < first or not segment.has_room_for(size, last, outcome.max_timestamp, now_ms):
            return None
        # From here on nothing is refused.
        tl_store64(p, <uint64_t>first)
        tl_store32(p + V2_LEADER_EPOCH, <uint32_t>leader_epoch)
        self.dirty.add(segment.base_offset)
        segment.append_one(buffer, size, last, outcome.max_timestamp)
        end = tuple.__new__(LogOffsetMetadata, (last + 1, segment.base_offset, segment._size))
        offsets.move_log_end(end)
        if entry is not None:
            base_sequence = <int32_t>tl_load32(p + V2_BASE_SEQUENCE)
            batches = entry.batches
            cached = (sequence_after(base_sequence, last - first), last, last - first, outcome.max_timestamp)
            batches.append(tuple.__new__(type(batches[-1]), cached))
            entry.last_timestamp = outcome.max_timestamp
        self.producers.map_end_offset = last + 1
        if (is_replicated or state.is_sole_replica) and offsets.high_watermark is not end:
            offsets.move_high_watermark(end)
        return tuple.__new__(
            self.result_type, (first, last, offsets.log_start, outcome.max_timestamp, -1, False, self.stats)
        )

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


cdef inline bint is_candidate(const uint8_t* p, Py_ssize_t size) noexcept:
    """Return True if the header may be that of a plain batch that fills the buffer."""
    return (
        size >= V2_HEADER
        and <int32_t>tl_load32(p + V2_LENGTH) == size - PREFIX
        and p[V2_MAGIC] == 2
        and not tl_load16(p + V2_ATTRIBUTES) & (CODEC_BITS | TRANSACTIONAL_BIT | CONTROL_BIT)
    )
