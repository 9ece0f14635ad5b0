/* attn_tile.h -- what the attention kernels on tensor cores share: tiles in shared memory and the
 * products of their fragments. Blocks are 4 warps; tiles are bfloat16, sums fp32.
 *
 * mma.m16n8k16 (PTX ISA, "Matrix Fragments"): lane 4 g + c holds of a 16 x 8 result c[0], c[1] at
 * row g, columns 2c, 2c + 1, and c[2], c[3] at row g + 8. Two neighbouring results, rounded and
 * packed by pairs, are the left operand of the next product: a probability never leaves registers.
 *
 * Rows in shared memory are D + 8 long: an odd number of 16-byte units, so that the 8 rows of an
 * ldmatrix lie in different banks.
 */
#ifndef OPS_CUDA_ATTN_TILE_H
#define OPS_CUDA_ATTN_TILE_H
#include "ops/cuda/attn_row.h"

enum { ATTN_THREADS = 128, ATTN_PAD = 8 };

/* Tiles come while others are computed with. A round of the loop is
 *     tile_is_here();      the tile asked for last is here, and all warps are done with the one
 * before fetch the next one into the other buffer tile_is_asked_for(); compute FAULT: tests weaken
 * it: 1 no barrier, 2 no waiting, 3 the barrier comes after the fetch. */
#ifndef FAULT
#define FAULT 0
#endif
INLINE void tile_is_here()
{
    cp_wait<FAULT == 2>();
    if (FAULT != 1 && FAULT != 3) __syncthreads();
}
INLINE void tile_is_asked_for()
{
    cp_commit();
    if (FAULT == 3) __syncthreads();
}

/* which of a thread's results is which */
typedef struct Lane { int warp, lane, row, col; } Lane;         /* row g, column 2c */
INLINE Lane lane_of(int thread)
{
    const int l = thread & 31;
    return { thread >> 5, l, l >> 2, (l & 3) * 2 };
}

/* s: R rows, of which `rows` are fetched from g, `stride` apart; the others become zeros. */
template <int D, int R>
INLINE void fetch(Bf16 *s, const Bf16 *g, int64_t stride, int rows)
{
    for (int i = threadIdx.x; i < R * (D / 8); i += ATTN_THREADS) {
        const int r = i / (D / 8), c = i % (D / 8) * 8;
        const bool there = r < rows;
        cp_async16(s + r * (D + ATTN_PAD) + c, there ? g + r * stride + c : g, there ? 16 : 0);
    }
}

/* Two tiles of R rows, one after the other in s. */
template <int D, int R>
INLINE void fetch_two(Bf16 *s, const Bf16 *x, const Bf16 *y, int64_t stride, int rows)
{
    fetch<D, R>(s, x, stride, rows);
    fetch<D, R>(s + R * (D + ATTN_PAD), y, stride, rows);
}

/* c[MT 16-row tiles][N/8] = a b^T: a 16 MT rows of a tile, b N rows of one */
template <int D, int MT, int N>
INLINE void dot_rows(float (*c)[N / 8][4], const Bf16 *a, const Bf16 *b, int l)
{
    const int S = D + ATTN_PAD;
    UNROLL for (int m = 0; m < MT; m++)
        UNROLL for (int n = 0; n < N / 8; n++)
            UNROLL for (int j = 0; j < 4; j++) c[m][n][j] = 0;
    UNROLL for (int d = 0; d < D; d += 16) {
        uint32_t x[MT][4];
        UNROLL for (int m = 0; m < MT; m++)
            ldsm_x4(x[m], a + (m * 16 + (l & 15)) * S + d + (l >> 4) * 8);
        UNROLL for (int n = 0; n < N / 16; n++) {
            uint32_t y[4];
            ldsm_x4(y, b + (n * 16 + (l & 7) + (l >> 4) * 8) * S + d + ((l >> 3) & 1) * 8);
            UNROLL for (int m = 0; m < MT; m++) {
                mma_bf16_16816(c[m][2 * n], x[m], y);
                mma_bf16_16816(c[m][2 * n + 1], x[m], y + 2);
            }
        }
    }
}

/* p: the results c packed by pairs */
template <int MT, int N>
INLINE void pack_pairs(uint32_t (*p)[N / 8][2], const float (*c)[N / 8][4])
{
    UNROLL for (int m = 0; m < MT; m++)
        UNROLL for (int n = 0; n < N / 8; n++) {
            p[m][n][0] = bf16_pair(c[m][n][0], c[m][n][1]);
            p[m][n][1] = bf16_pair(c[m][n][2], c[m][n][3]);
        }
}

