/* probe.c -- this tier's roof: multiply-adds on registers alone; its exp and tanh, for tests. */
#include "ops/cpu/vec.h"
#ifdef ACT_TILE
#include "ops/cpu/tile.h"
#endif

enum { LANES = 12 };

#ifdef ACT_TILE
/* as fma_probe, with tiles */
double CPU(dot_probe)(int64_t n, double *out)
{
    float s[TILE_ROWS][TILE_PAIRS] = { { 1 } };
    tile_config(&tile_whole);
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    tile_load(4, s, TILE_BYTES);
    tile_load(5, s, TILE_BYTES);
    n /= 64;                    /* an instruction is worth so many of the other probe's */
    for (int64_t l = 0; l < n; l++) {
        tile_dp(0, 4, 5);
        tile_dp(1, 4, 5);
        tile_dp(2, 4, 5);
        tile_dp(3, 4, 5);
    }
    tile_store(0, s, TILE_BYTES);
    tile_release();
    *out += (double)s[0][0];
    return 4.0 * 2 * TILE_ROWS * TILE_PAIRS * 2 * TILE_PAIRS * (double)n;
}
#elif defined ACT_DOT
/* as fma_probe, with pairs of bfloat16 */
double CPU(dot_probe)(int64_t n, double *out)
{
    __m512bh a = (__m512bh)_mm512_set1_epi16(0x3f00), b = a;    /* 0.5 */
    __m512 s[LANES];
    UNROLL for (int i = 0; i < LANES; i++) s[i] = _mm512_set1_ps((float)i);
    for (int64_t l = 0; l < n; l++)
        UNROLL for (int i = 0; i < LANES; i++) s[i] = _mm512_dpbf16_ps(s[i], a, b);
    for (int i = 0; i < LANES; i++) *out += vsum((Vec)s[i]);
    return 4.0 * LANES * VL * (double)n;
}
#else
/* Does n rounds of LANES independent multiply-adds on the calling thread; returns the flops done.
 * *out keeps the compiler from dropping the work. */
double TIERED(fma_probe)(int64_t n, double *out)
{
    Vec s[LANES], a = vset((real)0.9999999), b = vset((real)1e-7);
    UNROLL for (int i = 0; i < LANES; i++) s[i] = vset((real)(i + 2));        /* 1 would stay 1 */
    for (int64_t l = 0; l < n; l++)
        UNROLL for (int i = 0; i < LANES; i++) s[i] = s[i] * a + b;
    for (int i = 1; i < LANES; i++) s[0] += s[i];
    *out += vsum(s[0]);
    return 2.0 * LANES * VL * (double)n;
}

void TIERED(exp_n)(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) vstore(y + i, vexp(vload(x + i, n - i)), n - i);
}
void TIERED(exp2_n)(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) vstore(y + i, vexp2(vload(x + i, n - i)), n - i);
}
void TIERED(tanh_n)(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) vstore(y + i, vtanh(vload(x + i, n - i)), n - i);
}
#endif
