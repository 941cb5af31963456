/* CRC-32C (Castagnoli, format v2) and CRC-32 (zlib's, formats v0 and v1). Only _crc.pyx includes this file.
 *
 * The inner functions use a register with the complement of the published value. The functions tl_crc32c and
 * tl_crc32 take and return published values, so that crc(b, crc(a)) is the CRC of a followed by b.
 *
 * The CRC-32C instruction takes 8 bytes, has a latency of 3 cycles and can start every cycle, so three lanes run in
 * parallel. The CRC is linear: a table that moves a register over LANE zero bytes joins the lanes. With AVX-512 and
 * VPCLMULQDQ, vectors of 64 bytes are multiplied by powers of x instead, which is faster for many bytes. The CPU is
 * checked for the instructions when the module is loaded; compiler flags do not decide it.
 */
#ifndef TIDELOG_CHECKSUMS_H
#define TIDELOG_CHECKSUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define TL_CRC_X86 1
#include <cpuid.h>
#include <immintrin.h>
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
#define TL_VECTOR 64
#define TL_STEP (4 * TL_VECTOR) /* bytes of a step of the main loop with vectors */
#define TL_VECTORS_FROM 6144    /* for fewer bytes, vectors are slower: their first use has a cost of its own */

typedef uint32_t (*tl_crc_function)(uint32_t state, const uint8_t *p, size_t n);

static uint32_t tl_slices_castagnoli[8][256];
static uint32_t tl_slices_zlib[8][256];
static tl_crc_function tl_crc32c_chosen;
static const char *tl_crc32c_chosen_name;
static const char *tl_crc32c_lanes_name = ""; /* empty without the instruction */

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

/* --- hardware: vectors -------------------------------------------------------------------------------------------- */

#if defined(TL_CRC_X86)
/* A register of 16 bytes holds a polynomial: its first bit is the coefficient of x^127. To move it over some bytes, each
 * half is multiplied by its power of x modulo the CRC's polynomial. The product of two halves is one bit short. A
 * remainder of 32 bits lies in the upper half of its 64 bits. So the powers are 33 less than the distance in bits. */
#define TL_VECTOR_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,vpclmulqdq,pclmul,sse4.2")))

static uint64_t tl_move_vector[2], tl_move_step[2]; /* powers for the first and for the second half */

static uint64_t tl_power_of_x(uint32_t exponent) {
    uint32_t result = 1u << 31, power = 1u << 30; /* 1 and x */
    for (; exponent; exponent >>= 1, power = tl_multiply(power, power))
        if (exponent & 1) result = tl_multiply(result, power);
    return result;
}

static void tl_fill_move(uint64_t move[2], uint32_t bytes) {
    move[0] = tl_power_of_x(8 * bytes + 64 - 33);
    move[1] = tl_power_of_x(8 * bytes - 33);
}

TL_VECTOR_TARGET static inline __m512i tl_powers(const uint64_t move[2]) {
    return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)move[1], (long long)move[0]));
}

/* Move the four registers of `moved`, and add those of `data`. */
TL_VECTOR_TARGET static inline __m512i tl_move_vectors(__m512i moved, __m512i powers, __m512i data) {
    __m512i first = _mm512_clmulepi64_epi128(moved, powers, 0x00), second = _mm512_clmulepi64_epi128(moved, powers, 0x11);
    return _mm512_ternarylogic_epi64(first, second, data, 0x96); /* the exclusive or of all three */
}

static int tl_crc32c_by_vectors_runs(void) {
    return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("vpclmulqdq");
}

TL_VECTOR_TARGET static uint32_t tl_crc32c_by_vectors(uint32_t state, const uint8_t *p, size_t n) {
    __m512i sums[4], powers = tl_powers(tl_move_step);
    uint64_t last[8];
    int i;
    for (i = 0; i < 4; i++) sums[i] = _mm512_loadu_si512(p + i * TL_VECTOR);
    sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    for (p += TL_STEP, n -= TL_STEP; n >= TL_STEP; p += TL_STEP, n -= TL_STEP)
        for (i = 0; i < 4; i++) sums[i] = tl_move_vectors(sums[i], powers, _mm512_loadu_si512(p + i * TL_VECTOR));
    powers = tl_powers(tl_move_vector);
    for (i = 1; i < 4; i++) sums[i] = tl_move_vectors(sums[i - 1], powers, sums[i]);
    _mm512_storeu_si512(last, sums[3]); /* bytes with the same CRC as all bytes before them */
    _mm256_zeroupper(); /* otherwise all later SSE code of the process is slow; the compiler leaves it out here */
    state = 0;
    for (i = 0; i < 8; i++) state = (uint32_t)_mm_crc32_u64(state, last[i]);
    return tl_crc32c_hardware(state, p, n);
}

/* The choice by size has a function of its own, because the other one fills a vector register at its beginning. */
static uint32_t tl_crc32c_by_size(uint32_t state, const uint8_t *p, size_t n) {
    return n < TL_VECTORS_FROM ? tl_crc32c_hardware(state, p, n) : tl_crc32c_by_vectors(state, p, n);
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
        tl_crc32c_chosen_name = tl_crc32c_lanes_name = TL_CRC_NAME;
    }
#endif
#if defined(TL_CRC_X86)
    if (tl_crc32c_in_hardware() && tl_crc32c_by_vectors_runs()) {
        tl_fill_move(tl_move_vector, TL_VECTOR);
        tl_fill_move(tl_move_step, TL_STEP);
        tl_crc32c_chosen = tl_crc32c_by_size;
        tl_crc32c_chosen_name = "avx512";
    }
#endif
}

static inline uint32_t tl_crc32c(const uint8_t *p, size_t n, uint32_t crc) {
    return ~tl_crc32c_chosen(~crc, p, n);
}

static inline uint32_t tl_crc32c_in_software(const uint8_t *p, size_t n, uint32_t crc) {
    return ~tl_crc32c_portable(~crc, p, n);
}

/* The lanes, on a machine that has the instruction. */
static inline uint32_t tl_crc32c_by_lanes(const uint8_t *p, size_t n, uint32_t crc) {
#if defined(TL_CRC_NAME)
    return ~tl_crc32c_hardware(~crc, p, n);
#else
    return tl_crc32c_in_software(p, n, crc);
#endif
}

static inline uint32_t tl_crc32(const uint8_t *p, size_t n, uint32_t crc) {
    return ~tl_slice_by_8(tl_slices_zlib, ~crc, p, n);
}

#endif
