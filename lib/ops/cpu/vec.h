/* vec.h -- the one vector type of the CPU back-end, and exp and tanh on it.
 *
 * Vec holds VL reals in GCC's vector extensions, so that one source serves SSE2, AVX2, AVX-512,
 * NEON and anything else the compiler knows; the width follows the tier's compiler flags.
 * Arithmetic is + - * / on whole vectors; comparisons give a VecI of 0 and -1.
 *
 * Loads and stores are unaligned and take how many elements are left: past the end they read 0
 * and write nothing. aload/astore move activations (Act), vload/vstore masters and statistics
 * (real); aget/aput move one Act. They are the one place where bfloat16 is converted, and plain
 * moves while an Act is a real.
 */
#ifndef OPS_CPU_VEC_H
#define OPS_CPU_VEC_H
#include "ops/cpu/cpu.h"
#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined __AVX512F__
#define VBYTES 64
enum { MR = 14 }; /* rows of the micro-kernel: MR x 2 vectors of sums in registers */
#elif defined __AVX2__
#define VBYTES 32
enum { MR = 6 };
#elif defined __aarch64__
#define VBYTES 16
enum { MR = 8 };
#else
#define VBYTES 16
enum { MR = 4 };
#endif

#ifdef REAL_F64
typedef int64_t lane;
#define MATH(fn) fn
#else
typedef int32_t lane;
#define MATH(fn) fn##f             /* MATH(sqrt) is sqrtf */
#endif
typedef real Vec __attribute__((vector_size(VBYTES)));
typedef lane VecI __attribute__((vector_size(VBYTES)));
typedef real VecU __attribute__((vector_size(VBYTES), aligned(sizeof(real)), may_alias));
enum { VL = VBYTES / sizeof(real), NR = 2 * VL };

#define INLINE static inline __attribute__((always_inline, unused))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

INLINE Vec vset(real x) { return x - (Vec){ 0 }; }      /* not +: -0 + 0 is 0 */

/* Partial ones, 0 <= left < VL or less. (Not through memory: it would be slow, and gcc 12's address
 * sanitizer objects to vectors in inlined scopes.) */
#if defined __AVX512F__
#ifdef REAL_F64
#define X86(op) _mm512_##op##_pd
typedef __mmask8 Mask;
#else
#define X86(op) _mm512_##op##_ps
typedef __mmask16 Mask;
#endif
INLINE Mask mask_of(int64_t left) { return left > 0 ? (Mask)((1u << left) - 1) : 0; }
INLINE Vec vload_some(const real *p, int64_t left) { return X86(maskz_loadu)(mask_of(left), p); }
INLINE void vstore_some(real *p, Vec x, int64_t left) { X86(mask_storeu)(p, mask_of(left), x); }
#elif defined __AVX2__
#ifdef REAL_F64
#define X86(op) _mm256_##op##_pd
#define IOTA { 0, 1, 2, 3 }
#else
#define X86(op) _mm256_##op##_ps
#define IOTA { 0, 1, 2, 3, 4, 5, 6, 7 }
#endif
INLINE VecI mask_of(int64_t left) { return (VecI)IOTA < (lane)(left > 0 ? left : 0); }
INLINE Vec vload_some(const real *p, int64_t left)
{
    return X86(maskload)(p, (__m256i)mask_of(left));
}
INLINE void vstore_some(real *p, Vec x, int64_t left)
{
    X86(maskstore)(p, (__m256i)mask_of(left), x);
}
#else
INLINE Vec vload_some(const real *p, int64_t left)
{
    Vec x = { 0 };
    UNROLL for (int i = 0; i < VL; i++)
        if (i < left) x[i] = p[i];
    return x;
}
INLINE void vstore_some(real *p, Vec x, int64_t left)
{
    UNROLL for (int i = 0; i < VL; i++)
        if (i < left) p[i] = x[i];
}
#endif

INLINE Vec vload(const real *p, int64_t left)
{
    if (__builtin_expect(left >= VL, 1)) return *(const VecU *)p;
    return vload_some(p, left);
}
INLINE void vstore(real *p, Vec x, int64_t left)
{
    if (__builtin_expect(left >= VL, 1)) *(VecU *)p = x;
    else vstore_some(p, x, left);
}

#ifndef REAL_F64
typedef uint32_t VecW __attribute__((vector_size(VBYTES)));
typedef uint16_t Half __attribute__((vector_size(VBYTES / 2)));
typedef uint16_t HalfU __attribute__((vector_size(VBYTES / 2), aligned(2), may_alias));

