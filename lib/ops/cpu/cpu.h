/* cpu.h -- what the files of the CPU back-end share. Each of them is compiled once per tier, with
 * the tier's name in TIER and its instructions allowed by compiler flags; those that see activations
 * once more with ACT_BF16, where an Act is a bfloat16 and a real stays a float, and for AVX-512 a
 * third time with ACT_DOT, where the processor multiplies those. What multiplies matrices also with
 * ACT_TILE=tile, by AMX, and for tests with ACT_TILE=twin (tile.h). CPU(name) puts tier and Act into a
 * global name, TIERED(name) the tier alone: what is compiled once and works on reals.
 *
 * Operations are called from one thread at a time and use OpenMP inside. Every sum has an order
 * that depends on shapes only: threads divide the outputs, or chunks of fixed size whose partial
 * sums are added in order afterwards.
 */
#ifndef OPS_CPU_CPU_H
#define OPS_CPU_CPU_H
#ifdef REAL_F64
#define OPS_ACT double
#elif defined ACT_BF16
#include <stdint.h>
typedef struct Bf16 { uint16_t bits; } Bf16;    /* the upper half of a float; see vec.h */
#define OPS_ACT Bf16
#else
#define OPS_ACT float
#endif
#include "ops/ops.h"

#define PASTE3_(a, b, c) a##b##c
#define PASTE3(a, b, c) PASTE3_(a, b, c)
#ifndef TIER
#define TIER base
#endif
#define TIERED(name) PASTE3(cpu_##name, _, TIER)
#ifdef ACT_TILE
#define CPU(name) PASTE3(TIERED(name), _, ACT_TILE)
#elif defined ACT_DOT
#define CPU(name) PASTE3(TIERED(name), _, dot)
#elif defined ACT_BF16
#define CPU(name) PASTE3(TIERED(name), _, bf16)
#else
#define CPU(name) TIERED(name)
#endif

#ifdef ACT_DOT                          /* muon.c is compiled for reals, and for these */
#define MUON(name) CPU(name)
#else
#define MUON(name) TIERED(name)
#endif

#ifdef _OPENMP
#include <omp.h>
#define STRING_(...) #__VA_ARGS__
#define OMP(...) _Pragma(STRING_(omp __VA_ARGS__))
static inline int threads_here(void) { return omp_in_parallel() ? 1 : omp_get_max_threads(); }
static inline int thread_id(void) { return omp_get_thread_num(); }
static inline int team_size(void) { return omp_get_num_threads(); }
#else
#define OMP(...)
static inline int threads_here(void) { return 1; }
static inline int thread_id(void) { return 0; }
static inline int team_size(void) { return 1; }
#endif

/* Work of fewer elements than this is not worth waking the other threads for. */
enum { WAKE = 16384 };

static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* mem.c. Aligned memory kept for reuse, one block per slot, grown when more is asked for; what it
 * held is lost then. Not zeroed. Called outside parallel regions only. */
enum { SLOT_GEMM, SLOT_STAGE, SLOT_OP, SLOT_ROWS, SLOT_COUNT };
void *TIERED(scratch)(int slot, size_t bytes);
void *TIERED(mem_alloc)(size_t bytes);
void TIERED(mem_free)(void *p, size_t bytes);
void TIERED(mem_zero)(void *p, size_t bytes);
void TIERED(mem_copy)(void *to, const void *from, size_t bytes);
const Ops *CPU(ops)(void);                      /* table.c */

/* gemm.c: c[m,n] = alpha a b + beta d, with a[i,k] at a + i*rsa + k*csa, one of rsa, csa being 1, b
 * likewise; c and d rows are ldc apart. d may be c; it is not read if beta is 0. Or, with y, the
 * same for d = c = y as Acts, rounded once. Sums are reals; the order of each depends on k alone.
 * symmetric: a b and d are, and m = n: half the work. */
