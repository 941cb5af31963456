# cython: boundscheck=False, wraparound=False, cdivision=True
"""Produce requests of the plain case, from the frame to the response in one call.

Requests for one partition that have come together are one call, and one write. A request is plain if all of this holds:

- It has a flexible version (v9 to v13), no transactional id and no tagged fields, and wants acks.
- It has one batch for one partition, of which this broker is the only replica.
- That batch is plain, see ``_plain_append``.

Every other frame, valid or not, is left as it was to the general way (``server.handlers.data.produce``). A plain
response has the bytes of a general one. Source of the format: Kafka's ``ProduceRequest.json``, ``ProduceResponse.json``.
"""

from cpython.buffer cimport PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from tidelog.kernel._bytes cimport tl_load16, tl_load32, tl_store32, tl_store64
from tidelog.kernel._log_end cimport AppendedBatch
from tidelog.kernel._plain_append cimport PlainAppends
from tidelog.kernel._plain_request cimport (
    NO_ITEM, ONE_ITEM, PlainPartitions, RequestHeader, read_header, read_length, read_topic, write_length,
)

cdef enum:
    PRODUCE = 0
    FIRST_FLEXIBLE = 9
    TOPIC_IDS = 13
    INDEX_BYTES = 5  # the length of the array of partitions, and the only one's number
    LARGEST_RESPONSE = 340
    MOST_TOGETHER = 8

cdef struct Request:
    int version
    int32_t correlation_id
    int32_t index
    Py_ssize_t topic  # the position of the topic's name or id
    Py_ssize_t topic_bytes
    Py_ssize_t records
    Py_ssize_t records_bytes


cdef class PlainProduce:
    """The plain way of a broker's Produce requests.

    ``find`` is that of ``PlainPartitions``. It returns an object with ``plain_appends``, ``leader_epoch`` and
    ``check_delayed`` as ``Partition`` has them. ``now_ms`` is the clock of the logs.
    """

    cdef object now_ms
    cdef PlainPartitions partitions

    def __init__(self, find, now_ms):
        self.partitions, self.now_ms = PlainPartitions(find), now_ms

    def respond(self, frame, following):
        """Return the versions of the requests, and their complete responses. Return None if the first is not plain.

        ``following`` are the frames that have already come after it. As many of them are taken as are plain and for the
        same partition: their batches are written together. Raise StorageError, as an append does, and ForkError in a
        forked child.
        """
        cdef Py_buffer[MOST_TOGETHER] views
        cdef Request[MOST_TOGETHER] requests
        cdef AppendedBatch[MOST_TOGETHER] batches
        cdef Py_ssize_t i
        cdef Py_ssize_t held = 0
        cdef Py_ssize_t count = 0
        cdef list buffers = []
        try:
            PyObject_GetBuffer(frame, &views[0], PyBUF_WRITABLE)
            held = 1
            if not read_request(<const uint8_t*>views[0].buf, views[0].len, &requests[0]):
                return None
            count = 1
            if following:
                for later in following:
                    if held == MOST_TOGETHER:
                        break
                    PyObject_GetBuffer(later, &views[held], PyBUF_WRITABLE)
                    held += 1
                    if not read_request(<const uint8_t*>views[count].buf, views[count].len, &requests[count]):
                        break
                    if not are_for_one(views, requests, count):
                        break
                    count += 1
            for i in range(count):
                batches[i].p = <uint8_t*>views[i].buf + requests[i].records
                batches[i].size = requests[i].records_bytes
                whole = PyMemoryView_FromObject(frame if i == 0 else following[i - 1])
                buffers.append(whole[requests[i].records:requests[i].records + requests[i].records_bytes])
            return self.take(views, requests, batches, count, buffers[0] if count == 1 else buffers)
        finally:
            for i in range(held):
                PyBuffer_Release(&views[i])

    cdef object take(
        self, const Py_buffer* views, const Request* requests, AppendedBatch* batches, Py_ssize_t count, object buffers
    ):
        cdef PlainAppends appends
        cdef Py_ssize_t taken, i
        cdef const uint8_t* p = <const uint8_t*>views[0].buf
        key = self.partitions.key(
            p + requests[0].topic, requests[0].topic_bytes, requests[0].index, requests[0].version >= TOPIC_IDS
        )
        partition = self.partitions.get(key)
        if partition is None:
            return None
        appends = partition.plain_appends
        if appends is None:
            self.partitions.forget(key)
            return None
        taken = appends.append_run(buffers, batches, count, partition.leader_epoch, self.now_ms(), True)
        if not taken:
            return None
        partition.check_delayed()
        return [requests[i].version for i in range(taken)], written(
            views, requests, batches, taken, appends.offsets.log_start
        )