/* A bfloat16 is the upper half of a float. Rounded to nearest, ties to even; a NaN stays one (and
 * becomes quiet, since its payload may have been in the lower half only). */
INLINE Vec widen(Half h) { return (Vec)(__builtin_convertvector(h, VecW) << 16); }
INLINE Half narrow(Vec x)
{
    VecW b = (VecW)x, nan = (VecW)(x != x);
    VecW r = b + 0x7fff + (b >> 16 & 1);
    return __builtin_convertvector(((r & ~nan) | ((b | 0x400000) & nan)) >> 16, Half);
}
INLINE Half hload(const uint16_t *p, int64_t left)
{
    if (__builtin_expect(left >= VL, 1)) return *(const HalfU *)p;
    Half h = { 0 };
    UNROLL for (int i = 0; i < VL; i++)
        if (i < left) h[i] = p[i];
    return h;
}
INLINE void hstore(uint16_t *p, Half h, int64_t left)
{
    if (__builtin_expect(left >= VL, 1)) { *(HalfU *)p = h; return; }
    UNROLL for (int i = 0; i < VL; i++)
        if (i < left) p[i] = h[i];
}
/* A real in two halves (ops.h, Store): any bits there and back. The compute copy that the upper half
 * is of one that is no number is none either if it went through quiet(). */
INLINE Vec join(Half hi, Half lo)
{
    VecW l = __builtin_convertvector(lo, VecW);
    return (Vec)((__builtin_convertvector(hi, VecW) << 16) + ((l ^ 0x8000) - 0x8000));
}
INLINE Half upper(Vec x) { return __builtin_convertvector(((VecW)x + 0x8000) >> 16, Half); }
INLINE Half lower(Vec x) { return __builtin_convertvector((VecW)x, Half); }
INLINE Vec quiet(Vec x)
{
    VecW b = (VecW)x, nan = (VecW)(x != x);
    return (Vec)((b & ~nan) | (((b & 0xffff0000) | 0x400000) & nan));
}
#endif

/* ---- a Store's elements from i on */
INLINE Vec sload(Store s, int64_t i, int64_t left)
{
#ifndef REAL_F64
    if (!s.w && s.lo) return join(hload(s.hi + i, left), hload(s.lo + i, left));
    if (!s.w) return widen(hload(s.hi + i, left));
#endif
    return vload(s.w + i, left);
}
INLINE void sstore(Store s, int64_t i, Vec x, int64_t left)
{
#ifndef REAL_F64
    if (!s.w) {
        if (s.lo) x = quiet(x);
        hstore(s.hi + i, s.lo ? upper(x) : narrow(x), left);
        if (s.lo) hstore(s.lo + i, lower(x), left);
        return;
    }
#endif
    vstore(s.w + i, x, left);
}

#ifdef ACT_BF16
INLINE Vec aload(const Act *p, int64_t left) { return widen(hload(&p->bits, left)); }
INLINE void astore(Act *p, Vec x, int64_t left) { hstore(&p->bits, narrow(x), left); }
INLINE real aget(const Act *p)
{
    uint32_t b = (uint32_t)p->bits << 16;
    real x;
    memcpy(&x, &b, sizeof x);
    return x;
}
INLINE void aput(Act *p, real x) { p->bits = narrow(vset(x))[0]; }
#else
INLINE Vec aload(const Act *p, int64_t left) { return vload(p, left); }
INLINE void astore(Act *p, Vec x, int64_t left) { vstore(p, x, left); }
INLINE real aget(const Act *p) { return *p; }
INLINE void aput(Act *p, real x) { *p = x; }
#endif
INLINE void aadd(Act *p, Vec x, int64_t left) { astore(p, aload(p, left) + x, left); }

