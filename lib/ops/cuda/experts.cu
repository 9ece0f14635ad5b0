/* experts.cu -- products by expert: rows [off[e], off[e+1]) with the e-th matrix, where only the
 * device knows off. A block of four warps makes a tile of 64 x 64 of the result, from slices of 32
 * in shared memory; with bfloat16 on tensor cores, else with plain multiplications. */
#include "ops/cuda/cu.h"

#ifndef FAULT
#define FAULT 0     /* tests leave out a barrier: 1 once a slice is there, 2 before the next one */
#endif
enum { TILE = 64, DEEP = 32, THREADS = 128, PITCH = DEEP + 8 };

/* c[i][j] = sum over k of a[i sa_i + k sa_k] b[j sb_j + k sb_k], i < m, j < n, k < depth */
typedef struct Product {
    const Act *a, *b;
    int64_t sa_i, sa_k, sb_j, sb_k;
    int m, n, depth;
} Product;

/* t[i][k] = x[i si + k sk], 0 outside; the threads walk along what lies together in memory */
INLINE void load_tile(Act (*t)[PITCH], const Act *x, int64_t si, int64_t sk, int rows, int deep)
{
    for (int u = threadIdx.x; u < TILE * DEEP; u += THREADS) {
        const int i = sk == 1 ? u / DEEP : u % TILE, k = sk == 1 ? u % DEEP : u / TILE;
        if (i < rows && k < deep) t[i][k] = x[i * si + k * sk];
        else aput(&t[i][k], 0);
    }
}
#ifdef ACT_BF16
enum { SUMS = 32 };
/* the element of the tile that sum s of this thread is; warp w has rows 16 w to 16 w + 15 */
INLINE int row_of(int s) { return threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4 + s % 4 / 2 * 8; }
INLINE int col_of(int s) { return s / 4 * 8 + threadIdx.x % 4 * 2 + s % 2; }
INLINE void multiply(float *c, Act (*a)[PITCH], Act (*b)[PITCH])
{
    const int lane = threadIdx.x % WARP, w = threadIdx.x / WARP;
    UNROLL for (int k = 0; k < DEEP; k += 16) {
        uint32_t fa[4], fb[4];
        ldsm_x4(fa, &a[w * 16 + lane % 16][k + lane / 16 * 8]);
        UNROLL for (int j = 0; j < TILE; j += 16) {
            ldsm_x4(fb, &b[j + lane % 8 + lane / 16 * 8][k + lane / 8 % 2 * 8]);
            mma_bf16_16816(c + j / 8 * 4, fa, fb);
            mma_bf16_16816(c + j / 8 * 4 + 4, fa, fb + 2);
        }
    }
}
#else
enum { SUMS = 32 };
INLINE int row_of(int s) { return threadIdx.x / 16 + s / 4 * 8; }       /* 8 rows, 4 columns */
INLINE int col_of(int s) { return threadIdx.x % 16 + s % 4 * 16; }
INLINE void multiply(float *c, Act (*a)[PITCH], Act (*b)[PITCH])
{
    for (int k = 0; k < DEEP; k++) {
        float x[8], y[4];
        UNROLL for (int i = 0; i < 8; i++) x[i] = a[row_of(4 * i)][k];
        UNROLL for (int j = 0; j < 4; j++) y[j] = b[col_of(j)][k];
        UNROLL for (int s = 0; s < SUMS; s++) c[s] += x[s / 4] * y[s % 4];
    }
}
#endif
/* the tile at (i0, j0) */
INLINE void tile(float *c, const Product *p, int i0, int j0)
{
    SHARED(Act, mem_a, TILE * PITCH);
    SHARED(Act, mem_b, TILE * PITCH);
    Act (*a)[PITCH] = (Act (*)[PITCH])mem_a, (*b)[PITCH] = (Act (*)[PITCH])mem_b;
    UNROLL for (int s = 0; s < SUMS; s++) c[s] = 0;
    for (int k = 0; k < p->depth; k += DEEP) {
        load_tile(a, p->a + i0 * p->sa_i + k * p->sa_k, p->sa_i, p->sa_k, p->m - i0, p->depth - k);
        load_tile(b, p->b + j0 * p->sb_j + k * p->sb_k, p->sb_j, p->sb_k, p->n - j0, p->depth - k);
        if (FAULT != 1) __syncthreads();
        multiply(c, a, b);
        if (FAULT != 2) __syncthreads();
    }
}
/* The t-th tile of rows: its expert and first row within it; false if there is none. */
INLINE bool find(int *e, int *row, int t, const int *off, int E)
{
    for (*e = 0; *e < E; ++*e) {
        const int tiles = (off[*e + 1] - off[*e] + TILE - 1) / TILE;
        if (t < tiles) {
            *row = t * TILE;
            return true;
        }
        t -= tiles;
    }
    return false;
}
/* y[r] = beta y[r] + x[r] . w, for rows of the expert; x rows of `depth`, y of `width`; w[e] read
 * with the strides of j and k. Blocks are numbered along x, which has room for them all: the tiles of
 * the same rows next to each other. */
