# cython: boundscheck=False, wraparound=False, cdivision=True
"""The survey of partition directories: names, sizes, small files, the ends of indexes and of the last segment.

Loading a log of a few segments is mostly system calls and small reads. One call does them for many directories without
the GIL, so that another thread can build the logs meanwhile. Anything unusual is left to the loader: a directory or a
file that cannot be read, a file above ``MOST_BYTES``, a segment whose end is not complete batches of format v2.
Thread rule: any thread.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc cimport errno as system
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset, strcmp, strlen

from os import fsencode

from tidelog.kernel._bytes cimport (
    PREFIX, V2_ATTRIBUTES, V2_CRC, V2_HEADER, V2_LAST_OFFSET_DELTA, V2_LENGTH, V2_MAGIC, tl_load32, tl_load64,
)
from tidelog.kernel._crc cimport crc32c_of
from tidelog.kernel._file_status cimport S_ISREG, is_held, stat_t

cdef extern from "Python.h":
    str PyUnicode_DecodeFSDefault(const char*)

cdef extern from "<dirent.h>" nogil:
    ctypedef struct DIR
    struct dirent:
        char d_name[256]
    DIR* opendir(const char*)
    dirent* readdir(DIR*)
    int closedir(DIR*)
    int dirfd(DIR*)

cdef extern from "<sys/stat.h>" nogil:
    int fstatat(int, const char*, stat_t*, int)

cdef extern from "<fcntl.h>" nogil:
    enum: O_RDONLY, O_NONBLOCK, O_CLOEXEC
    int openat(int, const char*, int)

cdef extern from "<unistd.h>" nogil:
    Py_ssize_t pread(int, void*, size_t, int64_t)
    int close(int)

cdef enum:
    MOST_BYTES = 4096
    TAIL_BYTES = 64 * 1024
    DIGITS = 20
    NOT_READ = -1
    INDEX_ENTRY = 8
    TIME_INDEX_ENTRY = 12

cdef struct Entry:
    Py_ssize_t name  # where the name begins in the arena; it ends with a zero
    int64_t size  # -1 for anything but a regular file
    Py_ssize_t content  # where the bytes begin in the arena, or NOT_READ
    Py_ssize_t content_size
    bint is_lock
    bint is_index

cdef struct Directory:
    int error
    Py_ssize_t first
    Py_ssize_t count
    int64_t end_offset

cdef struct Arena:
    char* bytes
    Py_ssize_t size
    Py_ssize_t room
    Entry* entries
    Py_ssize_t count
    Py_ssize_t entries_room


def survey_directories(list directories, list small_files, list locks, bint index_ends):
    """Return a tuple for each directory, or None if it cannot be listed.

    First comes a dict with the size of each file in bytes, -1 for anything but a regular file. Then comes a dict with the
    bytes of the files in ``small_files`` and of the newest producer snapshot, if they have at most 4096 bytes. The third
    is the end offset of the last segment, -1 if it is unknown. The last is a dict with the first and the last entry of
    each offset and time index, if ``index_ends``, else it is empty. A partial entry at the end of the file follows. An
    index of fewer entries is there completely.

    ``locks`` are the files that this process has locked, as (device, inode): to open and close one of them would release
    its lock.
    """
    cdef list paths = [fsencode(directory) for directory in directories]
    cdef list names = [fsencode(name) for name in small_files]
    cdef Py_ssize_t count = len(paths)
    cdef Py_ssize_t i
    cdef Arena arena
    cdef const char** path = NULL
    cdef const char** small = NULL
    cdef unsigned long long* held = NULL
    cdef Directory* found = NULL
    memset(&arena, 0, sizeof(Arena))
    try:
        path = <const char**>malloc((count + 1) * sizeof(char*))
        small = <const char**>malloc((len(names) + 1) * sizeof(char*))
        held = <unsigned long long*>malloc((2 * len(locks) + 1) * sizeof(unsigned long long))
        found = <Directory*>malloc((count + 1) * sizeof(Directory))
        if path == NULL or small == NULL or held == NULL or found == NULL:
            raise MemoryError()
        for i in range(count):
            path[i] = <const char*>(<bytes>paths[i])
        for i in range(len(names)):
            small[i] = <const char*>(<bytes>names[i])
        small[len(names)] = NULL
        for i in range(len(locks)):
            held[2 * i], held[2 * i + 1] = locks[i]
        if survey_all(path, count, small, held, len(locks), index_ends, &arena, found) < 0:
            raise MemoryError()
        return [None if found[i].error else surveyed(&arena, &found[i]) for i in range(count)]
    finally:
        for allocated in (<size_t>path, <size_t>small, <size_t>held, <size_t>found):
            free(<void*><size_t>allocated)
        free(arena.bytes)
        free(arena.entries)


cdef tuple surveyed(const Arena* arena, const Directory* directory):
    cdef dict sizes = {}
    cdef dict contents = {}
    cdef dict ends = {}
    cdef Py_ssize_t i
    cdef const Entry* entry
    for i in range(directory.first, directory.first + directory.count):
        entry = &arena.entries[i]
        name = PyUnicode_DecodeFSDefault(arena.bytes + entry.name)
        sizes[name] = entry.size
        if entry.content != NOT_READ:
            content = PyBytes_FromStringAndSize(arena.bytes + entry.content, entry.content_size)
            (ends if entry.is_index else contents)[name] = content
    return sizes, contents, directory.end_offset, ends


cdef int survey_all(
    const char** path, Py_ssize_t count, const char** small, const unsigned long long* held, Py_ssize_t locks,
    bint index_ends, Arena* arena, Directory* found
) noexcept:
    """Survey each directory. Return -1 if memory is lacking."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(count):
            if survey_one(path[i], small, held, locks, index_ends, arena, &found[i]) < 0:
                return -1
    return 0


