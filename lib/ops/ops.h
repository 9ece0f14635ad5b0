/* ops.h -- the table of primitive operations that a back-end provides.
 *
 * Arrays are contiguous, row-major and live on the device: code outside a back-end never looks
 * inside them; it moves data with put and get. There are no views, strides, broadcasting or type
 * promotion. Two element types:
 *   real   masters, optimizer state, parameter gradients, statistics: fp32 (double with REAL_F64)
 *   Act    activations, their gradients, and the weights' compute copies: ops->act_size bytes each;
 *          opaque here, a number inside a back-end. With --dtype fp32 an Act is a real, with bf16 a
 *          bfloat16; sums and what is derived from them are computed as reals either way.
 * What the optimizer works on, parameters, their gradients and moments, is a Store: reals, bfloat16s
 * or both.
 *
 * Names in capitals are shapes: B rows, T positions, N = B*T, C channels, O outputs, V vocabulary
 * (Vp: padded), H query heads, K key/value heads, D head size. Output arguments come first.
 * Backward operations ADD into the gradients they are given; a NULL gradient is not wanted.
 * Calls are asynchronous; get and sync are the only waits. Results do not depend on the number of
 * threads: every sum has a fixed order.
 *
 * Operations are called from one thread at a time.
 *
 * Errors: alloc dies when there is no memory; a device error dies. Shapes are the caller's duty.
 */
#ifndef OPS_OPS_H
#define OPS_OPS_H
#include "ops/drop.h"
#include "ops/filters.h"
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef REAL_F64
typedef double real;
#else
typedef float real;
#endif

#ifdef OPS_ACT
typedef OPS_ACT Act; /* a back-end says what it computes in, before including this */
#else
typedef struct Act Act;
#endif

/* n numbers of a parameter, a gradient or a moment, one of:
 *   w        reals
 *   hi       bfloat16s, rounded to the nearest, ties to even, when they are written
 *   hi, lo   reals in two halves: as an integer, a real is (hi << 16) + (int16) lo. hi is the real
 *            rounded to the nearest bfloat16 (ties away from 0): with a bfloat16 Act, its compute copy.
 * Read, all are reals. */
typedef struct Store { real *w; uint16_t *hi, *lo; } Store;

static inline Store store_real(real *w)
{
    Store s = { w, NULL, NULL };
    return s;
}
static inline Store store_at(Store s, int64_t i)        /* from element i on */
{
    if (s.w) s.w += i;
    if (s.hi) s.hi += i;
    if (s.lo) s.lo += i;
    return s;
}
static inline int store_some(Store s) { return s.w || s.hi; }   /* else it is not there */

/* What a back-end keeps for its operations besides their arguments, in bytes: blocks that are used
 * again, each as large as the operation that needs most of it. Of each operation: makes `kept` what it
 * is after a call, with as many threads as there are now. */
typedef struct OpsKept {
    size_t packed;              /* operands of products, of each thread */
    size_t stage;               /* sums of deep ones that are not rounded yet */
    size_t scratch;             /* of attention, of losses: at once */
    size_t rows;                /* where the same tokens are */
} OpsKept;
typedef struct OpsRoom {
    void (*linear)(OpsKept *kept, int N, int C, int O);
    void (*linear_dx)(OpsKept *kept, int N, int C, int O);
    void (*linear_dw)(OpsKept *kept, int N, int C, int O);
    void (*embed_bwd)(OpsKept *kept, int N, int V);
    void (*attn)(OpsKept *kept, int B, int T, int K, int D);
    void (*attn_bwd)(OpsKept *kept, int B, int T, int H, int K, int D);
    void (*route_bwd)(OpsKept *kept, int N, int E);
    void (*xent)(OpsKept *kept, int V);
    void (*muon)(OpsKept *kept, int R, int K);
} OpsRoom;

