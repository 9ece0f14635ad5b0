/* ops.c -- speed of each operation against this machine's roofs, measured in the same run:
 * multiply-adds on registers (per tier) and streaming from memory. What an operation must do at
 * least is taken from the count back-end; roof = the time of that at the roofs over the time it
 * took.
 *
 *     ops [-j THREADS] [-t SECONDS] [--dtype fp32|bf16] [--json] [NAME ...]
 *
 * Only operations whose name begins with a NAME. --json: an object a line; the first gives the
 * roofs, the others an operation each. bf16 is multiplied as fp32 where the processor has no
 * instruction for it, and the roof is that of fp32 there.
 */
#include "base/err.h"
#include "base/opt.h"
#include "base/progress.h"
#include "ops/ops.h"
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

double cpu_fma_probe_base(int64_t n, double *out);
#ifdef __x86_64__
double cpu_fma_probe_avx2(int64_t n, double *out);
double cpu_fma_probe_avx512(int64_t n, double *out);
double cpu_dot_probe_avx512_dot(int64_t n, double *out);
#endif

static double seconds = 0.3;            /* how long each is repeated */
static volatile double sink;

/* ---- the roofs */
static double flops_roof(const char *tier, int threads)
{
    double (*probe)(int64_t, double *) = cpu_fma_probe_base;
#ifdef __x86_64__
    if (strcmp(tier, "cpu avx2") == 0) probe = cpu_fma_probe_avx2;
    if (strcmp(tier, "cpu avx512") == 0) probe = cpu_fma_probe_avx512;
    if (strcmp(tier, "cpu avx512_bf16") == 0) probe = cpu_dot_probe_avx512_dot;
#else
    (void)tier;
#endif
    (void)threads;
    double best = 0;
    for (int i = 0; i < 5; i++) {
        double done = 0, out = 0, t0 = now_seconds();
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(+ : done, out)
#endif
        done += probe(10000000, &out);
        double rate = done / (now_seconds() - t0);
        sink = out;
        if (rate > best) best = rate;
    }
    return best;
}
/* the better of a sum over 256 MB and a scaled sum of two arrays into a third, bytes as named in
 * the code */
static double bytes_roof(int threads)
{
    (void)threads;
    const int64_t n = 32 << 20;
    float *a = xcalloc((size_t)n, sizeof *a), *b = xcalloc((size_t)n, sizeof *b),
          *c = xcalloc((size_t)n, sizeof *c);
    double best = 0;
    for (int i = 0; i < 5; i++) {
        double t0 = now_seconds(), rate;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads)
#endif
        for (int64_t j = 0; j < n; j++) a[j] = b[j] + 0.5f * c[j];
        rate = 12 * (double)n / (now_seconds() - t0);
        if (rate > best) best = rate;
        t0 = now_seconds();
        uint64_t sum = 0;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
#endif
        for (int64_t j = 0; j < n / 2; j++) sum += ((uint64_t *)(void *)b)[j];
        rate = 4 * (double)n / (now_seconds() - t0);
        sink = (double)sum + (double)a[i];
        if (rate > best) best = rate;
    }
    free(a); free(b); free(c);
    return best;
}

/* ---- what is measured: a row of a training step of the depth-12 model, 2048 tokens */
enum { N = 2048, C = 768, F = 3072, H = 6, HD = 128, V = 32768, CHUNK = 256, M = 2048 };
typedef struct Mem {
    real *x, *y, *z, *g;
    int *i;
} Mem; /* each BIG elements; i: tokens, and 0 */
enum { BIG = 26 << 20 };
#define A(p) ((Act *)(void *)(p))

