/* attn_faults.h -- attention's kernels once more, in the namespace and with the FAULT that
 * attn_faults.cpp has set up. */
#undef OPS_CUDA_ATTN_TILE_H
#undef OPS_CUDA_ATTN_ROW_H
namespace fwd {
#include "ops/cuda/attn_fwd.cu"
} // namespace fwd
#undef OPS_CUDA_ATTN_TILE_H
#undef OPS_CUDA_ATTN_ROW_H
namespace bwd {
#include "ops/cuda/attn_bwd.cu"
} // namespace bwd
#undef OPS_CUDA_ATTN_TILE_H
#undef OPS_CUDA_ATTN_ROW_H
namespace split {
#include "ops/cuda/attn_split.cu"
} // namespace split

static void attn(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
                 int T, int H, int K, int D, int window)
{
    fwd::cuda_attn_fwd(y, lse, q, k, v, { B, T, T, H, K, D, window, doc, NULL, {} });
}
static void attn_bwd(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                     const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                     int K, int D, int window)
{
    const AttnShape a = { B, T, T, H, K, D, window, doc, NULL, {} };
    bwd::cuda_attn_bwd({ dq, dk, dv, dy, y, q, k, v, lse }, a,
                       cuda_scratch(SLOT_ATTN, bwd::cuda_attn_bwd_tmp(a)));
}
static void attn_drop(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc,
                      int B, int T, int H, int K, int D, int window, const Drop *d)
{
    fwd::cuda_attn_fwd(y, lse, q, k, v, { B, T, T, H, K, D, window, doc, NULL, dropping(d) });
}
static void attn_drop_bwd(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                          const Act *q, const Act *k, const Act *v, const int *doc, int B, int T,
                          int H, int K, int D, int window, const Drop *d)
{
    const AttnShape a = { B, T, T, H, K, D, window, doc, NULL, dropping(d) };
    bwd::cuda_attn_bwd({ dq, dk, dv, dy, y, q, k, v, lse }, a,
                       cuda_scratch(SLOT_ATTN, bwd::cuda_attn_bwd_tmp(a)));
}
static void attn_kv(Act *y, const Act *q, const Act *kc, const Act *vc, const int *pos, int B,
                    int T, int M, int H, int K, int D, int window)
{
    const AttnShape a = { B, T, M, H, K, D, window, NULL, pos, {} };
    split::cuda_attn_split(y, q, kc, vc, a, cuda_scratch(SLOT_ATTN, split::cuda_attn_split_tmp(a)));
}
static void put_into(Ops *o)
{
    o->attn = attn;
    o->attn_bwd = attn_bwd;
    o->attn_drop = attn_drop;
    o->attn_drop_bwd = attn_drop_bwd;
    o->attn_kv = attn_kv;
}
#undef FAULT