cdef int survey_one(
    const char* path, const char** small, const unsigned long long* held, Py_ssize_t locks, bint index_ends,
    Arena* arena, Directory* found
) noexcept nogil:
    cdef DIR* opened = opendir(path)
    cdef dirent* listed
    cdef int done = 0
    found.first, found.count, found.error, found.end_offset = arena.count, 0, 0, -1
    if opened == NULL:
        found.error = system.errno
        return 0
    while True:
        system.errno = 0
        listed = readdir(opened)
        if listed == NULL:
            found.error = system.errno
            break
        if strcmp(listed.d_name, b".") and strcmp(listed.d_name, b".."):
            done = add_entry(arena, dirfd(opened), listed.d_name, held, locks, &found.error)
            if done < 0 or found.error:
                break
    found.count = arena.count - found.first
    if done == 0 and not found.error:
        done = read_files(arena, dirfd(opened), small, index_ends, found)
    closedir(opened)
    return done


cdef int add_entry(
    Arena* arena, int directory, const char* name, const unsigned long long* held, Py_ssize_t locks, int* error
) noexcept nogil:
    """Add a file with its size."""
    cdef stat_t status
    cdef Entry* entry
    cdef Py_ssize_t i
    if arena.count == arena.entries_room:
        arena.entries_room = 2 * arena.entries_room + 256
        entry = <Entry*>realloc(arena.entries, arena.entries_room * sizeof(Entry))
        if entry == NULL:
            return -1
        arena.entries = entry
    entry = &arena.entries[arena.count]
    entry.name, entry.size, entry.content, entry.is_lock, entry.is_index = arena.size, -1, NOT_READ, False, False
    if fstatat(directory, name, &status, 0):
        if system.errno != system.ENOENT and system.errno != system.ELOOP:
            error[0] = system.errno
            return 0
    elif S_ISREG(status.st_mode):
        entry.size = status.st_size
        entry.is_lock = is_held(&status, held, locks)
    if not reserve(arena, strlen(name) + 1):
        return -1
    memcpy(arena.bytes + arena.size, name, strlen(name) + 1)
    arena.size += strlen(name) + 1
    arena.count += 1
    return 0


