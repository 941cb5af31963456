/* Large zeroed memory for tables that are read at random. On Linux it uses huge pages if the system has them: a page
 * fault and an address lookup for every 4 KiB would cost more than the lookups in the table. Pages that were never
 * written take no memory.
 */
#ifndef TIDELOG_ZEROED_H
#define TIDELOG_ZEROED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#define TL_HUGE ((size_t)2 << 20)

typedef struct {
    void *data;
    void *mapping; /* NULL: from calloc */
    size_t mapping_size;
} tl_zeroed;

/* Return 0 if there is no memory. */
static inline int tl_zeroed_take(tl_zeroed *memory, size_t size) {
    memory->mapping = NULL;
    memory->mapping_size = 0;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size >= 2 * TL_HUGE && size < SIZE_MAX - TL_HUGE) {
        size_t whole = size + TL_HUGE;
        void *mapping = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping == MAP_FAILED) return 0;
        memory->mapping = mapping;
        memory->mapping_size = whole;
        memory->data = (void *)(((uintptr_t)mapping + TL_HUGE - 1) & ~(uintptr_t)(TL_HUGE - 1));
        (void)madvise(memory->data, size, MADV_HUGEPAGE); /* only a hint */
        return 1;
    }
#endif
    memory->data = calloc(1, size);
    return memory->data != NULL;
}

static inline void tl_zeroed_free(tl_zeroed *memory) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (memory->mapping) {
        munmap(memory->mapping, memory->mapping_size);
        memory->mapping = NULL;
        memory->data = NULL;
    }
#endif
    free(memory->data);
    memory->data = NULL;
}

#endif
