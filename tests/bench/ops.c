/* ops.c -- speed of each operation against this machine's roofs, measured in the same run:
 * multiply-adds on registers (per tier) and streaming from memory. What an operation must do at
 * least is taken from the count back-end; roof = the time of that at the roofs over the time it
 * took.
 *
 *     ops [-j THREADS] [-t SECONDS] [--dtype fp32|bf16] [--json] [--depth N | --model NAME]
 *         [--rows N] [--chunk N] [NAME ...]
 *     ops -d cuda [--peak TFLOPS] [--bandwidth GBYTES] ...
 *     ops --plan --peak TFLOPS --bandwidth GBYTES ...
 *
 * The operations of a training step, of nanochat's model of a depth, or with --model of one of the
 * Llama family, whose own operations come then alone. Only those whose name begins with a NAME. --json: an object a line; the first gives the
 * roofs, the others an operation each. bf16 is multiplied as fp32 where the processor has no
 * instruction for it, and the roof is that of fp32 there. On a GPU the roofs that are not given
 * are a large product and a copy. --plan runs nothing: the times are those at the roofs.
 */
#include "base/opt.h"
#include "ops/drop.h"
#include "roof.h"
#include "shape.h"
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static double seconds = 0.3;            /* how long each is repeated */

/* ---- what is measured: a training step of the depth-12 model, a row of 2048 tokens, or of another
 * depth or model and of more rows */
enum { V = 32768, M = 2048 };
static int B = 1, N = 2048, C = 768, F = 3072, H = 6, K = 6, HD = 128, E = 4, TOP = 1, CHUNK = 256;
static int64_t BIG = 26 << 20;          /* elements of each array */
typedef struct Mem {
    real *x, *y, *z, *g;
    int *i;                             /* tokens, and 0 */
    int *pick, *slot, *off;             /* of experts: as many assignments for each */
    int *sorted;                        /* what route() finds: pick, slot, src [N TOP], off [E + 1] */
} Mem;
static void set_shape(const Config *c, int rows, int chunk)
{
    B = rows;
    N = rows * M;
    H = c->H, K = c->K, C = c->C, HD = head_size(c);
    F = c->llama.E ? c->llama.Fe : c->llama.F ? c->llama.F : 4 * C;
    if (c->llama.E) E = c->llama.E, TOP = c->llama.top;
    CHUNK = chunk ? chunk : rows == 1 ? 256 : 2048;
    const int64_t most[] = { (int64_t)N * F, (int64_t)V * C, (int64_t)CHUNK * V,
                             (int64_t)N * TOP * F, (int64_t)E * C * F, 3 * (int64_t)N * H * HD };
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        if (BIG < most[i]) BIG = (most[i] + 63) / 64 * 64;
}
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
CASE(emb_bwd, o->embed_bwd(store_real(m->y), A(m->x), m->i, N, C, V))
CASE(rms, o->rmsnorm(A(m->y), m->z, A(m->x), N, C, (real)1e-6))
CASE(rms_bwd, o->rmsnorm_bwd(A(m->y), A(m->x), A(m->g), m->z, N, C))
CASE(smear, o->smear(A(m->y), A(m->x), NULL, NULL, NULL, m->z, m->z, B, M, C, 24))
CASE(smear_bwd, o->smear_bwd(A(m->y), m->g, m->g, A(m->x), A(m->z), NULL, m->z, m->z, B, M, C,
                             24))
CASE(mix, o->mix(A(m->y), A(m->x), m->g, A(m->z), m->g, 1, (int64_t)N * C))
CASE(mix_bwd, o->mix_bwd(A(m->y), m->g, A(m->z), m->g, A(m->x), A(m->x), m->z, A(m->x), m->z, 1,
                         (int64_t)N *C))
CASE(mix_norm, o->mix_norm(A(m->y), A(m->y + (int64_t)N * C), m->g, A(m->x), m->g, A(m->z), m->g, 1,
                           N, C, (real)1e-6))