#define CASE(fn, ...) static void fn(const Ops *o, Mem *m) { (void)m; __VA_ARGS__; }
CASE(lin_qkv, o->linear(A(m->y), A(m->x), A(m->z), N, C, C, 0))
CASE(lin_fc, o->linear(A(m->y), A(m->x), A(m->z), N, C, F, 0))
CASE(lin_proj, o->linear(A(m->y), A(m->x), A(m->z), N, F, C, 1))
CASE(lin_head, o->linear(A(m->y), A(m->x), A(m->z), CHUNK, C, V, 0))
CASE(lin_small, o->linear(A(m->y), A(m->x), A(m->z), 64, 256, 256, 0))
CASE(lin_one, o->linear(A(m->y), A(m->x), A(m->z), 1, C, V, 0))
CASE(lin_four, o->linear(A(m->y), A(m->x), A(m->z), 4, C, V, 0))
CASE(lin_dx, o->linear_dx(A(m->y), A(m->x), A(m->z), N, C, F, 1))
CASE(lin_dw, o->linear_dw(m->y, A(m->x), A(m->z), N, C, F))
CASE(lin_head_dx, o->linear_dx(A(m->y), A(m->x), A(m->z), CHUNK, C, V, 1))
CASE(lin_head_dw, o->linear_dw(m->y, A(m->x), A(m->z), CHUNK, C, V))
CASE(emb, o->embed(A(m->y), A(m->x), m->i, N, C))
CASE(emb_bwd, o->embed_bwd(m->y, A(m->x), m->i, N, C, V))
CASE(rms, o->rmsnorm(A(m->y), m->z, A(m->x), N, C, (real)1e-6))
CASE(rms_bwd, o->rmsnorm_bwd(A(m->y), A(m->x), A(m->g), m->z, N, C))
CASE(smear, o->smear(A(m->y), A(m->x), NULL, NULL, NULL, m->z, m->z, 1, N, C, 24))
CASE(smear_bwd, o->smear_bwd(A(m->y), m->g, m->g, A(m->x), A(m->z), NULL, m->z, m->z, 1, N, C,
                             24))
CASE(mix, o->mix(A(m->y), A(m->x), m->g, A(m->z), m->g, 1, (int64_t)N * C))
CASE(mix_bwd, o->mix_bwd(A(m->y), m->g, A(m->z), m->g, A(m->x), A(m->x), m->z, A(m->x), m->z, 1,
                         (int64_t)N *C))
CASE(vgate, o->vgate(A(m->y), A(m->x), A(m->z), m->i, A(m->x), m->g, N, C, H, HD, 12))
CASE(vgate_bwd, o->vgate_bwd(A(m->y), m->z, A(m->y), m->g, A(m->x), A(m->x), m->i, A(m->x), m->x, N,
                             C, H, HD, 12, V))
CASE(rope, o->rope(A(m->y), m->g, A(m->x), m->z, NULL, NULL, 1, N, H, HD, 1, (real)1.2,
                   (real)1e-6))
CASE(rope_bwd, o->rope_bwd(A(m->y), A(m->x), A(m->x), m->x, m->z, NULL, 1, N, H, HD, 1,
                           (real)1.2, 1))
CASE(attn, o->attn(A(m->y), m->g, A(m->x), A(m->x), A(m->z), NULL, 1, N, H, H, HD, 0))
CASE(attn_win, o->attn(A(m->y), m->g, A(m->x), A(m->x), A(m->z), NULL, 1, N, H, H, HD, 512))
CASE(attn_bwd, o->attn_bwd(A(m->y), A(m->y + N * C), A(m->y + 2 * N * C), A(m->x), A(m->x), m->g,
                           A(m->x), A(m->x), A(m->z), NULL, 1, N, H, H, HD, 0))
CASE(attn_bwd_win, o->attn_bwd(A(m->y), A(m->y + N * C), A(m->y + 2 * N * C), A(m->x), A(m->x),
                               m->g, A(m->x), A(m->x), A(m->z), NULL, 1, N, H, H, HD, 512))