typedef struct Gemm {
    real *c; const real *d; int64_t ldc;
    real alpha, beta;
    const Act *a; int64_t rsa, csa;
    const Act *b; int64_t rsb, csb;
    int m, n, k;
    int symmetric;
    Act *y;
} Gemm;
void CPU(gemm)(const Gemm *g);
enum { GEMM_SMALL = 4096 };
/* c; on this thread; operands of at most GEMM_SMALL numbers; work: gemm_work() bytes */
void CPU(gemm_one)(const Gemm *g, void *work);
size_t CPU(gemm_work)(void);

/* What an operation keeps (OpsRoom), of each file: with CPU(room), a table of them (table.c) */
static inline void keep(size_t *kept, size_t bytes) { if (bytes > *kept) *kept = bytes; }
void CPU(gemm_room)(OpsKept *kept, const Gemm *g);
void CPU(linear_room)(OpsKept *kept, int N, int C, int O);
void CPU(linear_dx_room)(OpsKept *kept, int N, int C, int O);
void CPU(linear_dw_room)(OpsKept *kept, int N, int C, int O);
void CPU(embed_bwd_room)(OpsKept *kept, int N, int V);
void CPU(attn_room)(OpsKept *kept, int B, int T, int K, int D);
void CPU(attn_bwd_room)(OpsKept *kept, int B, int T, int H, int K, int D);
void CPU(route_bwd_room)(OpsKept *kept, int N, int E);
void CPU(xent_room)(OpsKept *kept, int V);
void MUON(muon_room)(OpsKept *kept, int R, int K);

/* probe.c: the roof, for benchmarks; vexp, vexp2 and vtanh of this tier, for tests */
double TIERED(fma_probe)(int64_t n, double *out);
double CPU(dot_probe)(int64_t n, double *out);          /* of the ACT_DOT and ACT_TILE builds */
void TIERED(exp_n)(real *y, const real *x, int64_t n);
void TIERED(exp2_n)(real *y, const real *x, int64_t n);
void TIERED(tanh_n)(real *y, const real *x, int64_t n);

/* the operations, by file */
void CPU(cast)(Act *y, const real *x, int64_t n);
void CPU(uncast)(real *y, const Act *x, int64_t n);

void CPU(linear)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta);
void CPU(linear_dx)(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta);
void CPU(linear_dw)(real *dw, const Act *dy, const Act *x, int N, int C, int O);

void CPU(embed)(Act *y, const Act *w, const int *idx, int N, int C);
void CPU(embed_bwd)(Store dw, const Act *dy, const int *idx, int N, int C, int V);
void CPU(vgate)(Act *y, const Act *v, const Act *ve, const int *idx, const Act *h, const real *w,
                int N, int C, int K, int D, int G);
void CPU(vgate_bwd)(Act *dv, Store dve, Act *dh, real *dw, const Act *dy, const Act *ve,
                    const int *idx, const Act *h, const real *w, int N, int C, int K, int D, int G,
                    int V);
void CPU(smear)(Act *y, const Act *x, const Act *prev, const int *pos, const int *doc,
                const real *w, const real *lam, int B, int T, int C, int G);
void CPU(smear_bwd)(Act *dx, real *dw, real *dlam, const Act *dy, const Act *x, const int *doc,
                    const real *w, const real *lam, int B, int T, int C, int G);

void CPU(rmsnorm)(Act *y, real *rstd, const Act *x, int N, int C, real eps);
void CPU(rmsnorm_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, int N, int C);
void CPU(gain)(Act *y, const Act *x, const real *g, int N, int C);
void CPU(gain_bwd)(Act *dx, real *dg, const Act *dy, const Act *x, const real *g, int N, int C);
void CPU(rope)(Act *y, real *rstd, const Act *x, const real *tab, const int *pos, const int *doc,
               int B, int T, int H, int D, int sign, real scale, real eps);
void CPU(rope_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, const real *tab,
                   const int *doc, int B, int T, int H, int D, int sign, real scale, int beta);

