# The numbers of faults.py, for the compiled kernels.

cdef enum:
    FAULT_NONE = 0
    FAULT_CRC = 1
    FAULT_HEADER = 2
    FAULT_RECORD_COUNT = 3
    FAULT_RECORD_LENGTH = 4
    FAULT_TIMESTAMP = 5
    FAULT_OFFSET = 6
    FAULT_KEY = 7
    FAULT_VALUE = 8
    FAULT_HEADER_COUNT = 9
    FAULT_HEADER_KEY = 10
    FAULT_HEADER_VALUE = 11
    FAULT_RECORD_END = 12
    FAULT_BATCH_END = 13
