/* CRC-32C (Castagnoli, format v2) and CRC-32 (zlib's, formats v0 and v1). Only _crc.pyx includes this file.
 *
 * The inner functions use a register with the complement of the published value. The functions tl_crc32c and
 * tl_crc32 take and return published values, so that crc(b, crc(a)) is the CRC of a followed by b.
 *
 * The CRC-32C instruction takes 8 bytes, has a latency of 3 cycles and can start every cycle, so three lanes run in
 * parallel. The CRC is linear: a table that moves a register over LANE zero bytes joins the lanes. The CPU is checked
 * for the instruction when the module is loaded; compiler flags do not decide it.
 */
#ifndef TIDELOG_CHECKSUMS_H
#define TIDELOG_CHECKSUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define TL_CRC_X86 1
#include <cpuid.h>
#include <nmmintrin.h>
#elif defined(__GNUC__) && defined(__aarch64__) && defined(__AARCH64EL__)
#define TL_CRC_ARM 1
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

#define TL_CASTAGNOLI 0x82f63b78u /* bits reversed: bit 31 is x^0 */
#define TL_ZLIB 0xedb88320u
#define TL_LANE_LONG 1024 /* bytes per lane in the main loop */
#define TL_LANE_SHORT 128 /* bytes per lane for the rest after the main loop */

typedef uint32_t (*tl_crc_function)(uint32_t state, const uint8_t *p, size_t n);

static uint32_t tl_slices_castagnoli[8][256];
static uint32_t tl_slices_zlib[8][256];
static tl_crc_function tl_crc32c_chosen;
static const char *tl_crc32c_chosen_name;

/* --- portable: slicing by 8 ------------------------------------------------------------------------------------- */

static void tl_fill_slices(uint32_t table[8][256], uint32_t polynomial) {
    uint32_t i, k;
    for (i = 0; i < 256; i++) {
        uint32_t v = i;
        for (k = 0; k < 8; k++) v = v & 1 ? v >> 1 ^ polynomial : v >> 1;
        table[0][i] = v;
    }
    for (i = 0; i < 256; i++)
        for (k = 1; k < 8; k++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

static inline uint32_t tl_load32_little(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint32_t tl_slice_by_8(uint32_t t[8][256], uint32_t state, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t a = tl_load32_little(p) ^ state, b = tl_load32_little(p + 4);
        state = t[7][a & 0xff] ^ t[6][a >> 8 & 0xff] ^ t[5][a >> 16 & 0xff] ^ t[4][a >> 24] ^
                t[3][b & 0xff] ^ t[2][b >> 8 & 0xff] ^ t[1][b >> 16 & 0xff] ^ t[0][b >> 24];
    }
    for (; n; p++, n--) state = state >> 8 ^ t[0][(state ^ *p) & 0xff];
    return state;
}

static uint32_t tl_crc32c_portable(uint32_t state, const uint8_t *p, size_t n) {
    return tl_slice_by_8(tl_slices_castagnoli, state, p, n);
}

/* --- hardware: three lanes ---------------------------------------------------------------------------------------- */

#if defined(TL_CRC_X86)
#define TL_CRC_NAME "sse4.2"
#define TL_CRC_TARGET __attribute__((target("sse4.2")))
#define TL_CRC_WORD(state, word) ((uint32_t)_mm_crc32_u64((state), (word)))
#define TL_CRC_BYTE(state, byte) _mm_crc32_u8((state), (byte))

static int tl_crc32c_in_hardware(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
}

#elif defined(TL_CRC_ARM)
/* Assembly, because compilers hide the intrinsics unless the complete file is built for a CPU that has them. */
#define TL_CRC_NAME "armv8-crc"
#define TL_CRC_TARGET
#define TL_CRC_WORD(state, word) tl_arm_crc32cx((state), (word))
#define TL_CRC_BYTE(state, byte) tl_arm_crc32cb((state), (byte))

static inline uint32_t tl_arm_crc32cx(uint32_t state, uint64_t word) {
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
    return state;
}
static inline uint32_t tl_arm_crc32cb(uint32_t state, uint8_t byte) {
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(state) : "r"((uint32_t)byte));
    return state;
}

static int tl_crc32c_in_hardware(void) {
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & (1ul << 7)) != 0; /* HWCAP_CRC32 */
#elif defined(__APPLE__)
    return 1; /* every 64-bit ARM CPU from Apple has it */
#else
    return 0;
#endif
}
#endif

