/* attn_plain.cu -- attention for what tensor cores do not take: fp32, and other head sizes. A warp
 * works on one row alone, a query or (dk, dv) a key (attn_row.h).
 */
#include "ops/cuda/attn_row.h"

/* a warp's number in the grid */
INLINE int64_t warp_of_grid()
{
    return (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
}
INLINE float *room_of(float *all, int floats) { return all + threadIdx.x / 32 * floats; }

template <int DROP>
static __global__ void plain_fwd(Act *y, float *lse, const Act *q, const Act *k, const Act *v,
                                 AttnShape a, float f)
{
    DYN_SMEM(float, all);
    const int64_t n = warp_of_grid();
    if (n < (int64_t)a.B * a.T * a.H)
        row_fwd<DROP>(y, lse, q, k, v, a, f, n, room_of(all, ROW_ROOM_FWD(a.D)));
}

/* dot[n] = dy . y */
static __global__ void plain_dot(float *to, const Act *y, const Act *dy, int64_t n, int D)
{
    const int64_t i = warp_of_grid();
    if (i >= n) return;
    float s = 0;
    for (int d = lane_of_warp(); d < D; d += 32) s += aget(y + i * D + d) * aget(dy + i * D + d);
    s = warp_sum(s);
    if (lane_of_warp() == 0) to[i] = s;
}
INLINE Stats stats_of(const AttnGrads &g, const float *dots, const AttnShape &a)
{
    return { g.lse, dots, ATTN_LOG2E, (int64_t)a.T * a.H, a.H, 1 };
}
template <int DROP>
static __global__ void plain_dq(AttnGrads g, const float *dots, AttnShape a, float f)
{
    DYN_SMEM(float, all);
    const int64_t n = warp_of_grid();
    if (n < (int64_t)a.B * a.T * a.H)
        row_dq<DROP>(g.dq, g, stats_of(g, dots, a), a, f, n, room_of(all, ROW_ROOM_DQ(a.D)));
}
template <int DROP>
static __global__ void plain_dkdv(AttnGrads g, const float *dots, AttnShape a, float f)
{
    DYN_SMEM(float, all);
    const int64_t n = warp_of_grid();
    if (n < (int64_t)a.B * a.T * a.K)
        row_dkdv<DROP>(g.dk, g.dv, g, stats_of(g, dots, a), a, f, n,
                       room_of(all, ROW_ROOM_DKDV(a.D)));
}

/* Blocks of up to four warps, each with `floats` of shared memory. */
typedef struct Shape { unsigned grid, threads; size_t smem; } Shape;
static Shape shape_of(int64_t units, int64_t floats)
{
    const int64_t room = floats * (int64_t)sizeof(float), warps = cu_min(4, CU_SHARED_MAX / room);
    if (warps < 1) cuda_check(cudaErrorInvalidValue, "attention with heads that large");
    return { (unsigned)div_up(units, warps), (unsigned)warps * 32, (size_t)(warps * room) };
}
#define RUN(kernel, s, ...) LAUNCH(kernel, (s).grid, (s).threads, (s).smem, cuda_stream, __VA_ARGS__)

void CU(attn_plain)(Act *y, float *lse, const Act *q, const Act *k, const Act *v, AttnShape a)
{
    auto fwd = a.drop.by > 0 ? plain_fwd<1> : plain_fwd<0>;
    const Shape s = shape_of((int64_t)a.B * a.T * a.H, ROW_ROOM_FWD(a.D));
    RUN(fwd, s, y, lse, q, k, v, a, ATTN_LOG2E / sqrtf((float)a.D));
}
size_t CU(attn_plain_bwd_tmp)(AttnShape a) { return (size_t)a.B * a.T * a.H * sizeof(float); }
void CU(attn_plain_bwd)(AttnGrads g, AttnShape a, void *tmp)
{
    const int64_t n = (int64_t)a.B * a.T * a.H, nk = (int64_t)a.B * a.T * a.K;
    const float f = 1 / sqrtf((float)a.D);
    const Shape flat = { (unsigned)div_up(n, 4), 128, 0 }, rows = shape_of(n, ROW_ROOM_DQ(a.D)),
                keys = shape_of(nk, ROW_ROOM_DKDV(a.D));
    float *dots = (float *)tmp;
    auto dkdv = a.drop.by > 0 ? plain_dkdv<1> : plain_dkdv<0>;
    auto dq = a.drop.by > 0 ? plain_dq<1> : plain_dq<0>;
    RUN(plain_dot, flat, dots, g.y, g.dy, n, a.D);
    if (g.dk || g.dv) RUN(dkdv, keys, g, dots, a, f);
    if (g.dq) RUN(dq, rows, g, dots, a, f);
}