CASE(mix_norm_bwd, o->mix_norm_bwd(A(m->y), m->g, A(m->z), m->g, A(m->y), A(m->x), A(m->x), m->z,
                                   A(m->x), m->z, A(m->x), m->z, 1, N, C, 0))
CASE(vgate, o->vgate(A(m->y), A(m->x), A(m->z), m->i, A(m->x), m->g, N, C, H, HD, 12))
CASE(vgate_bwd, o->vgate_bwd(A(m->y), store_real(m->z), A(m->y), m->g, A(m->x), A(m->x), m->i, A(m->x), m->x, N,
                             C, H, HD, 12, V))
CASE(rope, o->rope(A(m->y), m->g, A(m->x), m->z, NULL, NULL, B, M, H, HD, 1, (real)1.2,
                   (real)1e-6))
CASE(rope_bwd, o->rope_bwd(A(m->y), A(m->x), A(m->x), m->x, m->z, NULL, B, M, H, HD, 1,
                           (real)1.2, 1))
CASE(attn, o->attn(A(m->y), m->g, A(m->x), A(m->x), A(m->z), NULL, B, M, H, H, HD, 0))
CASE(attn_win, o->attn(A(m->y), m->g, A(m->x), A(m->x), A(m->z), NULL, B, M, H, H, HD, 512))
CASE(attn_bwd, o->attn_bwd(A(m->y), A(m->y + (int64_t)N * C), A(m->y + 2 * (int64_t)N * C), A(m->x), A(m->x), m->g,
                           A(m->x), A(m->x), A(m->z), NULL, B, M, H, H, HD, 0))
CASE(attn_bwd_win, o->attn_bwd(A(m->y), A(m->y + (int64_t)N * C), A(m->y + 2 * (int64_t)N * C), A(m->x), A(m->x),
                               m->g, A(m->x), A(m->x), A(m->z), NULL, B, M, H, H, HD, 512))
CASE(decode, o->attn_kv(A(m->y), A(m->x), A(m->x), A(m->z), m->i + N, 4, 1, M, H, H, HD, 0))
CASE(relu2, o->relu2(A(m->y), A(m->x), (int64_t)N * F))
CASE(relu2_bwd, o->relu2_bwd(A(m->y), A(m->x), A(m->z), (int64_t)N * F, 1))
CASE(add, o->add(A(m->y), A(m->x), (int64_t)N * C))
CASE(xent, o->xent(m->g, A(m->y), m->i, NULL, CHUNK, V, V, 15, (real)1e-3))
CASE(xent_eval, o->xent(m->g, A(m->x), m->i, NULL, CHUNK, V, V, 15, 0))
CASE(logits, o->logits(m->y, A(m->x), CHUNK, V, V, 15))
CASE(adamw, o->adamw(store_real(m->y), store_real(m->x), store_real(m->z), store_real(m->g), BIG,
                     1e-3, .8, .95, 1e-10, .01, .2, .05))
#define H(p) ((Store){ .hi = (uint16_t *)(void *)(p) })
CASE(adamw_half, o->adamw(H(m->y), H(m->x), H(m->z), H(m->g), BIG, 1e-3, .8, .95, 1e-10, .01, .2,
                          .05))
CASE(muon_sq, o->muon(store_real(m->y), m->x, m->z, m->g, m->g + (1 << 20), 4, C, C, .95, .9, .02, .1))
CASE(muon_fc, o->muon(store_real(m->y), m->x, m->z, m->g, m->g + (1 << 20), 2, F, C, .95, .9, .02, .1))
CASE(muon_proj, o->muon(store_real(m->y), m->x, m->z, m->g, m->g + (1 << 20), 2, C, F, .95, .9, .02, .1))
CASE(muon_gate, o->muon(store_real(m->y), m->x, m->z, m->g, m->g + (1 << 20), 6, H, 12, .95, .9, .02, .1))
CASE(cast, o->cast(A(m->y), m->x, (int64_t)F * C))
CASE(uncast, o->uncast(m->y, A(m->x), (int64_t)F * C))
CASE(lerp, o->lerp(m->y, store_real(m->x), 1e-3, BIG))
CASE(sumsq, o->sumsq((double *)(void *)m->g, store_real(m->x), BIG))
CASE(scale, o->scale(store_real(m->x), 1, BIG))
CASE(zero, o->zero(m->y, (size_t)BIG * sizeof(real)))

