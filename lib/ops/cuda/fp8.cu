/* fp8.cu -- bfloat16 to eight-bit floats with one scale for a tensor: its largest magnitude in two
 * stages, then the conversion, as it lies and transposed, of which tensor cores want one or the other.
 *
 * Magnitudes are compared as integers: for floats without their sign that is the same order, with
 * infinity above every number and NaN above infinity, so that the largest of any order of comparing is
 * the same and nothing that is not finite is lost. */
#include "ops/cuda/cu.h"
#include "ops/cuda/fp8.h"
#include "ops/fp8.h"
#ifdef __CUDACC__
#include <cuda_fp8.h>
#else
#include "fp8_twin.h"
#endif

#ifndef FAULT
#define FAULT 0     /* tests leave out a barrier: 1 in a block's maximum, 2 before a tile is read */
#endif
enum { THREADS = 256, MOST_PARTS = 1024, TILE = 64, WORDS = TILE / 4, PITCH = WORDS + 1 };

/* to the nearest, ties to even; beyond the largest finite number: that; NaN stays. One instruction from
 * sm_89 on, some dozens where the compiler knows of an older device only. */
INLINE uint32_t fp8_pair(float lo, float hi, int e5m2)
{
#ifdef __CUDACC__
    return __nv_cvt_float2_to_fp8x2(make_float2(lo, hi), __NV_SATFINITE, e5m2 ? __NV_E5M2 : __NV_E4M3);
#else
    const Fp8 to = e5m2 ? FP8_E5M2 : FP8_E4M3;
    return fp8_encode(lo, to) | (uint32_t)fp8_encode(hi, to) << 8;
#endif
}
INLINE unsigned largest(unsigned a, unsigned b) { return a > b ? a : b; }
/* of a block's threads, for thread 0 */
INLINE unsigned block_largest(unsigned m, unsigned *parts)
{
    for (int o = WARP / 2; o; o >>= 1) m = largest(m, __shfl_xor_sync(~0u, m, o));
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = m;
    if (FAULT != 1) __syncthreads();
    for (unsigned i = 1; threadIdx.x == 0 && i < THREADS / WARP; i++) m = largest(m, parts[i]);
    return m;
}
/* part[block] = the largest of x's magnitudes, as bits of a float; n a multiple of 8 */
static __global__ void magnitudes(unsigned *part, const uint4 *x, int64_t n)
{
    SHARED(unsigned, parts, THREADS / WARP);
    unsigned m = 0;                             /* of both halves of words, at their upper ends */
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n / 8;
         i += (int64_t)gridDim.x * THREADS) {
        const uint4 q = x[i];
        const unsigned w[4] = { q.x, q.y, q.z, q.w };
        UNROLL for (int j = 0; j < 4; j++)
            m = largest(m, largest(w[j] & 0x7fff0000u, w[j] << 16 & 0x7fff0000u));
    }
    m = block_largest(m, parts);
    if (threadIdx.x == 0) part[blockIdx.x] = m;
}
/* Magnitudes below 2^-100 count as that much, so that the scale is finite. */
static __global__ void scales(float *scale, const unsigned *part, int n, float most)
{
    SHARED(unsigned, parts, THREADS / WARP);
    unsigned m = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) m = largest(m, part[i]);
    m = block_largest(m, parts);
    if (threadIdx.x != 0) return;
    const float a = __uint_as_float(m), s = m == 0 ? 1 : most / (a < 0x1p-100f ? 0x1p-100f : a);
    scale[0] = s;
    scale[1] = 1 / s;
}
/* A block has 64 x 64 of x, a thread 4 x 4 of them. For t, tile[column] holds its 64 rows, four to a
 * word. */
static __global__ void convert(uint8_t *q, uint8_t *t, const float *scale, const uint16_t *x, int N,
                               int C, int P, int e5m2)
{
    SHARED(uint32_t, tile, TILE * PITCH);
    const float s = scale[0];
    const int across = (C + TILE - 1) / TILE, tx = threadIdx.x % WORDS, ty = threadIdx.x / WORDS;
    const int c0 = (int)blockIdx.x % across * TILE, c = c0 + 4 * tx;
    const int64_t r0 = (int64_t)(blockIdx.x / across) * TILE;
    uint32_t by_column[4] = { 0, 0, 0, 0 };
    UNROLL for (int i = 0; i < 4; i++) {
        const int64_t r = r0 + 4 * ty + i;
        if (r >= N || c >= C) continue;
        const uint2 in = *(const uint2 *)(const void *)(x + r * C + c);
        const uint32_t two[2] = { in.x, in.y };
        uint32_t row = 0;
        UNROLL for (int j = 0; j < 2; j++)
            row |= fp8_pair(s * bf16_float((uint16_t)two[j]), s * bf16_float((uint16_t)(two[j] >> 16)),
                            e5m2) << 16 * j;
        UNROLL for (int j = 0; j < 4; j++) by_column[j] |= (row >> 8 * j & 255) << 8 * i;
        if (q) *(uint32_t *)(void *)(q + r * C + c) = row;
    }
    if (!t) return;
    UNROLL for (int j = 0; j < 4; j++) tile[(4 * tx + j) * PITCH + ty] = by_column[j];
    if (FAULT != 2) __syncthreads();
    const int col = threadIdx.x / 4, part = threadIdx.x % 4;        /* 16 rows of a column */
    if (c0 + col >= C || r0 + 16 * part >= P) return;
    const uint32_t *from = tile + col * PITCH + 4 * part;
    const uint4 v = { from[0], from[1], from[2], from[3] };
    *(uint4 *)(void *)(t + (int64_t)(c0 + col) * P + r0 + 16 * part) = v;
}
void cuda_fp8(uint8_t *q, uint8_t *t, float *scale, const void *x, int N, int C, int e5m2)
{
    const int64_t n = (int64_t)N * C;
    const int blocks = (int)cu_min(cu_grid(n / 8, 4 * THREADS), MOST_PARTS);
    unsigned *part = (unsigned *)cuda_scratch(SLOT_PARTS, MOST_PARTS * sizeof *part);
    LAUNCH(magnitudes, (unsigned)blocks, THREADS, 0, cuda_stream, part, (const uint4 *)x, n);
    LAUNCH(scales, 1, THREADS, 0, cuda_stream, scale, part, blocks, e5m2 ? 57344.f : 448.f);
    const int P = (int)fp8_padded(N);
    LAUNCH(convert, (unsigned)(div_up(P, TILE) * div_up(C, TILE)), THREADS, 0, cuda_stream, q, t,
           scale, (const uint16_t *)x, N, C, P, e5m2);
}
