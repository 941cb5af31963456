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
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from tidelog.kernel._bytes cimport tl_is_utf8, tl_load16, tl_load32, tl_store32, tl_store64
from tidelog.kernel._plain_append cimport PlainAppends

cdef enum:
    PRODUCE = 0
    FIRST_FLEXIBLE = 9
    TOPIC_IDS = 13
    NO_ITEM = 1  # the lengths of compact arrays and strings count one more
    ONE_ITEM = 2
    UP_TO_CLIENT_ID = 10
    ID_BYTES = 16
    LONGEST_NAME = 249
    INDEX_BYTES = 5  # the length of the array of partitions, and the only one's number
    LARGEST_RESPONSE = 340
    MOST_PARTITIONS = 4096

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

    ``find`` takes a topic's name, or None, its id, or None (both are bytes), and a partition's number. It returns an
    object with ``plain_appends``, ``leader_epoch`` and ``check_delayed`` as ``Partition`` has them, or None. ``now_ms``
    is the clock of the logs.
    """

    cdef object find, now_ms
    cdef dict partitions

    def __init__(self, find, now_ms):
        self.find, self.now_ms = find, now_ms
        self.partitions = {}

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
        key = PyBytes_FromStringAndSize(<char*>p + request.topic, request.topic_bytes + INDEX_BYTES)
        partition = self.partition_of(key, request)
        if partition is None:
            return None
        appends = partition.plain_appends
        if appends is None:
            self.partitions.pop(key, None)
            return None
        result = appends.append_at(
            frame, p, request.records, request.records_bytes, partition.leader_epoch, self.now_ms(), True
        )
        if result is None:
            return None
        partition.check_delayed()
        return request.version, written(p, request, <tuple>result)

    cdef object partition_of(self, key, const Request* request):
        cdef PyObject* known = PyDict_GetItem(self.partitions, key)
        if known != NULL:
            return <object>known
        topic = key[:request.topic_bytes]
        if request.version >= TOPIC_IDS:
            found = self.find(None, topic, request.index)
        else:
            found = self.find(topic, None, request.index)
        if found is not None:
            if len(self.partitions) >= MOST_PARTITIONS:
                self.partitions.clear()
            self.partitions[key] = found
        return found


cdef bint read_request(const uint8_t* p, Py_ssize_t size, Request* request) noexcept:
    """Read a frame. Return False unless it may be plain. INDEX_BYTES follow the topic then."""
    cdef Py_ssize_t at = UP_TO_CLIENT_ID
    cdef int16_t client_bytes, acks
    cdef int64_t length
    if size < UP_TO_CLIENT_ID or tl_load16(p) != PRODUCE:
        return False
    request.version = tl_load16(p + 2)
    if not FIRST_FLEXIBLE <= request.version <= TOPIC_IDS:
        return False
    request.correlation_id = <int32_t>tl_load32(p + 4)
    client_bytes = <int16_t>tl_load16(p + 8)
    if client_bytes < -1:
        return False
    at += max(client_bytes, 0)
    if size - at < 9 or p[at] or p[at + 1]:  # tags of the header, transactional id
        return False
    if client_bytes > 0 and not tl_is_utf8(p + UP_TO_CLIENT_ID, p + at):
        return False
    acks = <int16_t>tl_load16(p + at + 2)
    if acks not in (-1, 1) or p[at + 8] != ONE_ITEM:
        return False
    at += 9
    if request.version >= TOPIC_IDS:
        length = ID_BYTES
    else:
        at = read_length(p, size, at, &length)
        if at < 0 or not 0 < length <= LONGEST_NAME:
            return False
    if size - at < length + INDEX_BYTES or p[at + length] != ONE_ITEM:
        return False
    request.topic, request.topic_bytes = at, length
    request.index = <int32_t>tl_load32(p + at + length + 1)
    at = read_length(p, size, at + length + INDEX_BYTES, &length)
    if at < 0 or length < 0 or size - at != length + 3:
        return False
    request.records, request.records_bytes = at, length
    return not (p[size - 3] or p[size - 2] or p[size - 1])  # tags of the partition, the topic and the request


cdef Py_ssize_t read_length(const uint8_t* p, Py_ssize_t size, Py_ssize_t at, int64_t* length) noexcept:
    """Read a compact length. Return the position after it, or -1 if it is incomplete or longer than usual."""
    cdef uint64_t value = 0
    cdef int shift = 0
    while at < size and shift <= 28:
        value |= <uint64_t>(p[at] & 0x7F) << shift
        at += 1
        if p[at - 1] < 0x80:
            length[0] = <int64_t>value - 1
            return at
        shift += 7
    return -1


cdef bytes written(const uint8_t* p, const Request* request, tuple result):
    """Return the response, with its length and header first."""
    cdef uint8_t[LARGEST_RESPONSE] buffer
    cdef Py_ssize_t at = 4
    cdef Py_ssize_t length = request.topic_bytes + 1
    memset(buffer, 0, LARGEST_RESPONSE)
    tl_store32(buffer + at, <uint32_t>request.correlation_id)
    buffer[at + 5] = ONE_ITEM
    at += 6
    if request.version < TOPIC_IDS:
        if length < 0x80:
            buffer[at] = <uint8_t>length
        else:
            buffer[at], buffer[at + 1] = <uint8_t>(length & 0x7F | 0x80), <uint8_t>(length >> 7)
            at += 1
        at += 1
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