static __global__ void by_rows(Act *y, const Act *x, const Act *w, const int *off, int E, int depth,
                               int width, int64_t sj, int64_t sk, int beta)
{
    const int across = (width + TILE - 1) / TILE, j0 = (int)(blockIdx.x % across) * TILE;
    int e, i0;
    if (!find(&e, &i0, (int)(blockIdx.x / across), off, E)) return;
    const Product p = { x + (int64_t)off[e] * depth, w + (int64_t)e * depth * width, depth, 1, sj, sk,
                        off[e + 1] - off[e], width, depth };
    float c[SUMS];
    tile(c, &p, i0, j0);
    UNROLL for (int s = 0; s < SUMS; s++) {
        const int i = i0 + row_of(s), j = j0 + col_of(s);
        if (i >= p.m || j >= p.n) continue;
        Act *to = y + ((int64_t)off[e] + i) * width + j;
        aput(to, c[s] + (beta ? aget(to) : 0));
    }
}
/* dw[e] += dy^T x over the expert's rows, [O,C] */
static __global__ void by_expert(real *dw, const Act *dy, const Act *x, const int *off, int C, int O)
{
    const int e = blockIdx.z, i0 = (int)blockIdx.y * TILE, j0 = (int)blockIdx.x * TILE;
    if (off[e + 1] == off[e]) return;
    const Product p = { dy + (int64_t)off[e] * O, x + (int64_t)off[e] * C, 1, O, 1, C, O, C,
                        off[e + 1] - off[e] };
    float c[SUMS];
    tile(c, &p, i0, j0);
    UNROLL for (int s = 0; s < SUMS; s++) {
        const int i = i0 + row_of(s), j = j0 + col_of(s);
        if (i < O && j < C) dw[((int64_t)e * O + i) * C + j] += c[s];
    }
}
static void rows(Act *y, const Act *x, const Act *w, const int *off, int n, int E, int depth,
                 int width, int64_t sj, int64_t sk, int beta)
{
    if (n <= 0) return;
    const unsigned blocks = (unsigned)(div_up(width, TILE) * (div_up(n, TILE) + E));
    LAUNCH(by_rows, blocks, THREADS, 0, cuda_stream, y, x, w, off, E, depth, width, sj, sk, beta);
}
void CU(experts)(Act *y, const Act *x, const Act *w, const int *off, int n, int E, int C, int O)
{
    rows(y, x, w, off, n, E, C, O, C, 1, 0);
}
void CU(experts_dx)(Act *dx, const Act *dy, const Act *w, const int *off, int n, int E, int C,
                    int O, int beta)
{
    if (dx) rows(dx, dy, w, off, n, E, O, C, 1, C, beta);
}
void CU(experts_dw)(real *dw, const Act *dy, const Act *x, const int *off, int n, int E, int C,
                    int O)
{
    if (!dw || n <= 0) return;
    const dim3 grid((unsigned)div_up(C, TILE), (unsigned)div_up(O, TILE), (unsigned)E);
    LAUNCH(by_expert, grid, THREADS, 0, cuda_stream, dw, dy, x, off, C, O);
}
