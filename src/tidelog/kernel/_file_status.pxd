# The status of a file, and the check that it is none that this process has locked.
from libc.stdint cimport int64_t

cdef extern from "<sys/stat.h>" nogil:
    struct stat_t "stat":
        int st_mode
        int64_t st_size
        unsigned long long st_dev
        unsigned long long st_ino
    bint S_ISREG(int)


# ``held`` has the device and the inode of each locked file: to open and close one of them would release its lock.
cdef inline bint is_held(const stat_t* status, const unsigned long long* held, Py_ssize_t locks) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(locks):
        if held[2 * i] == status.st_dev and held[2 * i + 1] == status.st_ino:
            return True
    return False
