# cython: boundscheck=False, wraparound=False
"""The reading and the writing of a whole small file in one call each.

A start after a kill and a shutdown read and write a few small files for each partition. One by one, the system calls of
a file would each give up the interpreter's lock, and threads that share it would mostly wait for each other. Here the
lock is given up once a file.

``locks`` are the files that this process has locked, as (device, inode). To open and close one of them would release
its lock, so they are not opened. Thread rule: any thread.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc cimport errno as system
from libc.stdint cimport int64_t

from tidelog.kernel._file_status cimport S_ISREG, is_held, stat_t

cdef extern from "<sys/stat.h>" nogil:
    int fstat(int, stat_t*)
    int system_stat "stat" (const char*, stat_t*)

cdef extern from "<fcntl.h>" nogil:
    enum: O_RDONLY, O_RDWR, O_CREAT, O_NONBLOCK, O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW
    int system_open "open" (const char*, int, ...)

cdef extern from "<unistd.h>" nogil:
    Py_ssize_t system_pread "pread" (int, void*, size_t, int64_t)
    Py_ssize_t system_pwrite "pwrite" (int, const void*, size_t, int64_t)
    int ftruncate(int, int64_t)
    int fsync(int)
    int close(int)

cdef extern from "<stdio.h>" nogil:
    int rename(const char*, const char*)

cdef enum:
    FILE_MODE = 0o644
    MOST_LOCKS = 16

cdef struct Locks:
    unsigned long long[2 * MOST_LOCKS] held
    Py_ssize_t count

cdef enum Step:
    DONE, OPEN, WRITE, TRUNCATE, SYNC, CLOSE, RENAME, SYNC_DIRECTORY


def read_file(bytes path, buffer, list locks):
    """Read a regular file into ``buffer`` and return the number of its bytes there, or -1 if it cannot be read."""
    cdef const char* name = path
    cdef Locks held
    cdef Py_buffer view
    cdef Py_ssize_t done
    if not taken(locks, &held):
        return -1
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    with nogil:
        done = read_regular(name, <char*>view.buf, view.len, &held)
    PyBuffer_Release(&view)
    return done


cdef bint taken(list locks, Locks* held):
    """Copy the locks. Return False if there are too many."""
    cdef Py_ssize_t i
    held.count = len(locks)
    if held.count > MOST_LOCKS:
        return False
    for i in range(held.count):
        held.held[2 * i], held.held[2 * i + 1] = locks[i]
    return True


cdef Py_ssize_t read_regular(const char* path, char* data, Py_ssize_t size, const Locks* locks) noexcept nogil:
    cdef stat_t status
    cdef Py_ssize_t done = 0
    cdef Py_ssize_t count = 0
    cdef int fd
    if system_stat(path, &status) or not S_ISREG(status.st_mode) or is_held(&status, locks.held, locks.count):
        return -1
    fd = opened(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    if fd < 0:
        return -1
    while done < size:
        count = system_pread(fd, data + done, size - done, done)
        if count > 0:
            done += count
        elif count == 0 or system.errno != system.EINTR:
            break
    close(fd)
    return -1 if count < 0 else done


def write_file(bytes path, data, list locks):
    """Write ``data`` as the whole contents of a file, which is created if missing. Nothing is synced.

    Return the number of the step that failed with its errno, or (0, 0): 1 open, 2 write, 3 truncate, 4 sync, 5 close,
    6 rename, 7 sync the directory. The first one fails for anything but a regular file, and then nothing has changed.
    """
    return _write(path, data, NULL, NULL, locks)


def replace_file(bytes path, data, bytes temporary, bytes directory, list locks):
    """Write and sync ``temporary`` and rename it to ``path``. Then sync the directory, unless it is None.

    The result is that of ``write_file``. A link at the name of ``temporary`` is not followed.
    """
    cdef const char* synced_directory = NULL
    if directory is not None:
        synced_directory = directory
    return _write(temporary, data, path, synced_directory, locks)


cdef tuple _write(const char* path, data, const char* target, const char* directory, list locks):
    cdef Locks held
    cdef Py_buffer view
    cdef Step step
    cdef int error = 0
    if not taken(locks, &held):
        return OPEN, system.EBUSY
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    with nogil:
        step = written(path, view.buf, view.len, target != NULL, &held, &error)
        if step == DONE and target != NULL:
            step = renamed(path, target, directory, &error)
    PyBuffer_Release(&view)
    return step, error


cdef Step written(
    const char* path, const void* data, Py_ssize_t size, bint syncs, const Locks* locks, int* error
) noexcept nogil:
    cdef stat_t status
    cdef Step step
    cdef int fd
    if system_stat(path, &status) == 0 and is_held(&status, locks.held, locks.count):
        error[0] = system.EBUSY
        return OPEN
    fd = opened(path, O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC | (O_NOFOLLOW if syncs else 0))
    if fd < 0:
        error[0] = system.errno
        return OPEN
    step = filled(fd, data, size)
    if step == DONE and syncs and synced(fd):
        step = SYNC
    if step != DONE:
        error[0] = system.errno
    if close(fd) and step == DONE:
        error[0] = system.errno
        step = CLOSE
    return step


cdef Step filled(int fd, const void* data, Py_ssize_t size) noexcept nogil:
    """Write the contents and then truncate a larger file. To empty it first would make ext4 flush it at its close."""
    cdef stat_t status
    cdef Py_ssize_t done = 0
    cdef Py_ssize_t count
    if fstat(fd, &status):
        return OPEN
    if not S_ISREG(status.st_mode):
        system.errno = system.EINVAL
        return OPEN
    while done < size:
        count = system_pwrite(fd, <const char*>data + done, size - done, done)
        if count >= 0:
            done += count
        elif system.errno != system.EINTR:
            return WRITE
    while status.st_size > size and ftruncate(fd, size):
        if system.errno != system.EINTR:
            return TRUNCATE
    return DONE


cdef Step renamed(const char* path, const char* target, const char* directory, int* error) noexcept nogil:
    cdef Step step = DONE
    cdef int fd
    if rename(path, target):
        error[0] = system.errno
        return RENAME
    if directory == NULL:
        return DONE
    fd = opened(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if fd < 0:
        error[0] = system.errno
        return SYNC_DIRECTORY
    if synced(fd):
        error[0] = system.errno
        step = SYNC_DIRECTORY
    close(fd)
    return step


cdef int opened(const char* path, int flags) noexcept nogil:
    cdef int fd
    while True:
        fd = system_open(path, flags, FILE_MODE)
        if fd >= 0 or system.errno != system.EINTR:
            return fd


cdef bint synced(int fd) noexcept nogil:
    """Return True if the sync failed. Only a signal lets it try again: after an error the pages may be gone."""
    while fsync(fd):
        if system.errno != system.EINTR:
            return True
    return False
