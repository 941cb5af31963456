/* Offsets whose keys came again, a bit each. So the cleaner need not hash and look up keys once more.
 *
 * States: *noting* while offsets ascend; *ended* after the first that does not, since an offset may then stand for
 * several records. In that state nothing is known: there is no first offset. Offsets beyond TL_MOST_NOTED_WORDS, or
 * without memory for their bit, are not noted. Then the bits are not complete: a bit that is not set proves nothing.
 * A key that was put without its offset being noted has the same effect, and a key that found no room although a later
 * offset was noted. So has data that was skipped: Kafka's cleaner may take data for aborted when it fills the map, and
 * not when it filters. If the bits are complete, a bit that is not set proves that the key did not come again.
 */
#ifndef TIDELOG_SUPERSEDED_H
#define TIDELOG_SUPERSEDED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TL_MOST_NOTED_WORDS ((size_t)1 << 20)
#define TL_FIRST_NOTED_WORDS ((size_t)1 << 10)

typedef struct {
    uint64_t *words;
    size_t count;    /* the number of words, all zeroed at allocation */
    int64_t first;   /* the offset of the first bit; -1 if no offset came yet */
    int64_t latest;  /* the latest offset */
    int ended;
    int complete;    /* 1 if each superseded offset from first to latest has its bit */
} tl_superseded;

/* Forget all offsets; keep the memory. */
static inline void tl_forget_superseded(tl_superseded *noted) {
    if (noted->count) memset(noted->words, 0, noted->count * sizeof *noted->words);
    noted->first = noted->latest = -1;
    noted->ended = 0;
    noted->complete = 1;
}

static inline int tl_room_for_word(tl_superseded *noted, size_t index) {
    size_t count = noted->count ? noted->count : TL_FIRST_NOTED_WORDS;
    uint64_t *words;
    if (index < noted->count) return 1;
    if (index >= TL_MOST_NOTED_WORDS) return 0;
    while (count <= index) count *= 2;
    if (!(words = realloc(noted->words, count * sizeof *words))) return 0;
    memset(words + noted->count, 0, (count - noted->count) * sizeof *words);
    noted->words = words;
    noted->count = count;
    return 1;
}

/* Note a key at `offset`; `before` is its previous offset, or -1. */
static inline void tl_note_superseded(tl_superseded *noted, int64_t before, int64_t offset) {
    size_t bit;
    if (noted->ended) return;
    if (offset <= noted->latest) {
        tl_forget_superseded(noted);
        noted->ended = 1;
        return;
    }
    noted->latest = offset;
    if (noted->first < 0) noted->first = offset;
    if (before < noted->first || before >= offset) return;
    bit = (size_t)(before - noted->first);
    if (tl_room_for_word(noted, bit >> 6))
        noted->words[bit >> 6] |= UINT64_C(1) << (bit & 63);
    else
        noted->complete = 0;
}

/* Pass a key at `offset` for which the map has no room. */
static inline void tl_pass_over(tl_superseded *noted, int64_t offset) {
    if (offset <= noted->latest) noted->complete = 0;
}

static inline int tl_is_superseded(const tl_superseded *noted, int64_t offset) {
    size_t bit = (size_t)(offset - noted->first);
    if (noted->first < 0 || offset < noted->first || bit >> 6 >= noted->count) return 0;
    return (int)(noted->words[bit >> 6] >> (bit & 63) & 1);
}

/* Return 1 if the key at `offset`, which was noted, certainly did not come again. */
static inline int tl_is_latest(const tl_superseded *noted, int64_t offset) {
    return noted->complete && noted->first >= 0 && offset >= noted->first && offset <= noted->latest &&
           !tl_is_superseded(noted, offset);
}

/* Return 1 if [offset, last] has exactly `records` superseded offsets. */
static inline int tl_all_superseded(const tl_superseded *noted, int64_t offset, int64_t last, int64_t records) {
    int64_t found = 0;
    size_t bit, end, step;
    uint64_t word;
    if (noted->first < 0 || last < noted->first) return 0;
    bit = offset > noted->first ? (size_t)(offset - noted->first) : 0;
    end = (size_t)(last - noted->first) + 1;
    if (end > noted->count << 6) end = noted->count << 6;
    for (; bit < end; bit += step) {
        step = 64 - (bit & 63);
        word = noted->words[bit >> 6] >> (bit & 63);
        if (step > end - bit) {
            step = end - bit;
            word &= (UINT64_C(1) << step) - 1;
        }
        found += __builtin_popcountll(word);
    }
    return found == records;
}

#endif