void CPU(mix)(Act *y, const Act *x, const real *a, const Act *z, const real *b, real s, int64_t n);
void CPU(mix_bwd)(Act *dx, real *da, Act *dz, real *db, const Act *dy, const Act *x, const real *a,
                  const Act *z, const real *b, real s, int64_t n);
void CPU(mix_norm)(Act *u, Act *y, real *rstd, const Act *x, const real *a, const Act *z,
                   const real *b, real s, int N, int C, real eps);
void CPU(mix_norm_bwd)(Act *dx, real *da, Act *dz, real *db, Act *g, const Act *dy, const Act *y,
                       const real *rstd, const Act *x, const real *a, const Act *z, const real *b,
                       real s, int N, int C, int beta);
void CPU(relu2)(Act *y, const Act *x, int64_t n);
void CPU(relu2_bwd)(Act *dx, const Act *dy, const Act *y, int64_t n, int beta);
void CPU(swiglu)(Act *y, const Act *a, const Act *b, int64_t n);
void CPU(swiglu_bwd)(Act *da, Act *db, const Act *dy, const Act *a, const Act *b, int64_t n,
                     int beta);
void CPU(add)(Act *y, const Act *x, int64_t n);

void CPU(route)(real *p, real *wt, int *pick, int *slot, int *src, int *off, real *aux,
              const Act *h, const real *gate, int N, int C, int E, int k, int norm);
void CPU(route_bwd)(Act *dh, real *dgate, const real *dwt, const real *p, const real *wt,
                  const int *pick, const int *off, const Act *h, const real *gate, int N,
                  int C, int E, int k, int norm, double aux);
void CPU(experts)(Act *y, const Act *x, const Act *w, const int *off, int n, int E, int C, int O);
void CPU(experts_dx)(Act *dx, const Act *dy, const Act *w, const int *off, int n, int E, int C,
                   int O, int beta);
void CPU(experts_dw)(real *dw, const Act *dy, const Act *x, const int *off, int n, int E, int C,
                   int O);
void CPU(slots_add)(Act *y, const Act *x, const real *wt, const int *slot, int N, int k, int C);
void CPU(slots_add_bwd)(Act *dx, real *dwt, const Act *dy, const Act *x, const real *wt,
                      const int *slot, int N, int k, int C, int beta);

void CPU(attn)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
               int T, int H, int K, int D, int window);
void CPU(attn_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                   const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                   int K, int D, int window);
void CPU(dropout)(Act *y, const Act *x, int64_t n, const Drop *d, int beta);
void CPU(attn_drop)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
                    int T, int H, int K, int D, int window, const Drop *d);
void CPU(attn_drop_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                        const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                        int K, int D, int window, const Drop *d);
void CPU(kv_put)(Act *kc, Act *vc, const Act *k, const Act *v, const int *pos, int B, int T, int M,
                 int K, int D);
void CPU(attn_kv)(Act *y, const Act *q, const Act *kc, const Act *vc, const int *pos, int B, int T,
                  int M, int H, int K, int D, int window);

void CPU(xent)(real *loss, Act *z, const int *tgt, const real *wt, int N, int V, int Vp, real cap,
               real scale);
void CPU(logits)(real *l, const Act *z, int N, int V, int Vp, real cap);

void TIERED(store)(Store to, const real *host, int64_t n);
void TIERED(load)(real *host, Store from, int64_t n);
void TIERED(adamw)(Store p, Store g, Store m, Store v, int64_t n, double lr, double b1, double b2,
                   double eps, double wd, double c1, double c2);
void TIERED(sumsq)(double *out, Store x, int64_t n);
void TIERED(sum)(double *out, const real *x, int64_t n);
void TIERED(scale)(Store x, double s, int64_t n);
void TIERED(lerp)(real *y, Store x, double a, int64_t n);
void TIERED(exchange)(Store p, real *x, int64_t n);
size_t MUON(muon_tmp)(int count, int R, int K);
void MUON(muon)(Store p, real *g, real *m, real *s, void *tmp, int count, int R, int K, double mu,
                double beta2, double lr, double wd);
#endif