/* ---- of the Llama family alone. A gate's weights are those of E tokens. */
static const Drop drop = { .p = 0.1, .key = 1 };
#define NK ((int)(N * TOP))
CASE(gain, o->gain(A(m->y), A(m->x), m->z, N, C))
CASE(gain_bwd, o->gain_bwd(A(m->y), m->g, A(m->x), A(m->z), m->z, N, C))
CASE(swiglu, o->swiglu(A(m->y), A(m->x), A(m->z), (int64_t)N * F))
CASE(swiglu_bwd, o->swiglu_bwd(A(m->y), A(m->g), A(m->x), A(m->z), A(m->z), (int64_t)N * F, 0))
CASE(gqa, o->attn(A(m->y), m->g, A(m->x), A(m->x), A(m->z), NULL, B, M, H, K, HD, 0))
CASE(gqa_bwd, o->attn_bwd(A(m->y), A(m->g + BIG / 2), A(m->y + 2 * (int64_t)N * H * HD), A(m->x),
                          A(m->x), m->g, A(m->x), A(m->x), A(m->z), NULL, B, M, H, K, HD, 0))
CASE(attn_drop, o->attn_drop(A(m->y), m->g, A(m->x), A(m->x), A(m->z), NULL, B, M, H, K, HD, 0,
                             &drop))
CASE(attn_drop_bwd, o->attn_drop_bwd(A(m->y), A(m->g + BIG / 2), A(m->y + 2 * (int64_t)N * H * HD),
                                     A(m->x), A(m->x), m->g, A(m->x), A(m->x), A(m->z), NULL, B, M, H,
                                     K, HD, 0, &drop))
CASE(dropout, o->dropout(A(m->y), A(m->x), (int64_t)N * C, &drop, 1))
CASE(route, o->route(m->y, m->g, m->sorted, m->sorted + NK, m->sorted + 2 * NK, m->sorted + 3 * NK,
                     m->g + BIG / 2, A(m->x), m->z, N, C, E, TOP, 1))
CASE(route_bwd, o->route_bwd(A(m->y), m->g, m->x, m->z, m->z, m->pick, m->off, A(m->x), m->z, N, C, E,
                             TOP, 1, 1e-3))
CASE(experts, o->experts(A(m->y), A(m->x), A(m->z), m->off, NK, E, C, F))
CASE(experts_dx, o->experts_dx(A(m->y), A(m->x), A(m->z), m->off, NK, E, C, F, 0))
CASE(experts_dw, o->experts_dw(m->y, A(m->x), A(m->z), m->off, NK, E, C, F))
CASE(slots_add, o->slots_add(A(m->y), A(m->x), m->z, m->slot, N, TOP, C))
CASE(slots_add_bwd, o->slots_add_bwd(A(m->y), m->g, A(m->x), A(m->z), m->z, m->slot, N, TOP, C, 0))

