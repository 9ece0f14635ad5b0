/* attn_cudnn.c -- when cuDNN does attention, and how: see cudnn.h.
 *
 * On compute capability 9, for whole batches of training: no documents, no dropout, all gradients
 * wanted, T a multiple of 128. A plan takes seconds, so few shapes get one, and none while a graph is
 * noted down; everything else is for our own kernels. cuDNN overwrites gradients where ours are
 * added to, so that they go to scratch first and are rounded once more on the way. */
#if defined ACT_BF16 && defined HAVE_CUDNN
#include "ops/cuda/attn_cudnn.h"
#include "base/err.h"
#include <stdlib.h>
#include <string.h>

enum { PLANS = 32 };
#ifndef CUDNN_MOST
#define CUDNN_MOST (512 << 20)          /* bytes */
#endif

int cudnn_used(void)
{
    const char *s = getenv("PIPEGPT_CUDNN");
    return cuda_capability() / 10 == 9 && !(s && !strcmp(s, "0"));
}
int cudnn_takes(const CudnnShape *s)
{
    return s->T >= 256 && s->T % 128 == 0 && (s->D == 64 || s->D == 128) && s->H % s->K == 0;
}
int cudnn_rows(const CudnnShape *s)
{
    const double row = 2. * s->H * s->T * s->T;
    int n = s->B;
    while (n > 0 && (s->B % n || n * row > CUDNN_MOST)) n--;
    return n;
}
static size_t padded(double bytes) { return ((size_t)bytes + 255) / 256 * 256; }
/* dq, dk and dv of n rows, one after the other, where they start in scratch; [3]: where they end */
static void places(size_t at[4], const CudnnShape *s, int n)
{
    const double token = (double)n * s->T * s->D * sizeof(Act);
    at[0] = 0;
    at[1] = padded(token * s->H);
    at[2] = at[1] + padded(token * s->K);
    at[3] = at[2] + padded(token * s->K);
}
/* cuDNN 9.26's workspace: dq's parts, a number for each query, dk and dv of each query head */
size_t cudnn_scratch(const CudnnShape *s)
{
    const int n = cudnn_takes(s) ? cudnn_rows(s) : 0;
    const double T = s->T, heads = (double)n * s->H;
    size_t at[4];
    places(at, s, n);
    return n ? at[3] + padded(heads * T * (2 * T + 4) + (s->K < s->H ? 4 * heads * T * s->D : 0) + 256)
             : 0;
}

typedef struct Kept { CudnnShape s; int backward; CudnnPlan *plan; } Kept;
/* NULL: not by cuDNN */
static CudnnPlan *plan_for(CudnnShape s, int backward)
{
    static Kept kept[PLANS];
    static int n;
    char why[512];
    if (!cudnn_used() || !cudnn_takes(&s)) return NULL;
    for (int i = 0; i < n; i++)
        if (!memcmp(&kept[i].s, &s, sizeof s) && kept[i].backward == backward) return kept[i].plan;
    if (n == PLANS || cuda_graph_noting()) return NULL;
    Kept *k = &kept[n++];
    k->s = s;
    k->backward = backward;
    k->plan = cudnn_plan(&s, backward, NULL, 0, 0, why, sizeof why);
    if (!k->plan) note(2, "CUDA: no attention by cuDNN: %s", why);
    return k->plan;
}

static bool aligned(void *const *p, int n)
{
    uintptr_t all = 0;
    for (int i = 0; i < n; i++) all |= (uintptr_t)p[i];
    return (all & 15) == 0;
}
bool cudnn_attn(Act *y, real *lse, const Act *q, const Act *k, const Act *v, CudnnShape s)
{
    void *array[CUDNN_ARRAYS] = { (void *)q, (void *)k, (void *)v, y, lse };
    if (!lse || !aligned(array, CUDNN_ARRAYS)) return false;
    CudnnPlan *p = plan_for(s, 0);
    if (p) cudnn_run(p, array, cuda_scratch(SLOT_ATTN, cudnn_workspace(p)), cuda_stream);
    return p != NULL;
}

/* the array's rows from b on, of `row` elements of `size` bytes */
static void *from(const void *p, size_t row, size_t size, int b)
{
    return (char *)p + (size_t)b * row * size;
}
bool cudnn_attn_bwd(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                    const Act *q, const Act *k, const Act *v, CudnnShape s)
{
    void *all[] = { dq, dk, dv, (void *)dy, (void *)y, (void *)lse, (void *)q, (void *)k, (void *)v };
    const int n = cudnn_rows(&s);
    const size_t T = (size_t)s.T, per_q = T * (size_t)(s.H * s.D), per_k = T * (size_t)(s.K * s.D);
    size_t at[4];
    CudnnShape part = s;
    part.B = n;
    if (!dq || !dk || !dv || !n || !aligned(all, 9)) return false;
    CudnnPlan *p = plan_for(part, 1);
    if (!p) return false;
    places(at, &s, n);
    char *tmp = cuda_scratch(SLOT_ATTN, at[3] + cudnn_workspace(p));
    for (int b = 0; b < s.B; b += n) {
        void *array[CUDNN_ARRAYS] = {
            [CUDNN_Q] = from(q, per_q, sizeof(Act), b), [CUDNN_K] = from(k, per_k, sizeof(Act), b),
            [CUDNN_V] = from(v, per_k, sizeof(Act), b), [CUDNN_Y] = from(y, per_q, sizeof(Act), b),
            [CUDNN_LSE] = from(lse, T * (size_t)s.H, sizeof(real), b),
            [CUDNN_DY] = from(dy, per_q, sizeof(Act), b),
            [CUDNN_DQ] = tmp, [CUDNN_DK] = tmp + at[1], [CUDNN_DV] = tmp + at[2],
        };
        cudnn_run(p, array, tmp + at[3], cuda_stream);
        CU(add)(from(dq, per_q, sizeof(Act), b), array[CUDNN_DQ], (int64_t)per_q * n);
        CU(add)(from(dk, per_k, sizeof(Act), b), array[CUDNN_DK], (int64_t)per_k * n);
        CU(add)(from(dv, per_k, sizeof(Act), b), array[CUDNN_DV], (int64_t)per_k * n);
    }
    return true;
}
#else
typedef int not_built_in;       /* a file must hold something */
#endif