cdef bint reserve(Arena* arena, Py_ssize_t size) noexcept nogil:
    """Make room for more bytes. Return False if memory is lacking."""
    cdef char* grown
    if arena.size + size > arena.room:
        arena.room = 2 * (arena.size + size) + 4096
        grown = <char*>realloc(arena.bytes, arena.room)
        if grown == NULL:
            return False
        arena.bytes = grown
    return True


cdef int read_files(
    Arena* arena, int directory, const char** small, bint index_ends, Directory* found
) noexcept nogil:
    """Read the small files, the newest snapshot, the ends of the indexes, and the end of the last segment."""
    cdef Entry* snapshot = newest(arena, found, b".snapshot")
    cdef Entry* log = newest(arena, found, b".log")
    cdef Py_ssize_t i, k
    if snapshot != NULL and read_entry(arena, directory, snapshot) < 0:
        return -1
    for i in range(found.first, found.first + found.count):
        if index_ends and read_index_ends(arena, directory, &arena.entries[i]) < 0:
            return -1
        k = 0
        while small[k] != NULL:
            if strcmp(arena.bytes + arena.entries[i].name, small[k]) == 0:
                if read_entry(arena, directory, &arena.entries[i]) < 0:
                    return -1
            k += 1
    if log != NULL:
        return read_end(arena, directory, found, log)
    return 0


cdef Entry* newest(Arena* arena, const Directory* found, const char* suffix) noexcept nogil:
    """Return the file with twenty digits before ``suffix`` whose number is the largest, or NULL."""
    cdef Entry* best = NULL
    cdef const char* name
    cdef Py_ssize_t i
    for i in range(found.first, found.first + found.count):
        name = arena.bytes + arena.entries[i].name
        if has_digits(name) and strcmp(name + DIGITS, suffix) == 0:
            if best == NULL or memcmp(name, arena.bytes + best.name, DIGITS) > 0:
                best = &arena.entries[i]
    return best


cdef bint has_digits(const char* name) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(DIGITS):
        if not c'0' <= name[i] <= c'9':
            return False
    return True


cdef int open_entry(const Arena* arena, int directory, const Entry* entry) noexcept nogil:
    """Open a regular file that is not a lock. Return -1 if that fails."""
    if entry.size < 0 or entry.is_lock:
        return -1
    return openat(directory, arena.bytes + entry.name, O_RDONLY | O_NONBLOCK | O_CLOEXEC)


cdef int read_entry(Arena* arena, int directory, Entry* entry) noexcept nogil:
    """Read a small file. It stays unread if it is larger, cannot be read or has another size now."""
    cdef int fd
    if entry.size > MOST_BYTES:
        return 0
    if not reserve(arena, MOST_BYTES + 1):
        return -1
    fd = open_entry(arena, directory, entry)
    if fd < 0:
        return 0
    if pread(fd, arena.bytes + arena.size, MOST_BYTES + 1, 0) == entry.size:
        keep(arena, entry, entry.size)
    close(fd)
    return 0


cdef void keep(Arena* arena, Entry* entry, Py_ssize_t size) noexcept nogil:
    """Keep the bytes that were read to the end of the arena."""
    entry.content, entry.content_size = arena.size, size
    arena.size += size


cdef int read_index_ends(Arena* arena, int directory, Entry* entry) noexcept nogil:
    """Read the first and the last entry of an index, with a partial entry after it. It stays unread if that fails."""
    cdef const char* name = arena.bytes + entry.name
    cdef Py_ssize_t unit = 0
    cdef Py_ssize_t head, tail
    cdef int fd
    if has_digits(name):
        unit = INDEX_ENTRY if strcmp(name + DIGITS, b".index") == 0 else 0
        unit = TIME_INDEX_ENTRY if strcmp(name + DIGITS, b".timeindex") == 0 else unit
    if unit == 0 or entry.size < 0:
        return 0
    entry.is_index = True
    if entry.size == 0:
        keep(arena, entry, 0)
        return 0
    if not reserve(arena, 4 * unit):
        return -1
    tail = min(entry.size, unit + entry.size % unit)
    head = min(entry.size - tail, unit)
    fd = open_entry(arena, directory, entry)
    if fd < 0:
        return 0
    if pread(fd, arena.bytes + arena.size, head, 0) == head:
        if pread(fd, arena.bytes + arena.size + head, tail + 1, entry.size - tail) == tail:
            keep(arena, entry, head + tail)
    close(fd)
    return 0


