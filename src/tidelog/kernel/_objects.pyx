# cython: boundscheck=True, wraparound=False, cdivision=True
"""Python objects from columns: the bytes of each row, and named tuples of several columns.

The kernel creates objects, so it holds the GIL. Thread rule: any thread.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM, PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint8_t

from tidelog.kernel._named_tuple cimport PyType_GenericAlloc, set_field


def byte_strings(data, const int32_t[:] offsets, validity, Py_ssize_t start, Py_ssize_t end):
    """Return a list with the bytes of each row in [start, end), None for a null.

    Row i is ``data[offsets[i]:offsets[i + 1]]``. ``validity`` is a bitmap, least significant bit first, or None without
    nulls. Raise ValueError if a row does not lie within its column, or within the data.
    """
    cdef const uint8_t[:] bits
    cdef bint has_nulls = validity is not None
    cdef Py_buffer view
    cdef Py_ssize_t row
    cdef int32_t first, last
    cdef object value
    if not 0 <= start <= end < offsets.shape[0]:
        raise ValueError(f"rows [{start}:{end}] of {offsets.shape[0] - 1}")
    if has_nulls:
        bits = validity
        if bits.shape[0] < (end + 7) // 8:
            raise ValueError(f"{bits.shape[0]} bytes of validity for {end} rows")
    found = PyList_New(end - start)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for row in range(start, end):
            first, last = offsets[row], offsets[row + 1]
            if not 0 <= first <= last <= view.len:
                raise ValueError(f"row {row} has the bytes [{first}:{last}] of {view.len}")
            if has_nulls and not bits[row >> 3] >> (row & 7) & 1:
                value = None
            else:
                value = PyBytes_FromStringAndSize(<const char*>view.buf + first, last - first)
            Py_INCREF(value)
            PyList_SET_ITEM(found, row - start, value)
    finally:
        PyBuffer_Release(&view)
    return found


def named_tuples(type kind not None, *columns):
    """Return a list of ``kind``, a subclass of tuple: entry i has the i-th object of each list in ``columns``.

    Raise ValueError if the lists' lengths differ or there are none, TypeError for another type of ``kind`` or a column.
    """
    cdef Py_ssize_t fields = len(columns), count, row, field
    cdef list column
    cdef object made
    if not issubclass(kind, tuple):
        raise TypeError(f"{kind.__name__} is not a tuple")
    if len({len(<list?>column) for column in columns}) != 1:
        raise ValueError(f"columns of {', '.join(str(len(column)) for column in columns) or 'no'} objects")
    count = len(columns[0])
    found = PyList_New(count)
    for row in range(count):
        made = PyType_GenericAlloc(kind, fields)
        for field in range(fields):
            set_field(made, field, <object>PyList_GET_ITEM(columns[field], row))
        Py_INCREF(made)
        PyList_SET_ITEM(found, row, made)
    return found
