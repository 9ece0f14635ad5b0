/* lib/ops/cuda/attn_cudnn.c, which hands attention to cuDNN, with our own kernels in cuDNN's place
 * (they are checked in attn.c): the right rows at the right places, gradients added, plans kept, and
 * everything that is not for cuDNN refused. */
#include "tap.h"
#ifdef ON_DEVICE
int main(void)
{
    skip("cuDNN's place taken by our kernels", "the emulator does that");
    return done();
}
#else
#define ACT_BF16
#undef HAVE_CUDNN
#define HAVE_CUDNN
#define CUDNN_MOST 300000               /* one row of SHAPE at a time */
#define cudnn_attn twin_attn
#define cudnn_attn_bwd twin_attn_bwd
#define cudnn_used twin_used
#define cudnn_takes twin_takes
#define cudnn_rows twin_rows
#define cudnn_scratch twin_scratch
#include "ops/cuda/attn_cudnn.h"
#define SLOT_ATTN SLOT_FP8              /* our kernels in cuDNN's place have SLOT_ATTN */
#include "ops/cuda/attn_cudnn.c"
#undef SLOT_ATTN

static const CudnnShape SHAPE = { 2, 256, 2, 1, 64, 0 };

struct CudnnPlan { CudnnShape s; int backward; };
static int plans, runs, wrong;
CudnnPlan *cudnn_plan(const CudnnShape *s, int backward, const char *device, int capability, int sm,
                      char *why, size_t n)
{
    (void)capability, (void)sm;
    snprintf(why, n, "a head of 128");
    wrong += device != NULL;
    plans++;
    if (s->D == 128) return NULL;
    CudnnPlan *p = xmalloc(sizeof *p);
    *p = (CudnnPlan){ *s, backward };
    return p;
}
size_t cudnn_workspace(const CudnnPlan *p) { return p->backward ? 1000 : 256; }
void cudnn_free(CudnnPlan *p) { free(p); }
void cudnn_run(CudnnPlan *p, void *const a[CUDNN_ARRAYS], void *workspace, void *stream)
{
    const CudnnShape s = p->s;
    const size_t q = (size_t)s.B * (size_t)s.T * (size_t)(s.H * s.D) * sizeof(Act),
                 k = q / (size_t)s.H * (size_t)s.K;
    wrong += !workspace || (uintptr_t)workspace % 256 || stream != cuda_stream;
    runs++;
    cuda_zero(workspace, cudnn_workspace(p));           /* it may be written to */
    if (!p->backward) {
        wrong += a[CUDNN_DY] || a[CUDNN_DQ];
        CU(attn)(a[CUDNN_Y], a[CUDNN_LSE], a[CUDNN_Q], a[CUDNN_K], a[CUDNN_V], NULL, s.B, s.T, s.H, s.K,
                 s.D, s.window);
        return;
    }
    cuda_zero(a[CUDNN_DQ], q);
    cuda_zero(a[CUDNN_DK], k);
    cuda_zero(a[CUDNN_DV], k);
    CU(attn_bwd)(a[CUDNN_DQ], a[CUDNN_DK], a[CUDNN_DV], a[CUDNN_DY], a[CUDNN_Y], a[CUDNN_LSE],
                 a[CUDNN_Q], a[CUDNN_K], a[CUDNN_V], NULL, s.B, s.T, s.H, s.K, s.D, s.window);
    for (int i = 0; i < (int)cudnn_workspace(p) / 4; i += 50)
        cuda_put((float *)workspace + i, &(float){ 1e30f }, sizeof(float));
}