CASE(decode, o->attn_kv(A(m->y), A(m->x), A(m->x), A(m->z), m->i + N, 4, 1, M, H, H, HD, 0))
CASE(relu2, o->relu2(A(m->y), A(m->x), (int64_t)N * F))
CASE(relu2_bwd, o->relu2_bwd(A(m->y), A(m->x), A(m->z), (int64_t)N * F, 1))
CASE(add, o->add(A(m->y), A(m->x), (int64_t)N * C))
CASE(xent, o->xent(m->g, A(m->y), m->i, NULL, CHUNK, V, V, 15, (real)1e-3))
CASE(xent_eval, o->xent(m->g, A(m->x), m->i, NULL, CHUNK, V, V, 15, 0))
CASE(logits, o->logits(m->y, A(m->x), CHUNK, V, V, 15))
CASE(adamw, o->adamw(m->y, m->x, m->z, m->g, BIG, 1e-3, .8, .95, 1e-10, .01, .2, .05))
CASE(muon_sq, o->muon(m->y, m->x, m->z, m->g, m->g + (1 << 20), 4, C, C, .95, .9, .02, .1))
CASE(muon_fc, o->muon(m->y, m->x, m->z, m->g, m->g + (1 << 20), 2, F, C, .95, .9, .02, .1))
CASE(muon_proj, o->muon(m->y, m->x, m->z, m->g, m->g + (1 << 20), 2, C, F, .95, .9, .02, .1))
CASE(muon_gate, o->muon(m->y, m->x, m->z, m->g, m->g + (1 << 20), 6, H, 12, .95, .9, .02, .1))
CASE(sumsq, o->sumsq((double *)(void *)m->g, m->x, BIG))
CASE(scale, o->scale(m->x, 1, BIG))
CASE(zero, o->zero(m->y, (size_t)BIG * sizeof(real)))

static const struct { const char *name, *shape; void (*run)(const Ops *, Mem *);
} cases[] = {
    { "linear", "2048 768 768", lin_qkv },
    { "linear", "2048 768 3072", lin_fc },
    { "linear", "2048 3072 768, adds", lin_proj },
    { "linear", "256 768 32768", lin_head },
    { "linear", "64 256 256", lin_small },
    { "linear", "1 768 32768", lin_one },
    { "linear", "4 768 32768", lin_four },
    { "linear_dx", "2048 768 3072", lin_dx },
    { "linear_dx", "256 768 32768", lin_head_dx },
    { "linear_dw", "2048 768 3072", lin_dw },
    { "linear_dw", "256 768 32768", lin_head_dw },
    { "attn", "2048 6x128", attn },
    { "attn", "2048 6x128, window 512", attn_win },
    { "attn_bwd", "2048 6x128", attn_bwd },
    { "attn_bwd", "2048 6x128, window 512", attn_bwd_win },
    { "attn_kv", "4 rows, 1 on 2048, 6x128", decode },
    { "muon", "4 of 768 768", muon_sq },
    { "muon", "2 of 3072 768", muon_fc },
    { "muon", "2 of 768 3072", muon_proj },
    { "muon", "6 of 6 12", muon_gate },
    { "adamw", "26 M", adamw },
    { "sumsq", "26 M", sumsq },
    { "scale", "26 M", scale },
    { "zero", "26 M", zero },
    { "xent", "256 32768", xent },
    { "xent", "256 32768, loss only", xent_eval },
    { "logits", "256 32768", logits },
    { "embed", "2048 768", emb },
    { "embed_bwd", "2048 768", emb_bwd },
    { "rmsnorm", "2048 768", rms },
    { "rmsnorm_bwd", "2048 768", rms_bwd },
    { "smear", "2048 768", smear },
    { "smear_bwd", "2048 768", smear_bwd },
    { "mix", "2048 768", mix },
    { "mix_bwd", "2048 768", mix_bwd },
    { "vgate", "2048 6x128", vgate },
    { "vgate_bwd", "2048 6x128", vgate_bwd },
    { "rope", "2048 6x128", rope },
    { "rope_bwd", "2048 6x128", rope_bwd },
    { "relu2", "2048 3072", relu2 },
    { "relu2_bwd", "2048 3072", relu2_bwd },
    { "add", "2048 768", add },
};