typedef struct Ops {
    const char *name, *dtype;           /* "cpu avx2", "fp32" */
    size_t act_size;                    /* bytes of one Act */
    const OpsRoom *room;                /* NULL: not known */

    /* ---- memory. alloc: zeroed, aligned to 64 bytes. */
    void *(*alloc)(size_t bytes);
    void (*free)(void *p, size_t bytes);
    void (*zero)(void *p, size_t bytes);
    void (*copy)(void *to, const void *from, size_t bytes);         /* device to device */
    void (*put)(void *dev, const void *host, size_t bytes);         /* host to device */
    void (*get)(void *host, const void *dev, size_t bytes);         /* device to host; waits */
    void (*sync)(void);
    void (*cast)(Act *y, const real *x, int64_t n);                 /* y = x */
    void (*uncast)(real *y, const Act *x, int64_t n);
    void (*store)(Store to, const real *host, int64_t n);           /* put and get of a Store */
    void (*load)(real *host, Store from, int64_t n);

    /* ---- linear maps, W [O,C] row-major: y[N,O] = x[N,C] W^T; beta 1 adds to y, 0 replaces it;
     * dx = beta dx + dy W, dw += dy^T x */
    void (*linear)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta);
    void (*linear_dx)(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta);
    void (*linear_dw)(real *dw, const Act *dy, const Act *x, int N, int C, int O);
    /* the same in eight-bit floats (fp8.h), for passes that record; NULL but with --dtype fp8. C and O
     * as fp8_fits() wants them, arrays aligned to 16 bytes; dx and dw, NULL: not wanted, at once. */
    void (*linear8)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta);
    void (*linear8_bwd)(Act *dx, real *dw, const Act *dy, const Act *x, const Act *w, int N, int C,
                        int O, int beta);

    /* ---- embedding: y[n] = w[idx[n]], w [V,C]. idx in range. Backward: the rows of a token are added to
     * dw's as reals, in order, and what is stored is rounded once. */
    void (*embed)(Act *y, const Act *w, const int *idx, int N, int C);
    void (*embed_bwd)(Store dw, const Act *dy, const int *idx, int N, int C, int V);

    /* ---- y = x * rstd, rstd[N] = 1/sqrt(mean(x^2) + eps). The backward needs y, not x. */
    void (*rmsnorm)(Act *y, real *rstd, const Act *x, int N, int C, real eps);
    void (*rmsnorm_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, int N, int C);

    /* ---- y[n] = g x[n], g [C]; dx += g dy, dg += sum over n of dy[n] x[n] */
    void (*gain)(Act *y, const Act *x, const real *g, int N, int C);
    void (*gain_bwd)(Act *dx, real *dg, const Act *dy, const Act *x, const real *g, int N, int C);

    /* ---- documents. doc [B*T] keeps the documents of a row apart: doc[n] <= t is the position
     * within its row at which the document of token n starts, never less than doc[n-1] of the same
     * row. NULL: a row is one document. With pos (cached decoding) doc is NULL. */

    /* ---- smear: y[t] = x[t] + lam * sigmoid(w . x[t][0:G]) * x[t-1]. The first position of row b
     * has no predecessor if pos is NULL or pos[b] is 0; otherwise it is prev[b] [B,C]. The first
     * token of a document has none either. */
    void (*smear)(Act *y, const Act *x, const Act *prev, const int *pos, const int *doc,
                  const real *w, const real *lam, int B, int T, int C, int G);
    void (*smear_bwd)(Act *dx, real *dw, real *dlam, const Act *dy, const Act *x, const int *doc,
                      const real *w, const real *lam, int B, int T, int C, int G);

    /* ---- y = a x + s b z, with a and b learnt scalars on the device; NULL is 1.
     * x may be z, and then dx be dz. */
    void (*mix)(Act *y, const Act *x, const real *a, const Act *z, const real *b, real s,
                int64_t n);
    void (*mix_bwd)(Act *dx, real *da, Act *dz, real *db, const Act *dy, const Act *x,
                    const real *a, const Act *z, const real *b, real s, int64_t n);

    /* ---- u = mix of rows of C, and its rmsnorm y, in one pass, the norm of u as it is stored. The
     * backward takes g, the gradient of u but for what comes through y, makes it the whole one, and
     * goes on as mix_bwd's, but for dx = beta dx + a g; with beta 0 dx may be g. */
    void (*mix_norm)(Act *u, Act *y, real *rstd, const Act *x, const real *a, const Act *z,
                     const real *b, real s, int N, int C, real eps);
    void (*mix_norm_bwd)(Act *dx, real *da, Act *dz, real *db, Act *g, const Act *dy, const Act *y,
                         const real *rstd, const Act *x, const real *a, const Act *z, const real *b,
                         real s, int N, int C, int beta);

    /* ---- value embedding (y may be v): y[n,k] = v[n,k] + 3 sigmoid(w[k] . h[n][0:G]) ve[idx[n],k];
     * v, y [N,K,D], ve [V,K,D], h [N,C], w [K,G] */
    void (*vgate)(Act *y, const Act *v, const Act *ve, const int *idx, const Act *h, const real *w,
                  int N, int C, int K, int D, int G);
    void (*vgate_bwd)(Act *dv, Store dve, Act *dh, real *dw, const Act *dy, const Act *ve,
                      const int *idx, const Act *h, const real *w, int N, int C, int K, int D,
                      int G, int V);

    /* ---- rotary embedding and head norm, x [B,T,H,D]: with (x1, x2) the halves of a head and
     * p = pos ? pos[b] + t : doc ? t - doc[n] : t, (c, s) = tab[p][j], s taken times sign:
     *   y1 = x1 c + x2 s, y2 = x2 c - x1 s;  then, if scale > 0, y *= scale / sqrt(mean(y^2) + eps)
     * tab [>= max p + 1][D/2][2] holds cos and sin. rstd [B,T,H] is for the backward; NULL: not
     * kept. y may be x. The backward needs y, not x; dx = beta dx + ..., and with beta 0 dx may be
     * dy. */
    void (*rope)(Act *y, real *rstd, const Act *x, const real *tab, const int *pos, const int *doc,
                 int B, int T, int H, int D, int sign, real scale, real eps);
    void (*rope_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, const real *tab,
                     const int *doc, int B, int T, int H, int D, int sign, real scale, int beta);

    /* ---- causal attention, scale 1/sqrt(D), grouped heads: query head h reads k/v head h / (H/K).
     * q, y [B,T,H,D]; k, v [B,T,K,D]; lse [B,T,H]. A window w > 0 lets i see j >= i - w; 0: all.
     * With doc, i sees j >= doc[i] only. */
    void (*attn)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
                 int T, int H, int K, int D, int window);
    void (*attn_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                     const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                     int K, int D, int window);
    /* the same against a cache kc, vc [B,M,K,D] of M positions: kv_put stores k, v at pos[b] + t;
     * attn_kv lets query t of row b, at position pos[b] + t, see the cache up to itself */
    void (*kv_put)(Act *kc, Act *vc, const Act *k, const Act *v, const int *pos, int B, int T,
                   int M, int K, int D);
    void (*attn_kv)(Act *y, const Act *q, const Act *kc, const Act *vc, const int *pos, int B,
                    int T, int M, int H, int K, int D, int window);

    /* ---- y = max(x, 0)^2; y may be x. dx = beta dx + 2 sqrt(y) dy; with beta 0 dx may be dy. */
    void (*relu2)(Act *y, const Act *x, int64_t n);
    void (*relu2_bwd)(Act *dx, const Act *dy, const Act *y, int64_t n, int beta);

    /* ---- y = a sigmoid(a) b. da = beta da + ..., db likewise. */
    void (*swiglu)(Act *y, const Act *a, const Act *b, int64_t n);
    void (*swiglu_bwd)(Act *da, Act *db, const Act *dy, const Act *a, const Act *b, int64_t n,
                       int beta);

    /* ---- mixture of experts. Each of N tokens goes to k of E experts. p [N,E] = softmax(h gate^T),
     * gate [E,C]; pick [N,k] the k largest (the lower number where two are equal); wt [N,k] their p,
     * with norm divided by their sum (+ 1e-20). The assignments are sorted by expert: slot [N,k] is
     * where each goes, src [N k] the token of each place, off [E+1] where an expert's places begin.
     * aux = E sum over e of (assignments of e / N) * (mean over n of p[n,e]), or NULL.
     * The backward adds aux times the gradient of that by p. */
    void (*route)(real *p, real *wt, int *pick, int *slot, int *src, int *off, real *aux,
                  const Act *h, const real *gate, int N, int C, int E, int k, int norm);
    void (*route_bwd)(Act *dh, real *dgate, const real *dwt, const real *p, const real *wt,
                      const int *pick, const int *off, const Act *h, const real *gate, int N,
                      int C, int E, int k, int norm, double aux);
    /* linear maps of n rows by expert: rows [off[e], off[e+1]) with w[e]; w [E,O,C] */
    void (*experts)(Act *y, const Act *x, const Act *w, const int *off, int n, int E, int C, int O);
    void (*experts_dx)(Act *dx, const Act *dy, const Act *w, const int *off, int n, int E, int C,
                       int O, int beta);
    void (*experts_dw)(real *dw, const Act *dy, const Act *x, const int *off, int n, int E, int C,
                       int O);
    /* y[n] += sum over j of wt[n,j] x[slot[n,j]], wt NULL: 1; x [N k,C]. dx = beta dx + ... */
    void (*slots_add)(Act *y, const Act *x, const real *wt, const int *slot, int N, int k, int C);
    void (*slots_add_bwd)(Act *dx, real *dwt, const Act *dy, const Act *x, const real *wt,
                          const int *slot, int N, int k, int C, int beta);

    void (*add)(Act *y, const Act *x, int64_t n);                   /* y += x */

    /* ---- dropout (drop.h): y = beta y + (x / (1 - p), or 0), element i by number a + i, a where
     * d starts; y may be
     * x. Attention (no cache) with that on its weights, that of row b, head h, query t for key j by
     * number (((a + b) H + h) T + t) T + j. */
    void (*dropout)(Act *y, const Act *x, int64_t n, const Drop *d, int beta);
    void (*attn_drop)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc,
                      int B, int T, int H, int K, int D, int window, const Drop *d);
    void (*attn_drop_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                          const Act *q, const Act *k, const Act *v, const int *doc, int B, int T,
                          int H, int K, int D, int window, const Drop *d);

    /* ---- logits. z [N,Vp], of which columns [V,Vp) do not count. cap > 0: l = cap tanh(z / cap).
     * xent: loss[n] = -log softmax(l[n])[tgt[n]] in nats, 0 where tgt[n] < 0; then, if scale is not
     * 0, z becomes scale * wt[n] * dloss[n]/dz (wt NULL: 1; whole rows of 0 where tgt < 0; the
     * columns [V,Vp) become 0). With scale 0, z stays as it is. */
    void (*xent)(real *loss, Act *z, const int *tgt, const real *wt, int N, int V, int Vp, real cap,
                 real scale);
    void (*logits)(real *l, const Act *z, int N, int V, int Vp, real cap);      /* l [N,V] */

    /* ---- optimizer. Arrays of n elements, arithmetic in reals. c1 = 1 - b1^t, c2 = 1 - b2^t.
     * adamw: p *= 1 - lr wd; m += (1-b1)(g-m); v += (1-b2)(g^2-v);
     *        p -= lr/c1 * m / (sqrt(v/c2) + eps), with m and v as they are before they are stored */
    void (*adamw)(Store p, Store g, Store m, Store v, int64_t n, double lr, double b1, double b2,
                  double eps, double wd, double c1, double c2);
    /* Muon step on a stack of `count` matrices [R,K] (definition: nanochat's; see optim.h).
     * m [count,R,K] momentum; s [count, R >= K ? R : K] second moments; g is used as scratch;
     * tmp: muon_tmp bytes. lr as it is: the caller has multiplied it by sqrt(max(1, R/K)). */
    size_t (*muon_tmp)(int count, int R, int K);
    void (*muon)(Store p, real *g, real *m, real *s, void *tmp, int count, int R, int K, double mu,
                 double beta2, double lr, double wd);
    void (*sumsq)(double *out, Store x, int64_t n); /* *out += sum of x^2; on the device */
    void (*sum)(double *out, const real *x, int64_t n);             /* *out += sum of x, likewise */
    void (*scale)(Store x, double s, int64_t n);
    void (*lerp)(real *y, Store x, double a, int64_t n);            /* y += a (x - y) */
    /* Each becomes the other. Where p is bfloat16s, x keeps the lower half of its number meanwhile:
     * done twice, all is as it was. */
    void (*exchange)(Store p, real *x, int64_t n);

    /* ---- sampling (gpt/pick.h), NULL in a back-end that leaves it to the host: id[n] of logits
     * l [N,V], with u[n] in [0,1); -1 if one is not finite. seen [N,V]: not 0 for ids that the penalty
     * is for; NULL: none. In it, last[n] is noted before. */
    void (*pick)(int *id, const real *l, const double *u, unsigned char *seen, const int *last, int N,
                 int V, const Pick *by);

    /* ---- graphs; NULL in a back-end without them. Operations between begin and end are noted down,
     * not done: no alloc, free, put or get, and nothing whose shapes were not seen before. end gives
     * them, or NULL if they cannot be noted. run does them all with what is in their arrays then;
     * 0: it cannot any more, and they must be noted anew. */
    void (*graph_begin)(void);
    void *(*graph_end)(void);
    int (*graph_run)(void *graph);
    void (*graph_free)(void *graph);
} Ops;