/* of a shape the capitals stand for their numbers: Q CHUNK, D HD, A BIG, G K */
typedef struct Case { const char *name, *shape; void (*run)(const Ops *, Mem *); } Case;
static const Case nanochat[] = {
    { "linear", "N C C", lin_qkv },
    { "linear", "N C F", lin_fc },
    { "linear", "N F C, adds", lin_proj },
    { "linear", "Q C V", lin_head },
    { "linear", "64 256 256", lin_small },
    { "linear", "1 C V", lin_one },
    { "linear", "4 C V", lin_four },
    { "linear_dx", "N C F", lin_dx },
    { "linear_dx", "Q C V", lin_head_dx },
    { "linear_dw", "N C F", lin_dw },
    { "linear_dw", "Q C V", lin_head_dw },
    { "attn", "N HxD", attn },
    { "attn", "N HxD, window 512", attn_win },
    { "attn_bwd", "N HxD", attn_bwd },
    { "attn_bwd", "N HxD, window 512", attn_bwd_win },
    { "attn_kv", "4 rows, 1 on M, HxD", decode },
    { "muon", "4 of C C", muon_sq },
    { "muon", "2 of F C", muon_fc },
    { "muon", "2 of C F", muon_proj },
    { "muon", "6 of H 12", muon_gate },
    { "adamw", "A", adamw }, { "adamw_half", "A", adamw_half },
    { "sumsq", "A", sumsq },
    { "scale", "A", scale },
    { "zero", "A", zero },
    { "xent", "Q V", xent },
    { "xent", "Q V, loss only", xent_eval },
    { "logits", "Q V", logits },
    { "embed", "N C", emb },
    { "embed_bwd", "N C", emb_bwd },
    { "rmsnorm", "N C", rms },
    { "rmsnorm_bwd", "N C", rms_bwd },
    { "smear", "N C", smear },
    { "smear_bwd", "N C", smear_bwd },
    { "mix", "N C", mix },
    { "mix_bwd", "N C", mix_bwd },
    { "mix_norm", "N C", mix_norm },
    { "mix_norm_bwd", "N C", mix_norm_bwd },
    { "vgate", "N HxD", vgate },
    { "vgate_bwd", "N HxD", vgate_bwd },
    { "rope", "N HxD", rope },
    { "rope_bwd", "N HxD", rope_bwd },
    { "relu2", "N F", relu2 },
    { "relu2_bwd", "N F", relu2_bwd },
    { "add", "N C", add },
    { "cast", "F C", cast }, { "uncast", "F C", uncast },
    { "lerp", "A", lerp },
};
static const Case llama[] = {
    { "gain", "N C", gain }, { "gain_bwd", "N C", gain_bwd },
    { "swiglu", "N F", swiglu }, { "swiglu_bwd", "N F", swiglu_bwd },
    { "attn", "N HxD, G heads of keys", gqa }, { "attn_bwd", "N HxD, G heads of keys", gqa_bwd },
    { "attn_drop", "N HxD, G heads of keys", attn_drop },
    { "attn_drop_bwd", "N HxD, G heads of keys", attn_drop_bwd },
    { "dropout", "N C, adds", dropout },
    { "route", "N C, E experts", route }, { "route_bwd", "N C, E experts", route_bwd },
    { "experts", "N C F, E experts", experts },
    { "experts_dx", "N C F, E experts", experts_dx },
    { "experts_dw", "N C F, E experts", experts_dw },
    { "slots_add", "N C", slots_add }, { "slots_add_bwd", "N C", slots_add_bwd },
};

