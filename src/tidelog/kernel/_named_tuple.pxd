# Named tuples that are made field by field, without another tuple for the fields.
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

cdef extern from "Python.h":
    object PyType_GenericAlloc(type kind, Py_ssize_t items)


cdef inline void set_field(object made, Py_ssize_t field, object value):
    """Set a field that is not yet set, of a tuple that nothing else refers to."""
    Py_INCREF(value)
    PyTuple_SET_ITEM(made, field, value)
