/* few.cu -- a linear map of few rows, as in decoding: every weight is read once and used a few times,
 * so that memory is what counts. A warp for each output: its lanes go through the row of w side by
 * side, 16 bytes each, and x comes from the cache. */
#include "ops/cuda/cu.h"
#include "ops/cuda/few.h"

enum { WARPS = 4 };
#ifdef __CUDACC__
#define UNROLL_4 _Pragma("unroll 4")            /* loads in flight */
#else
#define UNROLL_4
#endif

/* y[N,O] = x[N,C] w^T, w [O,C]; C in whole steps of VW */
template <int N>
static __global__ void few_rows(Act *y, const Act *x, const Act *w, int C, int O, int beta)
{
    const int o = blockIdx.x * WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (o >= O) return;
    const Act *row = w + (int64_t)o * C;
    float s[N];
    UNROLL for (int n = 0; n < N; n++) s[n] = 0;
    UNROLL_4 for (int c = lane * VW; c < C; c += WARP * VW) {
        float a[VW];
        aload<VW>(a, row + c);
        UNROLL for (int n = 0; n < N; n++) {
            float b[VW];
            aload<VW>(b, x + (int64_t)n * C + c);
            UNROLL for (int j = 0; j < VW; j++) s[n] += a[j] * b[j];
        }
    }
    UNROLL for (int n = 0; n < N; n++) {
        s[n] = warp_sum(s[n]);
        Act *to = y + (int64_t)n * O + o;
        if (lane == 0) aput(to, beta ? s[n] + (float)beta * aget(to) : s[n]);
    }
}

int CU(few_rows)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    if (N < 1 || N > 4 || O < 1 || !cu_wide(x, C) || !cu_wide(w, C)) return 0;
    auto kernel = N == 1 ? few_rows<1> : N == 2 ? few_rows<2> : N == 3 ? few_rows<3> : few_rows<4>;
    LAUNCH(kernel, (unsigned)div_up(O, WARPS), WARP * WARPS, 0, cuda_stream, y, x, w, C, O, beta);
    return 1;
}
