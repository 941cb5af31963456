/* A fast reader for the usual shape of a v2 record, which reads without a bounds check at each byte.
 *
 * A varint of a length or delta rarely exceeds three bytes, so the fields before the key rarely exceed TL_BLIND_BYTES.
 * If that many bytes lie before the end of the batch, the fields are read first and checked afterwards. This reader
 * rejects a record that is longer, truncated or contradictory, without naming the fault. Then the careful reader in
 * _records.pxd reads the same record again.
 */
#ifndef TIDELOG_RECORD_H
#define TIDELOG_RECORD_H

#include "bytes.h"

#define TL_MIN_RECORD_BODY 6
#define TL_BLIND_BYTES 13
#define TL_VARINT_BLIND_BYTES 3

typedef struct {
    const uint8_t *fields; /* the position of the key's length */
    const uint8_t *key;    /* NULL for a null key */
    const uint8_t *value;  /* NULL for a null value */
    const uint8_t *rest;   /* the position of the header count */
    const uint8_t *stop;   /* the position after the record */
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_length;
    int32_t value_length;
} tl_record;

/* Read a zigzag varint of at most three bytes; return NULL if it is longer. */
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

/* Return 1 if the record at p has the usual shape and is valid up to its headers, which are not checked here. */
static inline int tl_usual_record(const uint8_t *p, const uint8_t *end, int64_t last_delta, tl_record *record) {
    int32_t length, timestamp_delta;
    if (end - p < TL_BLIND_BYTES) return 0;
    if (!(p = tl_varint_blind(p, &length)) || length < TL_MIN_RECORD_BODY || length > end - p) return 0;
    record->stop = p + length;
    p++; /* the unused attributes */
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
