# cython: boundscheck=False, wraparound=False, cdivision=True
"""The partitions that plain requests name, found by the bytes of the request.

``_plain_request.pxd`` has the parts of a frame that plain requests share.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy

from tidelog.kernel._bytes cimport tl_load32, tl_store32

cdef enum:
    BESIDES_TOPIC = 5  # the partition's number, and a byte that tells ids from names
    MOST_PARTITIONS = 4096


cdef class PlainPartitions:
    """``find`` takes a topic's id or name as bytes, True if it is an id, and a partition's number. It returns the
    partition, or None. A partition that it has found is kept until ``forget``."""

    def __init__(self, find):
        self.find = find
        self.known = {}

    cdef object key(self, const uint8_t* topic, Py_ssize_t topic_bytes, int32_t index, bint is_id):
        cdef object made = PyBytes_FromStringAndSize(NULL, topic_bytes + BESIDES_TOPIC)
        cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(made)
        memcpy(p, topic, topic_bytes)
        tl_store32(p + topic_bytes, <uint32_t>index)
        p[topic_bytes + 4] = is_id
        return made

    cdef object get(self, bytes key):
        """Return the partition with a key, or None."""
        cdef PyObject* known = PyDict_GetItem(self.known, key)
        cdef Py_ssize_t topic_bytes
        cdef const uint8_t* end
        if known != NULL:
            return <object>known
        topic_bytes = len(key) - BESIDES_TOPIC
        end = <const uint8_t*>PyBytes_AS_STRING(key) + topic_bytes
        found = self.find(key[:topic_bytes], bool(end[4]), <int32_t>tl_load32(end))
        if found is not None:
            if len(self.known) >= MOST_PARTITIONS:
                self.known.clear()
            self.known[key] = found
        return found

    cdef int forget(self, bytes key) except -1:
        self.known.pop(key, None)
        return 0