/* n numbers of [-1, 1), as bfloat16, on the device */
static Act *numbers(size_t n, uint32_t seed)
{
    Act *host = xmalloc(n * sizeof *host), *d = cuda_alloc(n * sizeof *d);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        const union { float f; uint32_t u; } x = { .f = (float)(seed >> 8) * 0x1p-23f - 1 };
        host[i].bits = (uint16_t)(x.u >> 16);
    }
    cuda_put(d, host, n * sizeof *d);
    free(host);
    return d;
}
static bool same(const void *x, const void *y, size_t bytes)
{
    char *a = xmalloc(2 * bytes), *b = a + bytes;
    cuda_get(a, x, bytes);
    cuda_get(b, y, bytes);
    const bool is = !memcmp(a, b, bytes);
    free(a);
    return is;
}
typedef struct Arrays {
    Act *q, *k, *v, *dy, *y[2], *g[2][3];
    real *lse[2];
    size_t nq, nk, nl;
} Arrays;
static Arrays arrays(CudnnShape s)
{
    Arrays a;
    a.nl = (size_t)(s.B * s.T * s.H);
    a.nq = a.nl * (size_t)s.D;
    a.nk = a.nq / (size_t)s.H * (size_t)s.K;
    a.q = numbers(a.nq, 1), a.k = numbers(a.nk, 2), a.v = numbers(a.nk, 3), a.dy = numbers(a.nq, 4);
    for (int i = 0; i < 2; i++) {
        a.y[i] = cuda_alloc(a.nq * sizeof(Act));
        a.lse[i] = cuda_alloc(a.nl * sizeof(real));
        for (int j = 0; j < 3; j++) a.g[i][j] = numbers(j ? a.nk : a.nq, 5 + (uint32_t)j);
    }
    return a;
}
static bool by_twin(const Arrays *a, CudnnShape s)
{
    Act *const *g = a->g[0];
    return cudnn_attn_bwd(g[0], g[1], g[2], a->dy, a->y[0], a->lse[0], a->q, a->k, a->v, s);
}
static void check(CudnnShape s)
{
    Arrays a = arrays(s);
    runs = 0;
    ok(cudnn_attn(a.y[0], a.lse[0], a.q, a.k, a.v, s) && runs == 1,
       "window %d: forward, all rows at once", s.window);
    CU(attn)(a.y[1], a.lse[1], a.q, a.k, a.v, NULL, s.B, s.T, s.H, s.K, s.D, s.window);
    ok(same(a.y[0], a.y[1], a.nq * sizeof(Act)) && same(a.lse[0], a.lse[1], a.nl * sizeof(real)),
       "window %d: y and lse", s.window);
    ok(by_twin(&a, s) && runs == 1 + s.B / cudnn_rows(&s),
       "window %d: backward, %d of %d rows at a time", s.window, cudnn_rows(&s), s.B);
    Act *d[3];
    for (int j = 0; j < 3; j++) d[j] = cuda_alloc((j ? a.nk : a.nq) * sizeof(Act));
    CU(attn_bwd)(d[0], d[1], d[2], a.dy, a.y[1], a.lse[1], a.q, a.k, a.v, NULL, s.B, s.T, s.H, s.K, s.D,
                 s.window);
    for (int j = 0; j < 3; j++) CU(add)(a.g[1][j], d[j], (int64_t)(j ? a.nk : a.nq));
    for (int j = 0; j < 3; j++)
        ok(same(a.g[0][j], a.g[1][j], (j ? a.nk : a.nq) * sizeof(Act)), "window %d: d%c is added",
           s.window, "qkv"[j]);
}
/* none of these may run anything */
static void check_refused(void)
{
    const CudnnShape s = SHAPE;
    const Arrays a = arrays(s);
    Act *q = a.q, *k = a.k, *v = a.v, *y = a.y[0], *const *g = a.g[0];
    real *lse = a.lse[0];
    CudnnShape odd = s, head = s, many = s;
    runs = 0;
    odd.T = 200, head.D = 128, many.H = 8;
    ok(!cudnn_attn(y, NULL, q, k, v, s), "no lse wanted: ours");
    ok(!cudnn_attn(y, lse, q + 1, k, v, s), "q that is not aligned: ours");
    ok(!cudnn_attn(y, lse, q, k, v, odd), "T not a multiple of 128: ours");
    ok(!cudnn_attn_bwd(g[0], NULL, g[2], a.dy, y, lse, q, k, v, s), "dk not wanted: ours");
    ok(!cudnn_attn_bwd(g[0], g[1], g[2], a.dy, y, lse, q, k, v, many), "a row that takes too much: ours");
    plans = 0;
    ok(!cudnn_attn(y, lse, q, k, v, head) && !cudnn_attn(y, lse, q, k, v, head) && plans == 1,
       "a shape without a plan: ours, and not asked for again");
    setenv("PIPEGPT_CUDNN", "0", 1);
    ok(!cudnn_attn(y, lse, q, k, v, s) && !by_twin(&a, s), "PIPEGPT_CUDNN=0: ours");
    unsetenv("PIPEGPT_CUDNN");
    setenv("CUEMU_CAPABILITY", "100", 1);
    cuda_start(0);
    ok(!cudnn_attn(y, lse, q, k, v, s) && !by_twin(&a, s), "compute capability 10.0: ours");
    setenv("CUEMU_CAPABILITY", "90", 1);
    cuda_start(0);
    CudnnShape later = s;
    later.window = 7;
    cuda_graph_begin();
    const bool noted = cudnn_attn(y, lse, q, k, v, later);
    cuda_graph_free(cuda_graph_end());
    ok(!noted && plans == 1, "no plan is made while a graph is noted down");
    ok(runs == 0, "cuDNN did nothing of all that");
}

int main(void)
{
    setenv("CUEMU_CAPABILITY", "90", 1);
    cuda_start(0);
    CudnnShape window = SHAPE;
    window.window = 100;
    check(SHAPE);
    check(window);
    const int made = plans;
    check(window);
    ok(made == 4 && plans == made, "plans are kept");
    const CudnnShape odd = { 1, 77, 1, 1, 64, 0 };
    ok(cudnn_scratch(&SHAPE) > 2 * 256 * 64 * 4 && !cudnn_scratch(&odd),
       "scratch is planned for what is taken");
    check_refused();
    ok(!wrong, "the stream, the workspace and the arrays are as cuDNN wants them");
    return done();
}
#endif