/* c[MT][D/8] += p b: p [16 MT][N] packed, b N rows of a tile */
template <int D, int MT, int N>
INLINE void add_rows(float (*c)[D / 8][4], const uint32_t (*p)[N / 8][2],
                                         const Bf16 *b, int l)
{
    const int S = D + ATTN_PAD;
    UNROLL for (int n = 0; n < N / 16; n++) {
        uint32_t x[MT][4];
        UNROLL for (int m = 0; m < MT; m++)
            UNROLL for (int j = 0; j < 4; j++) x[m][j] = p[m][2 * n + (j >> 1)][j & 1];
        UNROLL for (int d = 0; d < D / 16; d++) {
            uint32_t y[4];
            ldsm_x4t(y, b + (n * 16 + (l & 15)) * S + d * 16 + (l >> 4) * 8);
            UNROLL for (int m = 0; m < MT; m++) {
                mma_bf16_16816(c[m][2 * d], x[m], y);
                mma_bf16_16816(c[m][2 * d + 1], x[m], y + 2);
            }
        }
    }
}

/* max, sum over the 4 lanes that hold a row */
INLINE float row_max(float x)
{
    UNROLL for (int i = 1; i <= 2; i <<= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
    return x;
}
INLINE float row_sum(float x)
{
    UNROLL for (int i = 1; i <= 2; i <<= 1) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

/* Rows of a warp's result that are to be computed again, by attn_row.h: those that became NaN by what
 * they do not see. Bit n / 8 of the lanes that hold row n. */
INLINE unsigned of_rows(unsigned mine)          /* what any of the 4 lanes that hold a row says */
{
    UNROLL for (int i = 1; i <= 2; i <<= 1) mine |= __shfl_xor_sync(~0u, mine, i);
    return mine;
}
INLINE bool is_set(unsigned rows, int n)        /* for all lanes */
{
    return __shfl_sync(~0u, rows, n % 8 * 4) >> (n / 8) & 1;
}
/* Has this lane's part of a row, r = 0 or 1, a NaN or an infinity in it? */
template <int D> INLINE bool any_odd(const float (*c)[4], int r)
{
    float z = 0;
    UNROLL for (int d = 0; d < D / 8; d++) z += 0 * c[d][2 * r] + 0 * c[d][2 * r + 1];
    return z != 0;
}

/* A warp's softmax so far: the largest score of each row, this lane's part of the sum of
 * exp(score - max), and the sum of that times v. */
template <int D, int MT> struct Soft { float m[MT][2], l[MT][2], o[MT][D / 8][4]; };

template <int D, int MT> INLINE void nothing_yet(Soft<D, MT> &x)
{
    UNROLL for (int i = 0; i < MT; i++) {
        UNROLL for (int r = 0; r < 2; r++) x.m[i][r] = ATTN_NONE, x.l[i][r] = 0;
        UNROLL for (int d = 0; d < D / 8; d++)
            UNROLL for (int j = 0; j < 4; j++) x.o[i][d][j] = 0;
    }
}
/* s becomes exp(s - max), with the maxima brought up to date; f: log2(e) / sqrt(D) */
template <int D, int MT, int N>
INLINE void soften(Soft<D, MT> &x, float (*s)[N / 8][4], float f)
{
    UNROLL for (int i = 0; i < MT; i++)
        UNROLL for (int r = 0; r < 2; r++) {
            float m = x.m[i][r];
            UNROLL for (int n = 0; n < N / 8; n++)
                m = fmaxf(m, fmaxf(s[i][n][2 * r], s[i][n][2 * r + 1]));
            m = row_max(m);
            const float c = exp2f((x.m[i][r] - m) * f), mf = m * f;
            x.m[i][r] = m;
            x.l[i][r] *= c;
            UNROLL for (int d = 0; d < D / 8; d++) {
                x.o[i][d][2 * r] *= c;
                x.o[i][d][2 * r + 1] *= c;
            }
            UNROLL for (int n = 0; n < N / 8; n++)
                UNROLL for (int j = 2 * r; j < 2 * r + 2; j++) {
                    s[i][n][j] = exp2f(s[i][n][j] * f - mf);
                    x.l[i][r] += s[i][n][j];
                }
        }
}

#endif
