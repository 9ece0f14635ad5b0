/* fp8_twin.h -- eight-bit floats for tests: what a device's conversion instruction does, in plain C, and
 * back. Micikevicius et al. 2022, arXiv 2209.05433: a sign, then
 *   e4m3   4 bits of exponent, bias 7, 3 of mantissa; no infinity; NaN is s.1111.111, the largest 448
 *   e5m2   5 bits of exponent, bias 15, 2 of mantissa; infinity and NaN as in IEEE 754, the largest
 *          finite 57344
 */
#ifndef EMULATOR_FP8_TWIN_H
#define EMULATOR_FP8_TWIN_H
#include <math.h>
#include <stdint.h>

typedef enum Fp8 { FP8_E4M3, FP8_E5M2 } Fp8;

static inline float fp8_decode(uint8_t code, Fp8 f)
{
    const int bits = f == FP8_E4M3 ? 3 : 2, bias = f == FP8_E4M3 ? 7 : 15, low = (1 << bits) - 1;
    const int e = code >> bits & (f == FP8_E4M3 ? 15 : 31), m = code & low;
    float x;
    if (f == FP8_E4M3 ? (code & 127) == 127 : e == 31 && m) return NAN;
    if (f == FP8_E5M2 && e == 31) x = INFINITY;
    else if (e == 0) x = ldexpf((float)m, 1 - bias - bits);
    else x = ldexpf((float)(m + (1 << bits)), e - bias - bits);
    return code & 128 ? -x : x;
}
/* To the nearest, of two as near the even one; what is beyond the largest finite number, infinity too,
 * becomes that; NaN stays NaN. */
static inline uint8_t fp8_encode(float x, Fp8 f)
{
    const int bits = f == FP8_E4M3 ? 3 : 2, bias = f == FP8_E4M3 ? 7 : 15;
    const int most = f == FP8_E4M3 ? 0x7e : 0x7b, sign = signbit(x) ? 128 : 0;
    const float a = fabsf(x);
    int e = 0;
    if (isnan(x)) return (uint8_t)(sign | 127);
    if (!(a < fp8_decode((uint8_t)most, f))) return (uint8_t)(sign | most);
    frexpf(a, &e);                              /* a = [0.5,1) 2^e */
    e = e - 1 + bias < 1 || a == 0 ? 1 : e - 1 + bias;
    const int units = (int)nearbyintf(ldexpf(a, bias + bits - e));
    return (uint8_t)(sign | ((e << bits) + units - (1 << bits)));
}
#endif
