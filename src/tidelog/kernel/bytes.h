/* Loads, stores and varints over raw bytes: big endian as Kafka writes them, on any host.
 *
 * Only the varint readers check bounds: they take the end of the readable bytes. Every other caller has proved
 * `length <= end - p` before it loads. The comparison has this form because `p + length` may wrap.
 */
#ifndef TIDELOG_BYTES_H
#define TIDELOG_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Copy n bytes. If the source is readable that far, short ones are copied as one block of TL_SLACK bytes: several
 * times faster than a call. So `to` must have room for n bytes and TL_SLACK more. A NULL end forbids reading past n. */
#define TL_SLACK 16
static inline void tl_copy(uint8_t *to, const uint8_t *from, size_t n, const uint8_t *readable_end) {
    if (n <= TL_SLACK && readable_end != NULL && readable_end - from >= TL_SLACK)
        memcpy(to, from, TL_SLACK);
    else
        memcpy(to, from, n);
}

static inline uint16_t tl_load16(const uint8_t *p) { return (uint16_t)((uint16_t)p[0] << 8 | p[1]); }

static inline uint32_t tl_load32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint64_t tl_load64(const uint8_t *p) { return (uint64_t)tl_load32(p) << 32 | tl_load32(p + 4); }

static inline void tl_store16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline void tl_store32(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static inline void tl_store64(uint8_t *p, uint64_t v) {
    tl_store32(p, (uint32_t)(v >> 32));
    tl_store32(p + 4, (uint32_t)v);
}

/* Two's complement sums that wrap as Java's do, without C's undefined overflow. */
static inline int64_t tl_add64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t tl_sub64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

static inline int32_t tl_unzigzag32(uint32_t v) { return (int32_t)((v >> 1) ^ (0u - (v & 1u))); }
static inline int64_t tl_unzigzag64(uint64_t v) { return (int64_t)((v >> 1) ^ (UINT64_C(0) - (v & 1u))); }
static inline uint32_t tl_zigzag32(int32_t v) { return ((uint32_t)v << 1) ^ (0u - ((uint32_t)v >> 31)); }
static inline uint64_t tl_zigzag64(int64_t v) {
    return ((uint64_t)v << 1) ^ (UINT64_C(0) - ((uint64_t)v >> 63));
}

/* Zigzag varints. They return the bytes used, or 0 if the bytes end or the varint is too long for its type (5 bytes
 * for an int, 10 for a long). As in Kafka's ByteUtils, the last byte's bits beyond the type's width are dropped. */
static inline int tl_varint(const uint8_t *p, const uint8_t *end, int32_t *out) {
    ptrdiff_t room = end - p;
    uint32_t v = 0;
    int i;
    if (room > 0 && p[0] < 0x80) {
        *out = tl_unzigzag32(p[0]);
        return 1;
    }
    for (i = 0; i < 5 && i < room; i++) {
        v |= (uint32_t)(p[i] & 0x7f) << (7 * i);
        if (p[i] < 0x80) {
            *out = tl_unzigzag32(v);
            return i + 1;
        }
    }
    return 0;
}

static inline int tl_varlong(const uint8_t *p, const uint8_t *end, int64_t *out) {
    ptrdiff_t room = end - p;
    uint64_t v = 0;
    int i;
    if (room > 0 && p[0] < 0x80) {
        *out = tl_unzigzag64(p[0]);
        return 1;
    }
    for (i = 0; i < 10 && i < room; i++) {
        v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
        if (p[i] < 0x80) {
            *out = tl_unzigzag64(v);
            return i + 1;
        }
    }
    return 0;
}

static inline int tl_size_varlong(int64_t value) {
    uint64_t v = tl_zigzag64(value);
    int n = 1;
    while (v >= 0x80) {
        v >>= 7;
        n++;
    }
    return n;
}

static inline int tl_size_varint(int32_t value) {
    uint32_t v = tl_zigzag32(value);
    return 1 + (v >= 0x80) + (v >= 0x4000) + (v >= 0x200000) + (v >= 0x10000000);
}

/* Writers return the position after the written bytes; the caller has made room for 5 or 10 bytes. */
static inline uint8_t *tl_put_varint(uint8_t *p, int32_t value) {
    uint32_t v = tl_zigzag32(value);
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

static inline uint8_t *tl_put_varlong(uint8_t *p, int64_t value) {
    uint64_t v = tl_zigzag64(value);
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* Return 1 if the bytes are UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). */
static inline int tl_is_utf8(const uint8_t *p, const uint8_t *end) {
    while (p < end) {
        uint8_t lead = *p++, low = 0x80, high = 0xbf;
        int more;
        if (lead < 0x80) continue;
        if (lead < 0xc2 || lead > 0xf4) return 0;
        more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
        if (end - p < more) return 0;
        for (; more; more--, p++, low = 0x80, high = 0xbf)
            if (*p < low || *p > high) return 0;
    }
    return 1;
}

#endif
