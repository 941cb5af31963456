# cython: boundscheck=False, wraparound=False, cdivision=True
"""Fetch requests of the plain case, from the frame to the response in one call.

A request is plain if all of this holds:

- It has a flexible version (v12 to v18), no session and no tagged fields, and is a consumer's.
- It names 1 to 32 partitions, each of them once, with the current leader epoch or none, and no partition to forget.
- It wants a response as soon as there are any records.
- The read of each partition is plain, see ``_plain_read``.

Every other frame, valid or not, is left to the general way (``server.handlers.data.fetch``). A plain response has the
bytes of a general one. Source of the format: Kafka's ``FetchRequest.json``, ``FetchResponse.json``.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from tidelog.kernel._bytes cimport tl_is_utf8, tl_load32, tl_load64, tl_store32, tl_store64
from tidelog.kernel._plain_read cimport PlainReads, ReadOffsets
from tidelog.kernel._plain_request cimport (
    NO_ITEM, PlainPartitions, RequestHeader, read_header, read_length, read_topic, write_length,
)

from tidelog.model.errors import ClosedError, StorageError

cdef enum:
    FETCH = 1
    FIRST_FLEXIBLE = 12
    TOPIC_IDS = 13
    REPLICA_STATE = 15
    LATEST = 18
    CONSUMER = -1
    COMMITTED = 1
    NO_SESSION_EPOCH = -1
    WANTED_BYTES = 33  # a partition: its number, two epochs, two offsets, its maximum, and its tags
    MOST_PARTITIONS = 32
    LARGEST_RESPONSE = 10100  # without records: 32 topics of 254 bytes with a partition of 41 bytes each, and 22 more

cdef struct Wanted:
    Py_ssize_t topic  # the position of the topic's id or name
    Py_ssize_t topic_bytes
    Py_ssize_t of_topic  # the number of the topic's partitions, if this is the first
    int32_t index
    int32_t leader_epoch
    int64_t offset
    int64_t max_bytes

cdef struct Request:
    RequestHeader header
    Py_ssize_t max_wait  # its position
    int32_t max_wait_ms
    int64_t min_bytes
    int64_t max_bytes
    bint is_committed
    Py_ssize_t topics
    Py_ssize_t count
    Wanted[MOST_PARTITIONS] wanted


cdef class PlainFetched:
    """The result of a plain request: its version and its response in parts, with its length and header first.

    ``parts`` is None if the request waits up to ``max_wait_ms`` for records of ``partitions``.
    """

    cdef readonly int version
    cdef readonly list parts
    cdef readonly list partitions
    cdef readonly int32_t max_wait_ms


cdef class PlainFetch:
    """The plain way of a broker's Fetch requests.

    ``find`` is that of ``PlainPartitions``. It returns an object with ``plain_reads`` and ``leader_epoch`` as
    ``Partition`` has them.
    """

    cdef PlainPartitions partitions

    def __init__(self, find):
        self.partitions = PlainPartitions(find)

    def read(self, frame, int64_t most_bytes, Py_ssize_t copied_bytes, bint allows_rack):
        """Return a PlainFetched, or None if the request is not plain.

        ``most_bytes`` is the broker's limit. More than ``copied_bytes`` of records stay in their file. ``allows_rack``
        is False if a consumer's rack matters.
        """
        cdef Py_buffer view
        cdef Request request
        PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
        try:
            if not read_request(<const uint8_t*>view.buf, view.len, allows_rack, &request):
                return None
            request.max_bytes = min(request.max_bytes, most_bytes)
            return self.take(<const uint8_t*>view.buf, &request, copied_bytes)
        except (StorageError, ClosedError):
            return None
        finally:
            PyBuffer_Release(&view)

    def set_max_wait(self, frame, int32_t max_wait_ms):
        """Change the time that a plain request may wait."""
        cdef Py_buffer view
        cdef Request request
        PyObject_GetBuffer(frame, &view, PyBUF_WRITABLE)
        try:
            if read_request(<const uint8_t*>view.buf, view.len, True, &request):
                tl_store32(<uint8_t*>view.buf + request.max_wait, <uint32_t>max_wait_ms)
        finally:
            PyBuffer_Release(&view)

    cdef object take(self, const uint8_t* p, const Request* request, Py_ssize_t copied_bytes):
        cdef ReadOffsets[MOST_PARTITIONS] offsets
        cdef PlainReads reads
        cdef const Wanted* wanted
        cdef int64_t left = max(request.max_bytes, 0)
        cdef int64_t total = 0
        cdef Py_ssize_t i
        cdef list partitions = []
        cdef list records = []
        for i in range(request.count):
            wanted = &request.wanted[i]
            key = self.partitions.key(
                p + wanted.topic, wanted.topic_bytes, wanted.index, request.header.version >= TOPIC_IDS
            )
            partition = self.partitions.get(key)
            if partition is None or (wanted.leader_epoch != -1 and wanted.leader_epoch != partition.leader_epoch):
                return None
            reads = partition.plain_reads
            if reads is None:
                self.partitions.forget(key)
                return None
            found = reads.read(
                wanted.offset, max(0, min(wanted.max_bytes, left)), request.is_committed, total == 0,
                copied_bytes, &offsets[i],
            )
            if found is None:
                return None
            total += len(found)
            left = max(0, left - <Py_ssize_t>len(found))
            partitions.append(partition)
            records.append(found)
        if request.count > 1 and len(set(partitions)) < request.count:
            return None
        return fetched(p, request, offsets, partitions, records, total)


cdef PlainFetched fetched(
    const uint8_t* p, const Request* request, const ReadOffsets* offsets, list partitions, list records, int64_t total
):
    cdef PlainFetched made = PlainFetched.__new__(PlainFetched)
    made.version, made.max_wait_ms, made.partitions = request.header.version, request.max_wait_ms, partitions
    if total >= request.min_bytes or request.max_wait_ms <= 0:
        made.parts = written(p, request, offsets, records, total)
    return made


cdef bint read_request(const uint8_t* p, Py_ssize_t size, bint allows_rack, Request* request) noexcept:
    """Read a frame. Return False unless it may be plain."""
    cdef Py_ssize_t at, topic
    cdef int64_t topics, length
    if not read_header(p, size, FETCH, FIRST_FLEXIBLE, LATEST, &request.header):
        return False
    at = request.header.body
    if request.header.version < REPLICA_STATE:
        if size - at < 4 or <int32_t>tl_load32(p + at) != CONSUMER:
            return False
        at += 4
    if size - at < 21:
        return False
    request.max_wait, request.max_wait_ms = at, <int32_t>tl_load32(p + at)
    request.max_bytes = <int32_t>tl_load32(p + at + 8)
    request.is_committed = p[at + 12] == COMMITTED
    request.min_bytes = min(<int64_t><int32_t>tl_load32(p + at + 4), request.max_bytes)
    if p[at + 12] > COMMITTED or request.min_bytes > 1:
        return False
    if tl_load32(p + at + 13) or <int32_t>tl_load32(p + at + 17) != NO_SESSION_EPOCH:
        return False
    request.count = 0
    at = read_length(p, size, at + 21, &topics)
    if at < 0 or not 0 < topics <= MOST_PARTITIONS:
        return False
    request.topics = topics
    for topic in range(topics):
        at = read_partitions(p, size, at, request)
        if at < 0:
            return False
    if at == size or p[at] != NO_ITEM:
        return False
    at = read_length(p, size, at + 1, &length)
    if at < 0 or length < 0 or size - at != length + 1 or (length and not allows_rack):
        return False
    return not p[size - 1] and tl_is_utf8(p + at, p + size - 1)


cdef Py_ssize_t read_partitions(const uint8_t* p, Py_ssize_t size, Py_ssize_t at, Request* request) noexcept:
    """Read a topic with its partitions. Return the position after it, or -1 if it is not plain."""
    cdef Wanted* wanted
    cdef const Wanted* before
    cdef Py_ssize_t topic, topic_bytes, first
    cdef int64_t count
    at = read_topic(p, size, at, request.header.version >= TOPIC_IDS, &topic)
    if at < 0:
        return -1
    topic_bytes, first = at - topic, request.count
    at = read_length(p, size, at, &count)
    if at < 0 or not 0 < count <= MOST_PARTITIONS - first or size - at < count * WANTED_BYTES + 1:
        return -1
    if first:
        before = &request.wanted[first - 1]
        if before.topic_bytes == topic_bytes and not memcmp(p + before.topic, p + topic, topic_bytes):
            return -1  # The general way puts both into one topic.
    while request.count < first + count:
        wanted = &request.wanted[request.count]
        wanted.topic, wanted.topic_bytes = topic, topic_bytes
        wanted.of_topic = count if request.count == first else 0
        wanted.index = <int32_t>tl_load32(p + at)
        wanted.leader_epoch = <int32_t>tl_load32(p + at + 4)
        wanted.offset = <int64_t>tl_load64(p + at + 8)
        wanted.max_bytes = <int32_t>tl_load32(p + at + 28)
        if <int32_t>tl_load32(p + at + 16) != -1 or p[at + 32]:  # the last fetched epoch, the tags
            return -1
        at += WANTED_BYTES
        request.count += 1
    return -1 if p[at] else at + 1


cdef list written(
    const uint8_t* p, const Request* request, const ReadOffsets* offsets, list records, int64_t total
):
    """Return the response in parts. Records are parts of their own."""
    cdef uint8_t[LARGEST_RESPONSE] buffer
    cdef Py_ssize_t[MOST_PARTITIONS] ends
    cdef const Wanted* wanted
    cdef Py_ssize_t at = 4
    cdef Py_ssize_t i
    cdef Py_ssize_t begin = 0
    cdef list parts = []
    memset(buffer, 0, 19)
    tl_store32(buffer + at, <uint32_t>request.header.correlation_id)
    at = write_length(buffer, 19, request.topics)  # tags, throttle time, error and session, all of them 0
    for i in range(request.count):
        wanted = &request.wanted[i]
        if wanted.of_topic:
            if i:
                buffer[at] = 0  # the tags of the topic before
                at += 1
            if request.header.version < TOPIC_IDS:
                at = write_length(buffer, at, wanted.topic_bytes)
            memcpy(buffer + at, p + wanted.topic, wanted.topic_bytes)
            at = write_length(buffer, at + wanted.topic_bytes, wanted.of_topic)
        at = write_result(buffer, at, request, wanted, &offsets[i], len(records[i]))
        ends[i] = at
        buffer[at] = 0  # the tags of the partition
        at += 1
    buffer[at] = buffer[at + 1] = 0  # the tags of the last topic and of the response
    at += 2
    tl_store32(buffer, <uint32_t>(at - 4 + total))
    for i in range(request.count):
        if records[i]:
            parts.append(PyBytes_FromStringAndSize(<char*>buffer + begin, ends[i] - begin))
            parts.append(records[i])
            begin = ends[i]
    parts.append(PyBytes_FromStringAndSize(<char*>buffer + begin, at - begin))
    return parts


cdef Py_ssize_t write_result(
    uint8_t* buffer, Py_ssize_t at, const Request* request, const Wanted* wanted, const ReadOffsets* offsets,
    Py_ssize_t size,
) noexcept:
    """Write a partition's result up to its records. Return the position after it."""
    tl_store32(buffer + at, <uint32_t>wanted.index)
    buffer[at + 4] = buffer[at + 5] = 0  # the error
    tl_store64(buffer + at + 6, <uint64_t>offsets.high_watermark)
    tl_store64(buffer + at + 14, <uint64_t>offsets.high_watermark)  # the last stable offset
    tl_store64(buffer + at + 22, <uint64_t>offsets.log_start)
    buffer[at + 30] = NO_ITEM if request.is_committed else 0  # no aborted transactions, or not asked for
    memset(buffer + at + 31, 0xff, 4)  # the preferred replica
    return write_length(buffer, at + 35, size)
