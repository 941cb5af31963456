# cython: boundscheck=False, wraparound=False, cdivision=True
"""Counts, bytes and durations of requests: for each API, for each client, and around a service.

A broker with pages measures every request. In Python that took 2.5 µs of a small Produce request under load, because
the caches of the processor have other things then.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_Check
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef enum:
    KEPT = 1024

RECENT = KEPT


cdef class ApiTimes:
    """The requests of one API since the start."""

    cdef readonly int64_t count
    cdef readonly int64_t waiting
    cdef readonly int64_t done
    cdef readonly int64_t bytes_in
    cdef readonly int64_t bytes_out
    cdef readonly int64_t throttled
    cdef readonly int64_t throttle_ms
    cdef readonly double local_s
    cdef readonly double total_s
    cdef readonly double longest_s
    cdef double[KEPT] recent_s  # a ring

    def percentile_s(self, double share):
        """Return a percentile of the total times of the last ``RECENT`` requests; 0 without any."""
        recent = sorted([self.recent_s[i] for i in range(min(self.done, KEPT))])
        return recent[min(len(recent) - 1, int(share * len(recent)))] if recent else 0.0

    def response_is_ready(self, ClientRequests client, double total_s, reply, int throttle_ms):
        """Count a request that has waited. ``reply`` is None for a request without a response."""
        self.waiting -= 1
        self.add_reply(client, total_s, reply, throttle_ms)

    def has_failed(self):
        """Count a request that has waited and gets no response, because it was cancelled or has failed."""
        self.waiting -= 1

    cdef int add_request(self, ClientRequests client, Py_ssize_t size) except -1:
        client.count += 1
        client.bytes_in += size
        self.count += 1
        self.bytes_in += size
        return 0

    cdef int add_reply(self, ClientRequests client, double total_s, reply, int throttle_ms) except -1:
        cdef Py_ssize_t size = 0
        self.recent_s[self.done % KEPT] = total_s
        self.done += 1
        self.total_s += total_s
        if total_s > self.longest_s:
            self.longest_s = total_s
        if reply is not None:
            for part in <list>reply:
                size += len(part)
            client.bytes_out += size
            self.bytes_out += size
        if throttle_ms > 0:
            self.throttled += 1
            self.throttle_ms += throttle_ms
        return 0


cdef class ClientRequests:
    """The requests of one connection. ``api`` is the number of the last one's API, or -1. ``begun_s`` is the beginning
    of the last request that waits, by ``time.perf_counter``."""

    cdef readonly int64_t count
    cdef readonly int64_t bytes_in
    cdef readonly int64_t bytes_out
    cdef readonly double begun_s
    cdef readonly int api

    def __init__(self):
        self.api = -1


cdef class RequestMeter:
    """A service in front of another one, whose ``begin`` it calls.

    ``apis`` has the ``ApiTimes`` by numbers. ``add_api`` adds that of a number, and returns None for a number of no
    API. ``name`` is called with a client and its first frame. ``wait`` is called with an awaitable of a response, the
    times, the client, and the time of the beginning. ``begin`` returns its result.
    """

    cdef dict apis
    cdef object handle, add_api, name, wait

    def __init__(self, apis, handle, *, add_api, name, wait):
        self.apis, self.handle, self.add_api, self.name, self.wait = apis, handle, add_api, name, wait

    def begin(self, frame, client):
        """Handle a request as ``Service.begin`` does."""
        cdef Py_ssize_t size, i
        cdef double begun_s, spent_s
        cdef int throttle_ms
        cdef PyObject* known
        cdef ApiTimes times
        cdef ClientRequests requests
        cdef list sizes = None
        cdef int number = api_of(frame, &size)
        known = PyDict_GetItem(self.apis, number)
        if known == NULL:
            if self.add_api(number) is None:
                return self.handle(frame, client)  # which refuses it
            times = self.apis[number]
        else:
            times = <ApiTimes>known
        requests = client.requests
        if not requests.count:
            self.name(client, frame)
        requests.api = number
        times.add_request(requests, size)
        following = client.following
        if following:
            sizes = [len(one) for one in following]
        begun_s = now_s()
        reply = self.handle(frame, client)
        spent_s = now_s() - begun_s
        throttle_ms = client.throttle_ms
        if sizes is not None:
            for i in range(len(sizes) - len(following)):  # requests that were handled together with this one
                times.add_request(requests, sizes[i])
                times.local_s += spent_s
                times.add_reply(requests, spent_s, None, throttle_ms)
        times.local_s += spent_s
        if reply is None or PyList_Check(reply):
            times.add_reply(requests, spent_s, reply, throttle_ms)
            return reply
        requests.begun_s = begun_s
        times.waiting += 1
        return self.wait(reply, times, client, begun_s)


cdef int api_of(frame, Py_ssize_t* size) except -2:
    """Return the number of a frame's API, or -1 if there is none below 256. Set its size."""
    cdef Py_buffer view
    cdef const uint8_t* p
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t*>view.buf
        size[0] = view.len
        return p[1] if view.len > 1 and not p[0] else -1
    finally:
        PyBuffer_Release(&view)


cdef double now_s() noexcept:
    """Return the time of ``time.perf_counter``."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + now.tv_nsec * 1e-9