cdef int read_end(Arena* arena, int directory, Directory* found, const Entry* log) noexcept nogil:
    """Find the end offset of the last segment from its last index entry and the batches after it."""
    cdef int64_t base = number_of(arena.bytes + log.name)
    cdef int64_t start = 0
    cdef int fd
    if base < 0 or log.size < 0:
        return 0
    if log.size == 0:
        found.end_offset = base
        return 0
    if log.size > TAIL_BYTES:
        start = last_indexed(arena, directory, found, log)
        if start <= 0 or start >= log.size or log.size - start > TAIL_BYTES:
            return 0
    if not reserve(arena, TAIL_BYTES):
        return -1
    fd = open_entry(arena, directory, log)
    if fd < 0:
        return 0
    if pread(fd, arena.bytes + arena.size, log.size - start, start) == log.size - start:
        found.end_offset = end_of(<const uint8_t*>arena.bytes + arena.size, log.size - start, base, start > 0)
    close(fd)
    return 0


cdef int64_t number_of(const char* digits) noexcept nogil:
    """Return the number of twenty digits, or -1 if it is above 63 bits."""
    cdef unsigned long long number = 0
    cdef Py_ssize_t i
    if memcmp(digits, b"09223372036854775807", DIGITS) > 0:
        return -1
    for i in range(DIGITS):
        number = 10 * number + <unsigned long long>(digits[i] - c'0')
    return <int64_t>number


cdef int64_t last_indexed(const Arena* arena, int directory, const Directory* found, const Entry* log) noexcept nogil:
    """Return the position in the last entry of the segment's ``.index``, or -1."""
    cdef const Entry* entry
    cdef const char* name
    cdef uint8_t last[INDEX_ENTRY]
    cdef int64_t position = -1
    cdef Py_ssize_t i
    cdef int fd
    for i in range(found.first, found.first + found.count):
        entry = &arena.entries[i]
        name = arena.bytes + entry.name
        if has_digits(name) and memcmp(name, arena.bytes + log.name, DIGITS) == 0:
            if strcmp(name + DIGITS, b".index") == 0 and entry.size >= INDEX_ENTRY and entry.size % INDEX_ENTRY == 0:
                fd = open_entry(arena, directory, entry)
                if fd >= 0:
                    if pread(fd, last, INDEX_ENTRY, entry.size - INDEX_ENTRY) == INDEX_ENTRY:
                        position = <int32_t>tl_load32(last + 4)
                    close(fd)
    return position


cdef int64_t end_of(const uint8_t* p, int64_t size, int64_t base, bint checks_first) noexcept nogil:
    """Return the offset after the last batch, or -1 if the bytes are anything but complete batches of format v2.

    ``checks_first`` also requires that the first batch is valid, since its position comes from an index.
    """
    cdef int64_t end = -1
    cdef int64_t taken, first
    cdef int32_t delta
    while size:
        if size < V2_HEADER or p[V2_MAGIC] != 2:
            return -1
        taken = PREFIX + <int64_t><int32_t>tl_load32(p + V2_LENGTH)
        first, delta = <int64_t>tl_load64(p), <int32_t>tl_load32(p + V2_LAST_OFFSET_DELTA)
        if not V2_HEADER <= taken <= size or first < base or delta < 0 or first > INT64_MAX - delta - 1:
            return -1
        if checks_first and crc32c_of(p + V2_ATTRIBUTES, taken - V2_ATTRIBUTES, 0) != tl_load32(p + V2_CRC):
            return -1
        checks_first = False
        end = first + delta + 1
        p += taken
        size -= taken
    return end
