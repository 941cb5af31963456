# cython: boundscheck=False, wraparound=False, cdivision=True
"""Produce requests of the plain case, from the frame to the response in one call.

A request is plain if all of this holds:

- It has a flexible version (v9 to v13), no transactional id and no tagged fields, and wants acks.
- It has one batch for one partition, of which this broker is the only replica.
- That batch is plain, see ``_plain_append``.

Every other frame, valid or not, is left as it was to the general way (``server.handlers.data.produce``). A plain
response has the bytes of a general one. Source of the format: Kafka's ``ProduceRequest.json``, ``ProduceResponse.json``.
"""

from cpython.buffer cimport PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from tidelog.kernel._bytes cimport tl_load16, tl_load32, tl_store32, tl_store64
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

    def respond(self, frame):
        """Return the version of the request and the complete response, or None if the request is not plain.

        Raise StorageError, as an append does, and ForkError in a forked child.
        """
        cdef Py_buffer view
        cdef Request request
        PyObject_GetBuffer(frame, &view, PyBUF_WRITABLE)
        try:
            if not read_request(<const uint8_t*>view.buf, view.len, &request):
                return None
            return self.take(frame, <uint8_t*>view.buf, &request)
        finally:
            PyBuffer_Release(&view)

    cdef object take(self, frame, uint8_t* p, const Request* request):
        cdef PlainAppends appends
        key = self.partitions.key(
            p + request.topic, request.topic_bytes, request.index, request.version >= TOPIC_IDS
        )
        partition = self.partitions.get(key)
        if partition is None:
            return None
        appends = partition.plain_appends
        if appends is None:
            self.partitions.forget(key)
            return None
        result = appends.append_at(
            frame, p, request.records, request.records_bytes, partition.leader_epoch, self.now_ms(), True
        )
        if result is None:
            return None
        partition.check_delayed()
        return request.version, written(p, request, <tuple>result)


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


cdef bytes written(const uint8_t* p, const Request* request, tuple result):
    """Return the response, with its length and header first."""
    cdef uint8_t[LARGEST_RESPONSE] buffer
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
    tl_store64(buffer + at + 7, <uint64_t><int64_t>result[0])  # first offset, after the error code
    tl_store64(buffer + at + 15, <uint64_t><int64_t>result[4])  # log append time
    tl_store64(buffer + at + 23, <uint64_t><int64_t>result[2])  # log start
    buffer[at + 31] = NO_ITEM  # record errors
    at += 32 + 1 + 1 + 1 + 4 + 1  # no message, tags of the partition and the topic, throttle time, tags
    tl_store32(buffer, <uint32_t>(at - 4))
    return PyBytes_FromStringAndSize(<char*>buffer, at)