/* The first thing in main(): has OpenMP's idle threads sleep instead of spin, unless the environment
 * says how they are to wait. Its library reads the environment before main(), so this starts the
 * program again, once. */
void ops_begin(char **argv);

/* device: "auto", "cpu", "cuda", "cuda:N" (auto falls back; an explicit one that is missing dies);
 * dtype: "fp32", "bf16", "auto" (bf16 where the processor multiplies it, else fp32), "fp8" (linear8;
 * all else as with bf16; only on CUDA devices of compute capability 8.9 or more).
 * threads <= 0: all there are; at most 64, or as many as there are processors. On the CPU, the
 * best tier for this processor; PIPEGPT_CPU=base|avx2|avx512|avx512_bf16|amx_bf16 allows none above
 * it. (The last has only ever run as its twin, cpu/tile.h: no processor with AMX was at hand.) */
const Ops *ops_open(const char *device, const char *dtype, int threads);
extern const char *ops_advice;          /* what takes less memory, said with "out of memory" if not "" */
/* For the `local`-th of several ranks on a machine: "auto" and "cuda" as the device that is its own,
 * which dies if there are fewer devices (a name that the next call overwrites). Any other is as it
 * is. */
const char *ops_device(const char *device, int local);
const Ops *ops_cpu(int threads);        /* ops_open("cpu", "fp32", threads) */

/* What to check ops against: fp32 on the same device, or, if that is what ops is, the CPU's plain C. */
const Ops *ops_reference(const Ops *ops, const char *device, int threads);

/* A back-end that computes nothing: alloc gives out addresses that must not be read, the rest
 * adds up. */
typedef struct OpsCountOf { const char *op; double flops, bytes; int64_t calls; } OpsCountOf;
typedef struct OpsCount {
    const OpsRoom *room;                        /* told to it: whose `kept` is; NULL: nobody's */
    double flops_fwd, flops_bwd, flops_opt; /* products, attention; multiply and add are 1 each */
    double bytes;                               /* read and written by all operations */
    size_t mem, mem_peak;                       /* allocated now, at most */
    OpsKept kept;                               /* beside that */
    size_t fp8_scratch, fp8_weights;            /* the first of linear8: at once; kept */
    int64_t calls;
    OpsCountOf by[64];                          /* the same by operation, in the order of the first
                                                 * calls; the unused have op NULL */
} OpsCount;
const Ops *ops_count(OpsCount *c, const char *dtype);   /* c must outlive its use; one at a time */

#ifdef __cplusplus
}
#endif
#endif
