/* LZ4 as Kafka's clients write it: frames of independent blocks, without checksums and sizes. The codec's library reads
 * all other frames, and damaged ones too. It reports their errors, so this code reports none.
 *
 *     04 22 4D 18 | 60 | 40, 50, 60 or 70: largest block | header checksum | blocks | end mark 00 00 00 00
 *     block: size uint32 (top bit: its bytes are plain), sequences (little endian)
 *     sequence: token (literals << 4 | match - 4), more lengths, literals | distance uint16, more lengths
 *
 * Bounds: every length is compared with the remaining bytes before its use. Up to TL_LZ4_SLACK bytes behind the given
 * room may be written, because copies go by blocks. Source: the LZ4 frame and block formats, versions 1.6.
 */
#ifndef TIDELOG_LZ4_H
#define TIDELOG_LZ4_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TL_LZ4_SLACK 32
#define TL_LZ4_HEADER 7
#define TL_LZ4_PLAIN UINT32_C(0x80000000)

/* Return the largest block size of a common frame; 0 for any other start. */
static inline size_t tl_lz4_block_bytes(const uint8_t *p, size_t n) {
    static const uint8_t start[5] = {0x04, 0x22, 0x4d, 0x18, 0x60};
    static const uint8_t checksums[4] = {0x82, 0xfb, 0x51, 0x73};
    unsigned size;
    if (n < TL_LZ4_HEADER || memcmp(p, start, sizeof start) != 0) return 0;
    size = (unsigned)(p[5] >> 4) - 4;
    if (size > 3 || (p[5] & 0x0f) || p[6] != checksums[size]) return 0;
    return (size_t)65536 << 2 * size;
}

static inline uint32_t tl_lz4_size(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Add the extra bytes of a length; return 0 if they end too soon. */
static inline int tl_lz4_more(const uint8_t **p, const uint8_t *end, size_t *length) {
    uint8_t byte;
    do {
        if (*p == end) return 0;
        byte = *(*p)++;
        *length += byte;
    } while (byte == 255);
    return 1;
}

/* Repeat the bytes `distance` before `out`; may write TL_LZ4_SLACK bytes more. */
static inline void tl_lz4_repeat(uint8_t *out, size_t distance, size_t length) {
    size_t done = 0, step = distance;
    if (distance < 16) {
        for (; done < 16; done++) out[done] = out[(ptrdiff_t)done - (ptrdiff_t)distance];
        while (step < 8) step += distance;
        for (; done < length; done += 8) memcpy(out + done, out + done - step, 8);
        return;
    }
    for (; done < length; done += 16) memcpy(out + done, out + done - step, 16);
}

/* Write the plain bytes of a block and return their number; -1 if it is damaged or has more than `room`. Most
 * sequences are short: if both sides have enough bytes, they are copied by blocks before any other check. */
static inline ptrdiff_t tl_lz4_block(const uint8_t *p, size_t n, uint8_t *begin, size_t room) {
    const uint8_t *end = p + n;
    uint8_t *out = begin, *limit = begin + room;
    size_t length, distance;
    uint8_t token;
    while (p < end) {
        token = *p++;
        length = token >> 4;
        if (length < 15 && end - p >= 20 && limit - out >= 36) {
            memcpy(out, p, 16);
            out += length;
            p += length;
        } else {
            if (length == 15 && !tl_lz4_more(&p, end, &length)) return -1;
            if (length > (size_t)(end - p) || length > (size_t)(limit - out)) return -1;
            memcpy(out, p, length);
            p += length;
            out += length;
            if (p == end) return out - begin;
            if (end - p < 2) return -1;
        }
        distance = (size_t)p[0] | (size_t)p[1] << 8;
        p += 2;
        if (distance == 0 || distance > (size_t)(out - begin)) return -1;
        length = token & 15;
        if (length < 15 && distance >= 16 && limit - out >= 32) {
            memcpy(out, out - distance, 16);
            memcpy(out + 16, out + 16 - distance, 2);
            out += length + 4;
            continue;
        }
        if (length == 15 && !tl_lz4_more(&p, end, &length)) return -1;
        length += 4;
        if (length > (size_t)(limit - out)) return -1;
        tl_lz4_repeat(out, distance, length);
        out += length;
    }
    return -1;
}

#endif