static const char *shape_text(const char *shape)
{
    static char s[80];
    const struct { char name; int64_t n; } letters[] = {
        { 'N', N }, { 'C', C }, { 'F', F }, { 'H', H }, { 'D', HD }, { 'V', V }, { 'M', M },
        { 'Q', CHUNK }, { 'A', BIG }, { 'G', K }, { 'E', E },
    };
    size_t at = 0;
    for (; *shape && at + 24 < sizeof s; shape++) {
        int64_t n = -1;
        for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
            if (*shape == letters[i].name) n = letters[i].n;
        if (n < 0) s[at++] = *shape;
        else at += (size_t)snprintf(s + at, 24, "%lld", (long long)n);
    }
    s[at] = 0;
    return s;
}

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
static int *ints(const Ops *o, const int *host, int n)
{
    int *x = o->alloc((size_t)n * sizeof *x);
    o->put(x, host, (size_t)n * sizeof *x);
    return x;
}
/* the i-th assignment goes to expert i modulo E */
static void assign(const Ops *o, Mem *m)
{
    int *pick = xcalloc((size_t)NK, sizeof *pick), *slot = xcalloc((size_t)NK, sizeof *slot),
        *off = xcalloc((size_t)E + 1, sizeof *off);
    for (int i = 0; i < NK; i++) off[i % E + 1]++;
    for (int e = 0; e < E; e++) off[e + 1] += off[e];
    for (int i = 0; i < NK; i++) {
        pick[i] = i % E;
        slot[i] = off[i % E] + i / E;
    }
    m->pick = ints(o, pick, NK), m->slot = ints(o, slot, NK), m->off = ints(o, off, E + 1);
    m->sorted = o->alloc(((size_t)NK * 3 + (size_t)E + 1) * sizeof *m->sorted);
    free(pick), free(slot), free(off);
}
static Mem prepare(const Ops *o)
{
    Mem m;
    real **all[] = { &m.x, &m.y, &m.z, &m.g };
    for (int k = 0; k < 4; k++) {
        *all[k] = o->alloc((size_t)BIG * sizeof(real));
        if (strcmp(o->name, "count") != 0) fill(o, *all[k], (unsigned)k + 1);
    }
    int *tok = xmalloc(((size_t)N + 4) * sizeof *tok);
    for (int i = 0; i < N + 4; i++)
        tok[i] = i < N ? (int)((unsigned)i * 2654435761u >> 17) % V : M - 1;
    m.i = ints(o, tok, N + 4);
    free(tok);
    assign(o, &m);
    return m;
}
static double time_of(const Ops *o, Mem *m, void (*run)(const Ops *, Mem *), int times)
{
    double t0 = now_seconds();
    for (int i = 0; i < times; i++) run(o, m);
    o->sync();
    return (now_seconds() - t0) / times;
}
/* times: a GPU is given enough to do that waiting for it does not count */
static double best_time(const Ops *o, Mem *m, void (*run)(const Ops *, Mem *))
{
    double best = time_of(o, m, run, 1), begin = now_seconds();
    const int times = strncmp(o->name, "cuda", 4) != 0 || best > 1e-2 ? 1 : 20;
    while (now_seconds() - begin < seconds) {
        const double t = time_of(o, m, run, times);
        if (t < best) best = t;
    }
    return best;
}
static int wanted(const char *name, char **names, int n)
{
    for (int i = 1; i <= n; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) return 1;
    return n == 0;
}

/* The roofs with one thread and with all; returns the latter. */
static Roof roofs(const Ops *o, int json)
{
    const int threads = threads_used();
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
               "GB/s\n%-13s %-28s %10s %9s %8s %6s\n", o->name, o->dtype, one.flops / 1e9,
               r.flops / 1e9, threads, one.bytes / 1e9, r.bytes / 1e9, "operation", "shape", "us",
               "GFLOP/s", "GB/s", "roof");
    return r;
}

/* of a GPU: a large product, and a copy, which reads and writes */
static void big_product(const Ops *o, Mem *m)
{
    o->linear(A(m->y), A(m->x), A(m->z), 4096, 4096, 4096, 0);
}
static void big_copy(const Ops *o, Mem *m) { o->copy(m->y, m->x, (size_t)BIG * sizeof(real)); }
static Roof device_roofs(const Ops *o, Mem *m, double peak, double bandwidth, int json)
{
    Roof r = { peak * 1e12, bandwidth * 1e9 };
    if (!peak) r.flops = 2 * 4096. * 4096 * 4096 / best_time(o, m, big_product);
    if (!bandwidth) r.bytes = 2. * (double)BIG * sizeof(real) / best_time(o, m, big_copy);
    if (json)
        printf("{\"tier\": \"%s\", \"dtype\": \"%s\", \"gflops\": %.0f, \"gbytes\": %.0f}\n", o->name,
               o->dtype, r.flops / 1e9, r.bytes / 1e9);
    else
        printf("%s %s: %.0f TFLOP/s, memory %.0f GB/s\n%-13s %-28s %10s %9s %8s %6s\n", o->name,
               o->dtype, r.flops / 1e12, r.bytes / 1e9, "operation", "shape", "us", "GFLOP/s", "GB/s",
               "roof");
    return r;
}

