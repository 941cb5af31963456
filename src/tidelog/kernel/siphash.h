/* SipHash with a 128-bit key and a 128-bit result: a keyed hash that cannot be predicted without the key.
 *
 * The offset map uses 1 round per word and 3 at the end, as hash tables in other systems do. The number of rounds is a
 * parameter, so that tests can compare the code with the published vectors for 2 and 4. A round is a macro, because
 * siphash_lanes.h has a key in each lane of a vector.
 */
#ifndef TIDELOG_SIPHASH_H
#define TIDELOG_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t low, high;
} tl_hash128;

#define TL_WORD_ROUNDS 1
#define TL_END_ROUNDS 3

#define TL_ROTATE(x, bits) ((x) << (bits) | (x) >> (64 - (bits)))
#define TL_SIP_ROUND(v) \
    do { \
        v[0] += v[1]; \
        v[2] += v[3]; \
        v[1] = TL_ROTATE(v[1], 13) ^ v[0]; \
        v[3] = TL_ROTATE(v[3], 16) ^ v[2]; \
        v[0] = TL_ROTATE(v[0], 32) + v[3]; \
        v[2] += v[1]; \
        v[1] = TL_ROTATE(v[1], 17) ^ v[2]; \
        v[3] = TL_ROTATE(v[3], 21) ^ v[0]; \
        v[2] = TL_ROTATE(v[2], 32); \
    } while (0)

/* Load n <= 8 bytes, least significant first; compilers turn this form into single loads. */
static inline uint64_t tl_little32(const uint8_t *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

static inline uint64_t tl_little64(const uint8_t *p, size_t n) {
    if (n == 8) return tl_little32(p) | tl_little32(p + 4) << 32;
    if (n >= 4) return tl_little32(p) | tl_little32(p + n - 4) << 8 * (n - 4);
    if (n == 0) return 0;
    return (uint64_t)p[0] | (uint64_t)p[n >> 1] << 8 * (n >> 1) | (uint64_t)p[n - 1] << 8 * (n - 1);
}

static inline void tl_sip_start(uint64_t v[4], uint64_t key_low, uint64_t key_high) {
    v[0] = key_low ^ UINT64_C(0x736f6d6570736575);
    v[1] = key_high ^ UINT64_C(0x646f72616e646f6d) ^ 0xee;
    v[2] = key_low ^ UINT64_C(0x6c7967656e657261);
    v[3] = key_high ^ UINT64_C(0x7465646279746573);
}

static inline void tl_sip_rounds(uint64_t v[4], int rounds) {
    for (; rounds; rounds--) TL_SIP_ROUND(v);
}

static inline tl_hash128 tl_siphash(
    uint64_t key_low, uint64_t key_high, const uint8_t *p, size_t n, int word_rounds, int end_rounds
) {
    uint64_t v[4], word;
    size_t left = n;
    tl_hash128 hash;
    tl_sip_start(v, key_low, key_high);
    for (; left >= 8; p += 8, left -= 8) {
        word = tl_little64(p, 8);
        v[3] ^= word;
        tl_sip_rounds(v, word_rounds);
        v[0] ^= word;
    }
    word = (uint64_t)n << 56 | (left ? tl_little64(p, left) : 0);
    v[3] ^= word;
    tl_sip_rounds(v, word_rounds);
    v[0] ^= word;
    v[2] ^= 0xee;
    tl_sip_rounds(v, end_rounds);
    hash.low = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    tl_sip_rounds(v, end_rounds);
    hash.high = v[0] ^ v[1] ^ v[2] ^ v[3];
    return hash;
}

#endif
