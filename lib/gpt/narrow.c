/* narrow.c -- see narrow.h. */
#include "gpt/narrow.h"
#include <assert.h>
#include <math.h>
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* x / 2^k to the nearest, ties to even. */
static uint32_t round_shift(uint32_t x, unsigned k)
{
    uint32_t half = 1u << (k - 1), rest = x & (2 * half - 1), y = x >> k;
    return y + (rest > half || (rest == half && y & 1));
}

uint16_t bf16_of(float x)
{
    uint32_t u = bits_of(x);
    if (x != x) return (uint16_t)(u >> 16 | 0x40);      /* stays one that is not a number */
    return (uint16_t)round_shift(u, 16);
}

uint16_t fp16_of(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, e = u >> 23 & 255, m = u & 0x7fffff, h;
    if (e == 255) h = 0x7c00 | (m ? 0x200 | m >> 13 : 0);
    else if (e >= 113) h = round_shift((e - 112) << 23 | m, 13);    /* a carry goes to the exponent */
    else if (e >= 102) h = round_shift(m | 0x800000, 126 - e);      /* subnormal: units of 2^-24 */
    else h = 0;
    if (e != 255 && h > 0x7c00) h = 0x7c00;
    return (uint16_t)(sign | h);
}

float fp16_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return float_of(sign | 0x7f800000 | m << 13);
    if (e) return float_of(sign | (e + 112) << 23 | m << 13);
    float x = (float)m * 0x1p-24f;                  /* zero or subnormal: exact */
    return sign ? -x : x;
}

int narrow_block(Narrow t) { return t == NARROW_Q8_0 ? Q8_BLOCK : 1; }

size_t narrow_bytes(Narrow t, int64_t n)
{
    if (t == NARROW_Q8_0) return (size_t)(n / Q8_BLOCK) * (2 + Q8_BLOCK);
    return (size_t)n * (t == NARROW_F32 ? 4 : 2);
}

static unsigned char *put_u16(unsigned char *p, uint16_t x)
{
    p[0] = (unsigned char)x, p[1] = (unsigned char)(x >> 8);
    return p + 2;
}

static void put_f32(unsigned char *p, float x)
{
    uint32_t u = bits_of(x);
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(u >> 8 * i);
}

static void put_q8(unsigned char *p, const real *x)
{
    float most = 0;
    for (int i = 0; i < Q8_BLOCK; i++) most = fmaxf(most, fabsf((float)x[i]));
    float d = most / 127, by = d > 0 ? 1 / d : 0;
    p = put_u16(p, fp16_of(d));
    for (int i = 0; i < Q8_BLOCK; i++) p[i] = (unsigned char)(signed char)roundf((float)x[i] * by);
}

void narrow_put(Narrow t, unsigned char *to, const real *x, int64_t n)
{
    assert(n % narrow_block(t) == 0);
    switch (t) {
    case NARROW_F32: for (int64_t i = 0; i < n; i++) put_f32(to + 4 * i, (float)x[i]); break;
    case NARROW_F16: for (int64_t i = 0; i < n; i++) to = put_u16(to, fp16_of((float)x[i])); break;
    case NARROW_BF16: for (int64_t i = 0; i < n; i++) to = put_u16(to, bf16_of((float)x[i])); break;
    case NARROW_Q8_0:
        for (int64_t i = 0; i < n; i += Q8_BLOCK, to += 2 + Q8_BLOCK) put_q8(to, x + i);
        break;
    }
}

const char *narrow_fits(Narrow t, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return "has a number that is not finite";
        if (t == NARROW_F16 && fp16_of(fabsf((float)x[i])) == 0x7c00)
            return "has a number too large for fp16 (above 65504)";
        if (t == NARROW_BF16 && (bf16_of(fabsf((float)x[i])) & 0x7f80) == 0x7f80)
            return "has a number too large for bf16";
        /* q8_0: the scale is an fp16 */
        if (t == NARROW_Q8_0 && fabs((double)x[i]) > 127 * 65504.0)
            return "has a number too large for q8_0";
    }
    return NULL;
}