cdef bint are_for_one(const Py_buffer* views, const Request* requests, Py_ssize_t i) noexcept:
    """Return True if a request is for the partition of the first, and names it in the same way."""
    cdef const Request* first = &requests[0]
    return (
        requests[i].index == first.index
        and requests[i].topic_bytes == first.topic_bytes
        and (requests[i].version >= TOPIC_IDS) == (first.version >= TOPIC_IDS)
        and not memcmp(
            <const uint8_t*>views[i].buf + requests[i].topic, <const uint8_t*>views[0].buf + first.topic,
            first.topic_bytes,
        )
    )


cdef bint read_request(const uint8_t* p, Py_ssize_t size, Request* request) noexcept:
    """Read a frame. Return False unless it may be plain. INDEX_BYTES follow the topic then."""
    cdef RequestHeader header
    cdef Py_ssize_t at
    cdef int16_t acks
    cdef int64_t length
    if not read_header(p, size, PRODUCE, FIRST_FLEXIBLE, TOPIC_IDS, &header):
        return False
    request.version, request.correlation_id, at = header.version, header.correlation_id, header.body
    if size - at < 8 or p[at]:  # transactional id, acks, timeout and the number of topics
        return False
    acks = <int16_t>tl_load16(p + at + 1)
    if acks not in (-1, 1) or p[at + 7] != ONE_ITEM:
        return False
    at = read_topic(p, size, at + 8, request.version >= TOPIC_IDS, &request.topic)
    if at < 0 or size - at < INDEX_BYTES or p[at] != ONE_ITEM:
        return False
    request.topic_bytes = at - request.topic
    request.index = <int32_t>tl_load32(p + at + 1)
    at = read_length(p, size, at + INDEX_BYTES, &length)
    if at < 0 or length < 0 or size - at != length + 3:
        return False
    request.records, request.records_bytes = at, length
    return not (p[size - 3] or p[size - 2] or p[size - 1])  # tags of the partition, the topic and the request


cdef bytes written(
    const Py_buffer* views, const Request* requests, const AppendedBatch* batches, Py_ssize_t count, int64_t log_start
):
    """Return the responses, each with its length and header first."""
    cdef uint8_t[MOST_TOGETHER * LARGEST_RESPONSE] buffer
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t i
    for i in range(count):
        at += write_response(buffer + at, <const uint8_t*>views[i].buf, &requests[i], batches[i].first, log_start)
    return PyBytes_FromStringAndSize(<char*>buffer, at)


cdef Py_ssize_t write_response(
    uint8_t* buffer, const uint8_t* p, const Request* request, int64_t first_offset, int64_t log_start
) noexcept:
    """Write a response and return its size."""
    cdef Py_ssize_t at = 4
    memset(buffer, 0, LARGEST_RESPONSE)
    tl_store32(buffer + at, <uint32_t>request.correlation_id)
    buffer[at + 5] = ONE_ITEM
    at += 6
    if request.version < TOPIC_IDS:
        at = write_length(buffer, at, request.topic_bytes)
    memcpy(buffer + at, p + request.topic, request.topic_bytes)
    at += request.topic_bytes
    buffer[at] = ONE_ITEM
    tl_store32(buffer + at + 1, <uint32_t>request.index)
    tl_store64(buffer + at + 7, <uint64_t>first_offset)  # after the error code
    memset(buffer + at + 15, 0xff, 8)  # no log append time
    tl_store64(buffer + at + 23, <uint64_t>log_start)
    buffer[at + 31] = NO_ITEM  # record errors
    at += 32 + 1 + 1 + 1 + 4 + 1  # no message, tags of the partition and the topic, throttle time, tags
    tl_store32(buffer, <uint32_t>(at - 4))
    return at
