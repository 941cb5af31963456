/* SipHash-1-3 of several keys at once, a key in each lane of a vector; siphash.h has the algorithm.
 *
 * The lanes take the same number of steps, so the keys of a call need the same number of whole words. Keys of a topic
 * usually have it. The CPU is checked for the vectors when the module is loaded. On ARM, whose vectors have two lanes,
 * keys are hashed one after the other.
 */
#ifndef TIDELOG_SIPHASH_LANES_H
#define TIDELOG_SIPHASH_LANES_H

#include "siphash.h"

#define TL_MOST_LANES 8

static inline void tl_siphash_each(
    uint64_t key_low, uint64_t key_high, const uint8_t *const *keys, const int32_t *lengths, int count, tl_hash128 *hashes
) {
    int i;
    for (i = 0; i < count; i++)
        hashes[i] = tl_siphash(key_low, key_high, keys[i], (size_t)lengths[i], TL_WORD_ROUNDS, TL_END_ROUNDS);
}

#if defined(__GNUC__) && defined(__x86_64__)
typedef uint64_t tl_lanes8 __attribute__((vector_size(64)));
typedef uint64_t tl_lanes4 __attribute__((vector_size(32)));

/* The function is written once for both widths, since a vector's type is known to the compiler only. */
#define TL_SIPHASH_OF_LANES(NAME, VECTOR, LANES) \
    static void NAME( \
        uint64_t key_low, uint64_t key_high, const uint8_t *const *keys, const int32_t *lengths, tl_hash128 *hashes \
    ) { \
        VECTOR zero = {0}, word = zero, low, high, v[4]; \
        uint64_t start[4]; \
        int words = lengths[0] >> 3, k, i; \
        tl_sip_start(start, key_low, key_high); \
        for (i = 0; i < 4; i++) v[i] = zero + start[i]; \
        for (k = 0; k <= words; k++) { \
            for (i = 0; i < LANES; i++) \
                word[i] = k < words ? tl_little64(keys[i] + 8 * k, 8) \
                                    : (uint64_t)lengths[i] << 56 | tl_little64(keys[i] + 8 * k, lengths[i] & 7); \
            v[3] ^= word; \
            for (i = 0; i < TL_WORD_ROUNDS; i++) TL_SIP_ROUND(v); \
            v[0] ^= word; \
        } \
        v[2] ^= zero + 0xee; \
        for (i = 0; i < TL_END_ROUNDS; i++) TL_SIP_ROUND(v); \
        low = v[0] ^ v[1] ^ v[2] ^ v[3]; \
        v[1] ^= zero + 0xdd; \
        for (i = 0; i < TL_END_ROUNDS; i++) TL_SIP_ROUND(v); \
        high = v[0] ^ v[1] ^ v[2] ^ v[3]; \
        for (i = 0; i < LANES; i++) { \
            hashes[i].low = low[i]; \
            hashes[i].high = high[i]; \
        } \
    }

__attribute__((target("avx512f,avx512vl,avx512dq"))) TL_SIPHASH_OF_LANES(tl_siphash_8, tl_lanes8, 8)
__attribute__((target("avx2"))) TL_SIPHASH_OF_LANES(tl_siphash_4, tl_lanes4, 4)

static int tl_lanes_of_this_cpu(void) {
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) return 8;
    return __builtin_cpu_supports("avx2") ? 4 : 1;
}

/* Hash `count` keys, at most TL_MOST_LANES, with vectors of `lanes` keys. */
static inline void tl_siphash_by_lanes(
    int lanes, uint64_t key_low, uint64_t key_high, const uint8_t *const *keys, const int32_t *lengths, int count,
    tl_hash128 *hashes
) {
    int i, done = 0, alike = 1;
    for (i = 1; i < count; i++) alike &= lengths[i] >> 3 == lengths[0] >> 3;
    for (; alike && lanes > 1 && count - done >= lanes; done += lanes) {
        if (lanes == 8)
            tl_siphash_8(key_low, key_high, keys + done, lengths + done, hashes + done);
        else
            tl_siphash_4(key_low, key_high, keys + done, lengths + done, hashes + done);
    }
    tl_siphash_each(key_low, key_high, keys + done, lengths + done, count - done, hashes + done);
}
#else
static int tl_lanes_of_this_cpu(void) { return 1; }

static inline void tl_siphash_by_lanes(
    int lanes, uint64_t key_low, uint64_t key_high, const uint8_t *const *keys, const int32_t *lengths, int count,
    tl_hash128 *hashes
) {
    (void)lanes;
    tl_siphash_each(key_low, key_high, keys, lengths, count, hashes);
}
#endif

#endif
