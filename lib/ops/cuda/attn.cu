/* attn.cu -- attention and its cache: which kernels an operation goes to. */
#include "ops/cuda/attn.h"
#include "ops/cuda/attn_cudnn.h"

#ifdef ACT_BF16
enum { FEW = 16 };      /* queries of a row for which it is better to share out the keys */

/* The kernels copy 16 bytes at a time. */
static bool aligned(const void *a, const void *b, const void *c, const void *d)
{
    return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) & 15) == 0;
}
static bool for_tensors(const AttnShape &a) { return a.D % 32 == 0 && a.D <= 128; }

#ifdef HAVE_CUDNN
static CudnnShape shape_of(const AttnShape &a) { return { a.B, a.T, a.H, a.K, a.D, a.window }; }
static bool plainly_causal(const AttnShape &a) { return !a.pos && !a.doc && !(a.drop.by > 0); }
static bool by_cudnn(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const AttnShape &a)
{
    return plainly_causal(a) && cudnn_attn(y, lse, q, k, v, shape_of(a));
}
static bool by_cudnn(const AttnGrads &g, const AttnShape &a)
{
    return plainly_causal(a) &&
           cudnn_attn_bwd(g.dq, g.dk, g.dv, g.dy, g.y, g.lse, g.q, g.k, g.v, shape_of(a));
}
#else
static bool by_cudnn(Act *, real *, const Act *, const Act *, const Act *, const AttnShape &)
{
    return false;
}
static bool by_cudnn(const AttnGrads &, const AttnShape &) { return false; }
#endif

static void forward(Act *y, real *lse, const Act *q, const Act *k, const Act *v, AttnShape a)
{
    if (by_cudnn(y, lse, q, k, v, a)) return;
    if (!for_tensors(a) || !aligned(y, q, k, v)) CU(attn_plain)(y, lse, q, k, v, a);
    else if (!a.pos || a.T > FEW) cuda_attn_fwd(y, lse, q, k, v, a);
    else cuda_attn_split(y, q, k, v, a, cuda_scratch(SLOT_ATTN, cuda_attn_split_tmp(a)));
}
static void backward(AttnGrads g, AttnShape a)
{
    if (by_cudnn(g, a)) return;
    if (for_tensors(a) && aligned(g.dq, g.dk, g.dv, g.dy) && aligned(g.y, g.q, g.k, g.v))
        cuda_attn_bwd(g, a, cuda_scratch(SLOT_ATTN, cuda_attn_bwd_tmp(a)));
    else CU(attn_plain_bwd)(g, a, cuda_scratch(SLOT_ATTN, CU(attn_plain_bwd_tmp)(a)));
}
#else
static void forward(Act *y, real *lse, const Act *q, const Act *k, const Act *v, AttnShape a)
{
    CU(attn_plain)(y, lse, q, k, v, a);
}
static void backward(AttnGrads g, AttnShape a)
{
    CU(attn_plain_bwd)(g, a, cuda_scratch(SLOT_ATTN, CU(attn_plain_bwd_tmp)(a)));
}
#endif

void CU(attn)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
              int T, int H, int K, int D, int window)
{
    forward(y, lse, q, k, v, { B, T, T, H, K, D, window, doc, NULL, {} });
}
void CU(attn_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                  const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                  int K, int D, int window)
{
    backward({ dq, dk, dv, dy, y, q, k, v, lse }, { B, T, T, H, K, D, window, doc, NULL, {} });
}
void CU(attn_drop)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc,
                   int B, int T, int H, int K, int D, int window, const Drop *d)
{
    forward(y, lse, q, k, v, { B, T, T, H, K, D, window, doc, NULL, dropping(d) });
}
void CU(attn_drop_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                       const Act *q, const Act *k, const Act *v, const int *doc, int B, int T,
                       int H, int K, int D, int window, const Drop *d)
{
    backward({ dq, dk, dv, dy, y, q, k, v, lse },
             { B, T, T, H, K, D, window, doc, NULL, dropping(d) });
}
void CU(attn_kv)(Act *y, const Act *q, const Act *kc, const Act *vc, const int *pos, int B, int T,
                 int M, int H, int K, int D, int window)
{
    forward(y, NULL, q, kc, vc, { B, T, M, H, K, D, window, NULL, pos, {} });
}

/* n units of k and v to each row's place in the cache, of m units; a position is `row` units */
template <class U>
static __global__ void kv_put(U *kc, U *vc, const U *k, const U *v, const int *pos, int64_t n,
                              int64_t m, int64_t row)
{
    const int64_t b = blockIdx.y, to = b * m + pos[b] * row;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        kc[to + i] = k[b * n + i];
        vc[to + i] = v[b * n + i];
    }
}
template <class U>
static void put(void *kc, void *vc, const void *k, const void *v, const int *pos, int B, int T,
                int M, int64_t row)
{
    const unsigned blocks = (unsigned)cu_min(div_up(T * row, 256), 1024);
    LAUNCH(kv_put<U>, dim3(blocks, B), 256, 0, cuda_stream, (U *)kc, (U *)vc, (const U *)k,
           (const U *)v, pos, T * row, M * row, row);
}
void CU(kv_put)(Act *kc, Act *vc, const Act *k, const Act *v, const int *pos, int B, int T, int M,
                int K, int D)
{
    const int64_t row = (int64_t)K * D;
    if (cu_wide(kc, row) && cu_wide(vc, row) && cu_wide(k, row) && cu_wide(v, row))
        put<uint4>(kc, vc, k, v, pos, B, T, M, row / VW);
    else put<Act>(kc, vc, k, v, pos, B, T, M, row);
}