#if defined(TL_CRC_NAME)
static uint32_t tl_over_long[4][256];
static uint32_t tl_over_short[4][256];

/* a * b modulo the polynomial, all three with bit 31 as x^0. */
static uint32_t tl_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0, bit;
    for (bit = 1u << 31; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = b & 1 ? b >> 1 ^ TL_CASTAGNOLI : b >> 1;
    }
    return product;
}

/* table[k][v]: the register v << 8k after `zeros` zero bytes, which is a product with x^(8 * zeros). */
static void tl_fill_over(uint32_t table[4][256], uint32_t zeros) {
    uint32_t factor = 1u << 31, power = 1u << 23, v, k; /* 1 and x^8 */
    for (; zeros; zeros >>= 1, power = tl_multiply(power, power))
        if (zeros & 1) factor = tl_multiply(factor, power);
    for (k = 0; k < 4; k++)
        for (v = 0; v < 256; v++) table[k][v] = tl_multiply(factor, v << 8 * k);
}

static inline uint32_t tl_over(uint32_t t[4][256], uint32_t v) {
    return t[0][v & 0xff] ^ t[1][v >> 8 & 0xff] ^ t[2][v >> 16 & 0xff] ^ t[3][v >> 24];
}

static inline uint64_t tl_word(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

TL_CRC_TARGET static uint32_t tl_crc32c_hardware(uint32_t a, const uint8_t *p, size_t n) {
    while (n >= 3 * TL_LANE_SHORT) {
        size_t lane = n >= 3 * TL_LANE_LONG ? TL_LANE_LONG : TL_LANE_SHORT;
        const uint8_t *end = p + lane;
        uint32_t b = 0, c = 0;
        do {
            a = TL_CRC_WORD(a, tl_word(p));
            b = TL_CRC_WORD(b, tl_word(p + lane));
            c = TL_CRC_WORD(c, tl_word(p + 2 * lane));
            p += 8;
        } while (p < end);
        if (lane == TL_LANE_LONG)
            a = tl_over(tl_over_long, tl_over(tl_over_long, a) ^ b) ^ c;
        else
            a = tl_over(tl_over_short, tl_over(tl_over_short, a) ^ b) ^ c;
        p += 2 * lane;
        n -= 3 * lane;
    }
    for (; n >= 8; p += 8, n -= 8) a = TL_CRC_WORD(a, tl_word(p));
    for (; n; p++, n--) a = TL_CRC_BYTE(a, *p);
    return a;
}
#endif

/* --- choice ----------------------------------------------------------------------------------------------------- */

/* Fill the tables and choose the implementation; call it once, before any other function. */
static void tl_checksums_start(void) {
    tl_fill_slices(tl_slices_castagnoli, TL_CASTAGNOLI);
    tl_fill_slices(tl_slices_zlib, TL_ZLIB);
    tl_crc32c_chosen = tl_crc32c_portable;
    tl_crc32c_chosen_name = "portable";
#if defined(TL_CRC_NAME)
    if (tl_crc32c_in_hardware()) {
        tl_fill_over(tl_over_long, TL_LANE_LONG);
        tl_fill_over(tl_over_short, TL_LANE_SHORT);
        tl_crc32c_chosen = tl_crc32c_hardware;
        tl_crc32c_chosen_name = TL_CRC_NAME;
    }
#endif
}

static inline uint32_t tl_crc32c(const uint8_t *p, size_t n, uint32_t crc) {
    return ~tl_crc32c_chosen(~crc, p, n);
}

static inline uint32_t tl_crc32c_in_software(const uint8_t *p, size_t n, uint32_t crc) {
    return ~tl_crc32c_portable(~crc, p, n);
}

static inline uint32_t tl_crc32(const uint8_t *p, size_t n, uint32_t crc) {
    return ~tl_slice_by_8(tl_slices_zlib, ~crc, p, n);
}

#endif