static void fill(const Ops *o, real *to, unsigned seed)
{
    real *h = xmalloc((size_t)BIG * sizeof *h);
    for (int64_t i = 0; i < BIG; i++) {
        seed = seed * 1664525u + 1013904223u;
        h[i] = (real)(seed >> 8) * (real)0x1p-24 - (real)0.5;
        if (o->act_size == 2) {         /* as a real the same nearly, as Acts twice the same */
            uint16_t u[2];
            memcpy(u, &h[i], sizeof u);
            u[0] = u[1];
            memcpy(&h[i], u, sizeof u);
        }
    }
    o->put(to, h, (size_t)BIG * sizeof *h);
    free(h);
}
static Mem prepare(const Ops *o)
{
    Mem m;
    real **all[] = { &m.x, &m.y, &m.z, &m.g };
    for (int k = 0; k < 4; k++) {
        *all[k] = o->alloc((size_t)BIG * sizeof(real));
        if (strcmp(o->name, "count") != 0) fill(o, *all[k], (unsigned)k + 1);
    }
    int *tok = xmalloc((N + 4) * sizeof *tok);
    for (int i = 0; i < N + 4; i++)
        tok[i] = i < N ? (int)((unsigned)i * 2654435761u >> 17) % V : M - 1;
    m.i = o->alloc((N + 4) * sizeof *m.i);
    o->put(m.i, tok, (N + 4) * sizeof *tok);
    free(tok);
    return m;
}
static double best_time(const Ops *o, Mem *m, void (*run)(const Ops *, Mem *))
{
    double best = 1e300, begin = now_seconds();
    do {
        double t0 = now_seconds();
        run(o, m);
        o->sync();
        double t = now_seconds() - t0;
        if (t < best) best = t;
    } while (now_seconds() - begin < seconds);
    return best;
}
static int wanted(const char *name, char **names, int n)
{
    for (int i = 1; i <= n; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) return 1;
    return n == 0;
}

typedef struct Roof { double flops, bytes; } Roof; /* a second */

/* The roofs with one thread and with all; returns the latter. */
static Roof roofs(const Ops *o, int json)
{
    int threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    Roof r = { 0 }, one = { 0 };
    for (int n = 1;; n = threads) {
        r = (Roof){ flops_roof(o->name, n), bytes_roof(n) };
        if (n == 1) one = r;
        if (n == threads) break;
    }
    if (json)
        printf("{\"tier\": \"%s\", \"dtype\": \"%s\", \"threads\": %d, \"gflops\": %.2f, "
               "\"gbytes\": %.2f, \"gflops_1\": %.2f, \"gbytes_1\": %.2f}\n", o->name, o->dtype,
               threads, r.flops / 1e9, r.bytes / 1e9, one.flops / 1e9, one.bytes / 1e9);
    else
        printf("%s %s: multiply-adds %.1f GFLOP/s on 1 thread, %.1f on %d; memory %.1f and %.1f "
               "GB/s\n%-12s %-26s %10s %9s %8s %6s\n", o->name, o->dtype, one.flops / 1e9,
               r.flops / 1e9, threads, one.bytes / 1e9, r.bytes / 1e9, "operation", "shape", "us",
               "GFLOP/s", "GB/s", "roof");
    return r;
}

int main(int argc, char **argv)
{
    int threads = 0;
    bool json = false;
    const char *dtype = "fp32";
    const Opt opts[] = {
        OPT_INT('j', "threads", &threads, "N", 0, INT_MAX, "threads (0: all)"),
        OPT_FLOAT('t', "time", &seconds, "SECONDS", 0, 60, "how long to repeat each operation"),
        OPT_STR(0, "dtype", &dtype, "TYPE", "activations: fp32 or bf16"),
        OPT_FLAG(0, "json", &json, "an object a line"),
        OPT_END
    };
    int names = opt_parse(argc, argv, "[options] [NAME ...]",
                          "Speed of the operations against the machine's roofs.", opts);
    const Ops *o = ops_open("cpu", dtype, threads);
    OpsCount sum = { 0 };
    const Ops *count = ops_count(&sum, dtype);
    Roof roof = roofs(o, json);
    Mem m = prepare(o), none = prepare(count);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!wanted(cases[i].name, argv, names)) continue;
        memset(&sum, 0, sizeof sum);
        cases[i].run(count, &none);
        double flops = sum.flops_fwd + sum.flops_bwd + sum.flops_opt,
               t = best_time(o, &m, cases[i].run),
               least = fmax(flops / roof.flops, sum.bytes / roof.bytes);
        printf(json ? "{\"op\": \"%s\", \"shape\": \"%s\", \"us\": %.1f, \"gflops\": %.1f, "
                      "\"gbytes\": %.1f, \"of_roof\": %.3f}\n"
                    : "%-12s %-26s %10.1f %9.1f %8.1f %5.0f%%\n", cases[i].name, cases[i].shape,
               t * 1e6, flops / t / 1e9, sum.bytes / t / 1e9, json ? least / t : 100 * least / t);
        fflush(stdout);
    }
    return 0;
}