typedef struct Work { double flops, bytes; } Work;
static Work work_of(const Ops *count, Mem *none, OpsCount *sum, const Case *c)
{
    memset(sum, 0, sizeof *sum);
    c->run(count, none);
    return (Work){ sum->flops_fwd + sum->flops_bwd + sum->flops_opt, sum->bytes };
}
/* t, least: seconds, taken and at the roofs */
static void show(const Case *c, Work w, double least, double t, int json)
{
    printf(json ? "{\"op\": \"%s\", \"shape\": \"%s\", \"us\": %.1f, \"gflops\": %.1f, "
                  "\"gbytes\": %.1f, \"of_roof\": %.3f}\n"
                : "%-13s %-28s %10.1f %9.1f %8.1f %5.0f%%\n", c->name, shape_text(c->shape), t * 1e6,
           w.flops / t / 1e9, w.bytes / t / 1e9, json ? least / t : 100 * least / t);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int threads = 0, depth = 12, rows = 1, chunk = 0;
    double peak = 0, bandwidth = 0;
    int json = 0, plan = 0;
    const char *dtype = "fp32", *device = "cpu", *model = NULL;
    const Opt opts[] = {
        OPT_INT('j', "threads", &threads, "N", 0, INT_MAX, "threads (0: all)"),
        OPT_FLOAT('t', "time", &seconds, "SECONDS", 0, 60, "how long to repeat each operation"),
        OPT_STR(0, "dtype", &dtype, "TYPE", "activations: fp32 or bf16"),
        OPT_STR('d', "device", &device, "NAME", "cpu, cuda or cuda:N"),
        OPT_INT(0, "depth", &depth, "N", 1, 128, "of nanochat's model"),
        OPT_STR(0, "model", &model, "NAME", "of the Llama family: a preset, qwen3-0.6b, a config.json"),
        OPT_INT(0, "chunk", &chunk, "N", 0, 1 << 16, "rows of logits at once (0: 256, of several rows 2048)"),
        OPT_INT(0, "rows", &rows, "N", 1, 64, "of 2048 tokens"),
        OPT_FLOAT(0, "peak", &peak, "TFLOPS", 0, 1e6, "the roof of products (0: measured)"),
        OPT_FLOAT(0, "bandwidth", &bandwidth, "GBYTES", 0, 1e6, "that of memory, a second (0: measured)"),
        OPT_FLAG(0, "plan", &plan, "run nothing: the times at the roofs"),
        OPT_FLAG(0, "json", &json, "an object a line"),
        OPT_END
    };
    ops_begin(argv);
    int names = opt_parse(argc, argv, "[options] [NAME ...]",
                          "Speed of the operations against the machine's roofs.", opts);
    if (plan && !(peak > 0 && bandwidth > 0)) die_usage("--plan needs --peak and --bandwidth");
    const Config c = shape(model, depth, M, V);
    set_shape(&c, rows, chunk);
    OpsCount sum = { 0 };
    const Ops *count = ops_count(&sum, dtype), *o = plan ? count : ops_open(device, dtype, threads);
    const bool cpu = strncmp(o->name, "cpu", 3) == 0;
    Roof roof = cpu ? roofs(o, json) : (Roof){ 0 };
    Mem none = prepare(count), m = plan ? none : prepare(o);
    if (!cpu) roof = device_roofs(o, &m, peak, bandwidth, json);
    const Case *all = model ? llama : nanochat;
    const size_t n = model ? sizeof llama / sizeof *llama : sizeof nanochat / sizeof *nanochat;
    for (size_t i = 0; i < n; i++)
        if (wanted(all[i].name, argv, names)) {
            const Work w = work_of(count, &none, &sum, &all[i]);
            const double least = fmax(w.flops / roof.flops, w.bytes / roof.bytes);
            show(&all[i], w, least, plan ? least : best_time(o, &m, all[i].run), json);
        }
    return 0;
}