INLINE Vec vsel(VecI m, Vec a, Vec b) { return (Vec)((m & (VecI)a) | (~m & (VecI)b)); }
#ifdef X86
INLINE Vec vmax(Vec a, Vec b) { return X86(max)(a, b); }
#else
INLINE Vec vmax(Vec a, Vec b) { return vsel(a > b, a, b); }       /* b where either is NaN */
#endif
INLINE Vec vsqrt(Vec x)
{
#ifdef X86
    return X86(sqrt)(x);
#else
    UNROLL for (int i = 0; i < VL; i++) x[i] = MATH(sqrt)(x[i]);
    return x;
#endif
}
INLINE double vsum(Vec a)
{
    double s = 0;
    for (int i = 0; i < VL; i++) s += a[i];
    return s;
}
/* sum of x^2: 1024 at a time as reals, those in double */
INLINE double sum_squares(Store x, int64_t n)
{
    double s = 0;
    for (int64_t at = 0; at < n; at += 1024) {
        Vec t = { 0 };
        for (int64_t i = at, end = min64(n, at + 1024); i < end; i += VL) {
            Vec a = sload(x, i, end - i);
            t += a * a;
        }
        s += vsum(t);
    }
    return s;
}
INLINE real vmax_of(Vec a)
{
    real m[VL];
    memcpy(m, &a, sizeof m);
    for (int n = VL / 2; n > 0; n /= 2)
        UNROLL for (int i = 0; i < n; i++) m[i] = m[i] > m[i + n] ? m[i] : m[i + n];
    return m[0];
}

#ifdef REAL_F64
INLINE Vec vexp2(Vec x)
{
    for (int i = 0; i < VL; i++) x[i] = exp2(x[i]);
    return x;
}
INLINE Vec vexp(Vec x)
{
    for (int i = 0; i < VL; i++) x[i] = exp(x[i]);
    return x;
}
INLINE Vec vtanh(Vec x)
{
    for (int i = 0; i < VL; i++) x[i] = tanh(x[i]);
    return x;
}
#else
/* e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln(2)/2, e^r = 1 + r + r^2 q(r), q a minimax
 * polynomial with relative error 2^-28. ln 2 is split so that n * hi is exact. Adding and taking
 * away 1.5 * 2^23 rounds to an integer, which is then in the low bits. 2^n is applied as two
 * factors, so that results below 2^-126 and above 2^127 come out right. NaN stays NaN. */
INLINE Vec vexp(Vec x)
{
    const float magic = 12582912.f;
    x = vsel(x < -104.f, vset(-104.f), x);
    x = vsel(x > 89.f, vset(89.f), x);
    Vec t = x * 1.44269504f + magic;
    VecI n = (VecI)t - (VecI)vset(magic);
    t -= magic;
    Vec r = x - t * 0.693359375f;
    r = r + t * 2.12194440e-4f;
    Vec q = r * 1.38141908e-3f + 8.36891369e-3f;
    q = q * r + 4.16684072e-2f;
    q = q * r + 1.66665190e-1f;
    q = q * r + 4.99999933e-1f;
    Vec y = 1.f + (r + r * r * q);
    VecI h = n >> 1;
    return y * (Vec)((h + 127) << 23) * (Vec)((n - h + 127) << 23);
}
/* 2^x for x <= 127, by the same steps; results below 2^-126 are 0. Fewer of them, for softmax: the
 * exponent is shifted into place whole, and 2^r = 1 + r p(r), |r| <= 1/2, p minimax with relative
 * error 2^-26 as rounded. NaN stays NaN. */
INLINE Vec vexp2(Vec x)
{
    const float magic = 12582912.f + 127;
    Vec t = x + magic;
    VecI two_n = (VecI)t << 23;
    Vec r = x - (t - magic);
    Vec q = r * 1.53533621e-4f + 1.33988746e-3f;
    q = q * r + 9.61843736e-3f;
    q = q * r + 5.55033247e-2f;
    q = q * r + 2.40226479e-1f;
    q = q * r + 6.93147203e-1f;
    Vec y = (1.f + r * q) * (Vec)two_n;
    return (Vec)((VecI)y & ~(x < -126.f));
}
/* a = |x| < 0.625: a + a^3 p(a^2), p minimax with relative error 2^-27; else 1 - 2 / (e^(2a) + 1);
 * the sign is put back at the end. */
INLINE Vec vtanh(Vec x)
{
    const VecI sign = (VecI)vset(-0.f);
    Vec a = (Vec)((VecI)x & ~sign), z = x * x;
    Vec p = z * -5.66697732e-3f + 2.06061769e-2f;
    p = p * z - 5.37300073e-2f;
    p = p * z + 1.33313313e-1f;
    p = p * z - 3.33332777e-1f;
    Vec small = a + a * (z * p);
    Vec big = 1.f - 2.f / (vexp(vsel(a > 10.f, vset(10.f), a) * 2.f) + 1.f);
    return (Vec)((VecI)vsel(a < 0.625f, small, big) | ((VecI)x & sign));
}
#endif
#endif
