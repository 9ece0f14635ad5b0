/* attn.h -- what the files of attention share: attn.cu, which picks among kernels, and theirs.
 *
 * bfloat16 activations with heads of 32, 64, 96 or 128 go to tensor cores (attn_fwd.cu,
 * attn_bwd.cu, attn_split.cu; sm_80 and later), everything else to the plain kernels
 * (attn_plain.cu). Sums are fp32; their order is fixed by the shapes. A workspace (tmp) is on the
 * device, aligned to 16.
 */
#ifndef OPS_CUDA_ATTN_H
#define OPS_CUDA_ATTN_H
#include "ops/cuda/cu.h"

/* A row's queries t = 0 .. T-1 are at positions (pos ? pos[b] : 0) + t; its keys are [M,K,D].
 * doc, pos: as in ops.h, on the device, or NULL; M is T without pos. drop is of
 * the weights, by the numbers of ops.h; not with pos. */
typedef struct AttnShape {
    int B, T, M, H, K, D, window;
    const int *doc, *pos;
    Dropping drop;
} AttnShape;

typedef struct AttnGrads {
    Act *dq, *dk, *dv;                  /* are added to; NULL: not wanted */
    const Act *dy, *y, *q, *k, *v;
    const float *lse;
} AttnGrads;

#define ATTN_NONE (-1e30f)      /* below any score; finite, so that NONE - NONE is 0 */
#define ATTN_LOG2E 1.4426950408889634f
#define ATTN_LN2 0.6931471805599453f

INLINE int imin(int a, int b) { return a < b ? a : b; }
/* The first key that query t of row b sees, at position p. It does not decrease with t. */
INLINE int first_key(const AttnShape &a, int b, int t, int p)
{
    int lo = a.window > 0 && p > a.window ? p - a.window : 0;
    if (a.doc && a.doc[(int64_t)b * a.T + t] > lo) lo = a.doc[(int64_t)b * a.T + t];
    return lo;
}
/* One past the last query of row b that sees one of the keys that end before `end`, key end - 1
 * being one of them. */
INLINE int last_query(const AttnShape &a, int b, int end)
{
    int lo = end - 1, hi = a.window > 0 && a.window < a.T - end ? end + a.window : a.T;
    const int *doc = a.doc ? a.doc + (int64_t)b * a.T : NULL;
    while (doc && lo < hi) {                    /* doc does not decrease */
        const int mid = (lo + hi) / 2;
        if (doc[mid] < end) lo = mid + 1;
        else hi = mid;
    }
    return hi;
}
/* The number of the weight of head h of row b, query t, for key 0; the other keys' follow. */
INLINE uint64_t drop_row(const AttnShape &a, int b, int h, int t)
{
    const uint64_t T = (uint64_t)a.T;
    return (((drop_start(a.drop) + (uint64_t)b) * (uint64_t)a.H + (uint64_t)h) * T + (uint64_t)t) * T;
}

#ifdef __cplusplus
extern "C" {
#endif
/* lse [B,T,H] or NULL */
void CU(attn_plain)(Act *y, float *lse, const Act *q, const Act *k, const Act *v, AttnShape a);
void CU(attn_plain_bwd)(AttnGrads g, AttnShape a, void *tmp);
size_t CU(attn_plain_bwd_tmp)(AttnShape a);
#ifdef ACT_BF16
void cuda_attn_fwd(Act *y, float *lse, const Act *q, const Act *k, const Act *v, AttnShape a);
void cuda_attn_bwd(AttnGrads g, AttnShape a, void *tmp);
size_t cuda_attn_bwd_tmp(AttnShape a);
/* few queries, many keys */
void cuda_attn_split(Act *y, const Act *q, const Act *k, const Act *v, AttnShape a, void *tmp);
size_t cuda_attn_split_tmp(AttnShape a);
#endif
#ifdef __cplusplus
}
#endif
#endif
