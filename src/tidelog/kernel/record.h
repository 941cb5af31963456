/* One record of a v2 batch in the shape that nearly all have, read without asking at each byte where the bytes end.
 *
 * A varint of a length or delta is seldom longer than three bytes, so what comes before the key is seldom longer than
 * TL_BLIND_BYTES: where that many lie before the end of the batch they are read first and judged afterwards. What is
 * longer, cut off or contradicts itself is not for this reader: it names no fault, and the careful one in _records.pxd
 * begins that record again.
 */
#ifndef TIDELOG_RECORD_H
#define TIDELOG_RECORD_H

#include "bytes.h"

#define TL_MIN_RECORD_BODY 6
#define TL_BLIND_BYTES 13
#define TL_VARINT_BLIND_BYTES 3

typedef struct {
    const uint8_t *fields; /* the key's length */
    const uint8_t *key;    /* NULL: null */
    const uint8_t *value;  /* NULL: null */
    const uint8_t *rest;   /* the header count */
    const uint8_t *stop;   /* after the record */
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_length;
    int32_t value_length;
} tl_record;

/* A zigzag varint of at most three bytes; NULL where it is longer. */
static inline const uint8_t *tl_varint_blind(const uint8_t *p, int32_t *out) {
    uint32_t v = p[0];
    if (v >= 0x80) {
        v = (v & 0x7f) | (uint32_t)p[1] << 7;
        p++;
        if (v >= 0x4000) {
            v = (v & 0x3fff) | (uint32_t)p[1] << 14;
            p++;
            if (v >= 0x200000) return NULL;
        }
    }
    *out = tl_unzigzag32(v);
    return p + 1;
}

/* 1 where the record at p is of the usual shape and holds, up to its headers, which are not looked at. */
static inline int tl_usual_record(const uint8_t *p, const uint8_t *end, int64_t last_delta, tl_record *record) {
    int32_t length, timestamp_delta;
    if (end - p < TL_BLIND_BYTES) return 0;
    if (!(p = tl_varint_blind(p, &length)) || length < TL_MIN_RECORD_BODY || length > end - p) return 0;
    record->stop = p + length;
    p++; /* the attributes: unused */
    if (!(p = tl_varint_blind(p, &timestamp_delta))) return 0;
    record->timestamp_delta = timestamp_delta;
    if (!(p = tl_varint_blind(p, &record->offset_delta))) return 0;
    if (record->offset_delta < 0 || record->offset_delta > last_delta) return 0;
    record->fields = p;
    if (!(p = tl_varint_blind(p, &record->key_length))) return 0;
    if (p > record->stop || record->key_length > record->stop - p) return 0;
    record->key = NULL;
    if (record->key_length >= 0) {
        record->key = p;
        p += record->key_length;
    }
    if (end - p < TL_VARINT_BLIND_BYTES || !(p = tl_varint_blind(p, &record->value_length))) return 0;
    if (p > record->stop || record->value_length > record->stop - p) return 0;
    record->value = NULL;
    if (record->value_length >= 0) {
        record->value = p;
        p += record->value_length;
    }
    record->rest = p;
    return 1;
}

#endif
