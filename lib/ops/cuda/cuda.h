/* cuda.h -- what the files of the CUDA back-end share on the host's side, in C and in C++.
 *
 * The .cu files hold kernels, each with an extern "C" function of the operations' table that launches
 * it; .c files hold the host: memory, the table, products. A file is compiled twice, plain (an Act
 * is a float) and with ACT_BF16; CU(name) is cuda_name_fp32 or cuda_name_bf16. What knows no Acts is
 * compiled once and is plain cuda_name.
 *
 * All work goes to one stream, in order. Nothing waits for the device but get and sync, and memory
 * for scratch that grows. Sums have an order that depends on shapes only: no atomics on floats.
 * The same files compile for the CPU, where tests/emulator runs the kernels.
 */
#ifndef OPS_CUDA_CUDA_H
#define OPS_CUDA_CUDA_H
#include <stdint.h>
#ifdef ACT_BF16
typedef struct Bf16 { uint16_t bits; } Bf16;    /* the upper half of a float */
#define OPS_ACT Bf16
#define CU(name) cuda_##name##_bf16
#else
#define OPS_ACT float
#define CU(name) cuda_##name##_fp32
#endif
#include "ops/ops.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* mem.c. scratch: kept for reuse, one block per slot, grown when more is asked for; what it held is
 * lost then. Not zeroed. A slot belongs to one file, SLOT_PARTS to whoever sums partials. */
enum { SLOT_PARTS, SLOT_OP, SLOT_SORT, SLOT_ATTN, SLOT_GEMM, SLOT_FP8, SLOT_COUNT };
void *cuda_scratch(int slot, size_t bytes);
extern cudaStream_t cuda_stream;
int cuda_sm_count(void);
int cuda_capability(void);               /* 89: 8.9 */
int cuda_devices(const char **why);     /* how many there are; if none, why */
void cuda_start(int device);            /* dies if it cannot be used */
void cuda_check(cudaError_t e, const char *what);
void cuda_before(const void *kernel, size_t smem);      /* of a launch: see cu.h */
void *cuda_alloc(size_t bytes);
void cuda_free(void *p, size_t bytes);
void cuda_zero(void *p, size_t bytes);
void cuda_copy(void *to, const void *from, size_t bytes);
void cuda_put(void *dev, const void *host, size_t bytes);
void cuda_get(void *host, const void *dev, size_t bytes);
void cuda_sync(void);
int64_t cuda_scratch_grown(void);       /* how often scratch has moved */
void cuda_changed(const void *p, size_t bytes);     /* what was derived from there is not any more */

/* pick.cu */
void cuda_pick(int *id, const real *l, const double *u, unsigned char *seen, const int *last, int N,
               int V, const Pick *by);

/* graph.c */
int cuda_graph_noting(void);            /* whether launches are being noted down */
void cuda_graph_begin(void);
void *cuda_graph_end(void);
int cuda_graph_run(void *graph);
void cuda_graph_free(void *graph);

/* table.c */
const Ops *CU(ops)(void);
const Ops *cuda_ops_fp8(void);          /* bf16, but for linear maps while training */

/* the operations, by file */
void CU(cast)(Act *y, const real *x, int64_t n);
void CU(uncast)(real *y, const Act *x, int64_t n);

void CU(linear)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta);
void CU(linear_dx)(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta);
void CU(linear_dw)(real *dw, const Act *dy, const Act *x, int N, int C, int O);

void cuda_linear8(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta);
void cuda_linear8_bwd(Act *dx, real *dw, const Act *dy, const Act *x, const Act *w, int N, int C,
                      int O, int beta);

void CU(embed)(Act *y, const Act *w, const int *idx, int N, int C);
void CU(embed_bwd)(Store dw, const Act *dy, const int *idx, int N, int C, int V);
void CU(vgate)(Act *y, const Act *v, const Act *ve, const int *idx, const Act *h, const real *w,
                int N, int C, int K, int D, int G);
void CU(vgate_bwd)(Act *dv, Store dve, Act *dh, real *dw, const Act *dy, const Act *ve,
                    const int *idx, const Act *h, const real *w, int N, int C, int K, int D, int G,
                    int V);
void CU(smear)(Act *y, const Act *x, const Act *prev, const int *pos, const int *doc,
                const real *w, const real *lam, int B, int T, int C, int G);
void CU(smear_bwd)(Act *dx, real *dw, real *dlam, const Act *dy, const Act *x, const int *doc,
                    const real *w, const real *lam, int B, int T, int C, int G);

