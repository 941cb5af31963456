/* A library to load before a process: it writes the names of the calls that change a watched directory to a file, and
   lets one of them fail. WATCHED is the directory, CALLS the file. FAILING is the name of the call that fails and ERRNO
   its error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int watched(const char *path) {
    const char *directory = getenv("WATCHED");
    return directory != NULL && strncmp(path, directory, strlen(directory)) == 0;
}

static int watched_fd(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    return watched(path);
}

/* Note a call. Return true if it is to fail. */
static int failing(const char *name, const char *path) {
    const char *wanted = getenv("FAILING");
    FILE *calls = fopen(getenv("CALLS"), "a");
    fprintf(calls, "%s %s\n", name, strrchr(path, '/') + 1);
    fclose(calls);
    if (wanted == NULL || strcmp(wanted, name) != 0)
        return 0;
    errno = atoi(getenv("ERRNO"));
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_FD(type, name, shown, parameters, arguments)                                                                \
    type name parameters {                                                                                             \
        char path[PATH_MAX];                                                                                           \
        return watched_fd(fd, path) && failing(shown, path) ? -1 : REAL(name) arguments;                               \
    }

ON_FD(ssize_t, pwrite, "pwrite", (int fd, const void *data, size_t size, off_t position), (fd, data, size, position))
ON_FD(int, ftruncate, "ftruncate", (int fd, off_t size), (fd, size))
ON_FD(int, fsync, "fsync", (int fd), (fd))
#ifdef __GLIBC__ /* its names for callers with large offsets */
ON_FD(ssize_t, pwrite64, "pwrite", (int fd, const void *data, size_t size, off64_t position),
      (fd, data, size, position))
ON_FD(int, ftruncate64, "ftruncate", (int fd, off64_t size), (fd, size))
#endif

int rename(const char *path, const char *target) {
    return watched(path) && failing("rename", path) ? -1 : REAL(rename)(path, target);
}