void CU(rmsnorm)(Act *y, real *rstd, const Act *x, int N, int C, real eps);
void CU(rmsnorm_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, int N, int C);
void CU(gain)(Act *y, const Act *x, const real *g, int N, int C);
void CU(gain_bwd)(Act *dx, real *dg, const Act *dy, const Act *x, const real *g, int N, int C);
void CU(rope)(Act *y, real *rstd, const Act *x, const real *tab, const int *pos, const int *doc,
               int B, int T, int H, int D, int sign, real scale, real eps);
void CU(rope_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, const real *tab,
                   const int *doc, int B, int T, int H, int D, int sign, real scale, int beta);

void CU(mix)(Act *y, const Act *x, const real *a, const Act *z, const real *b, real s, int64_t n);
void CU(mix_bwd)(Act *dx, real *da, Act *dz, real *db, const Act *dy, const Act *x, const real *a,
                  const Act *z, const real *b, real s, int64_t n);
void CU(mix_norm)(Act *u, Act *y, real *rstd, const Act *x, const real *a, const Act *z,
                  const real *b, real s, int N, int C, real eps);
void CU(mix_norm_bwd)(Act *dx, real *da, Act *dz, real *db, Act *g, const Act *dy, const Act *y,
                      const real *rstd, const Act *x, const real *a, const Act *z, const real *b,
                      real s, int N, int C, int beta);
void CU(relu2)(Act *y, const Act *x, int64_t n);
void CU(relu2_bwd)(Act *dx, const Act *dy, const Act *y, int64_t n, int beta);
void CU(swiglu)(Act *y, const Act *a, const Act *b, int64_t n);
void CU(swiglu_bwd)(Act *da, Act *db, const Act *dy, const Act *a, const Act *b, int64_t n,
                     int beta);
void CU(add)(Act *y, const Act *x, int64_t n);
void CU(dropout)(Act *y, const Act *x, int64_t n, const Drop *d, int beta);

void CU(route)(real *p, real *wt, int *pick, int *slot, int *src, int *off, real *aux,
              const Act *h, const real *gate, int N, int C, int E, int k, int norm);
void CU(route_bwd)(Act *dh, real *dgate, const real *dwt, const real *p, const real *wt,
                  const int *pick, const int *off, const Act *h, const real *gate, int N,
                  int C, int E, int k, int norm, double aux);
void CU(experts)(Act *y, const Act *x, const Act *w, const int *off, int n, int E, int C, int O);
void CU(experts_dx)(Act *dx, const Act *dy, const Act *w, const int *off, int n, int E, int C,
                   int O, int beta);
void CU(experts_dw)(real *dw, const Act *dy, const Act *x, const int *off, int n, int E, int C,
                   int O);
void CU(slots_add)(Act *y, const Act *x, const real *wt, const int *slot, int N, int k, int C);
void CU(slots_add_bwd)(Act *dx, real *dwt, const Act *dy, const Act *x, const real *wt,
                      const int *slot, int N, int k, int C, int beta);

void CU(attn)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
               int T, int H, int K, int D, int window);
void CU(attn_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                   const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                   int K, int D, int window);
void CU(attn_drop)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc,
                   int B, int T, int H, int K, int D, int window, const Drop *d);
void CU(attn_drop_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                       const Act *q, const Act *k, const Act *v, const int *doc, int B, int T,
                       int H, int K, int D, int window, const Drop *d);
void CU(kv_put)(Act *kc, Act *vc, const Act *k, const Act *v, const int *pos, int B, int T, int M,
                 int K, int D);
void CU(attn_kv)(Act *y, const Act *q, const Act *kc, const Act *vc, const int *pos, int B, int T,
                  int M, int H, int K, int D, int window);

void CU(xent)(real *loss, Act *z, const int *tgt, const real *wt, int N, int V, int Vp, real cap,
               real scale);
void CU(logits)(real *l, const Act *z, int N, int V, int Vp, real cap);

void cuda_store(Store to, const real *host, int64_t n);
void cuda_load(real *host, Store from, int64_t n);
void cuda_adamw(Store p, Store g, Store m, Store v, int64_t n, double lr, double b1, double b2,
                double eps, double wd, double c1, double c2);
void cuda_sumsq(double *out, Store x, int64_t n);
void cuda_sum(double *out, const real *x, int64_t n);
void cuda_scale(Store x, double s, int64_t n);
void cuda_lerp(real *y, Store x, double a, int64_t n);
void cuda_exchange(Store p, real *x, int64_t n);
size_t CU(muon_tmp)(int count, int R, int K);
void CU(muon)(Store p, real *g, real *m, real *s, void *tmp, int count, int R, int K, double mu,
               double beta2, double lr, double wd);

#ifdef __cplusplus
}
#endif
#endif
