/* Sampling on the device (pick.cu) against that of the host (gpt/pick.h): the same token for the same
 * random number, for all filters together and alone, for rows with ties, of equal logits, of a few
 * levels, of extremes, of odd lengths, in all of the emulator's schedules. Sums are in another order
 * there: where a token differs, the host's must be the device's too for a number or a top-p that is
 * off by a few roundings; of rows at random there must be none. */
#include "base/err.h"
#include "cuda_runtime_api.h"
#include "gpt/pick.h"
#include "tap.h"
#include <math.h>

const Ops *cuda_ops_fp32(void);

enum { ROWS = 4 };
static Rng rng;

static double uniform(void) { return rng_uniform(&rng); }
static double one_of(const double *v, int n) { return v[rng_below(&rng, (uint64_t)n)]; }

enum { NORMAL, LEVELS, EQUAL, STEEP, TINY, BAD, KINDS };
static const char *const kinds[] = { "at random", "of four levels", "all equal", "steep", "tiny",
                                     "with one that is not finite" };
static void fill(float *l, int V, int kind)
{
    const float bad[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; i < V; i++) {
        const double x = rng_normal(&rng);
        l[i] = kind == LEVELS  ? (float)floor(2 * uniform() + 2 * uniform())
               : kind == EQUAL ? -2.5f
               : kind == STEEP ? (float)(1e4 * x)
               : kind == TINY  ? (float)(1e-42 * x) * (i % 3 ? 1 : 0)
                               : (float)(3 * x);
    }
    if (kind == BAD) l[rng_below(&rng, (uint64_t)V)] = bad[rng_below(&rng, 3)];
}
static Pick some_filters(int V)
{
    static const double temperature[] = { 0, 0.2, 0.7, 1, 1, 1, 3 }, top_p[] = { 0, 0, 0.05, 0.5, 0.9,
                        0.999, 1 }, min_p[] = { 0, 0, 0.02, 0.3, 1 }, penalty[] = { 0, 1, 1.3, 0.8 };
    const double k[] = { 0, 0, 1, 2, 7, 40, V / 2, V, V + 1 };
    return (Pick){ .temperature = one_of(temperature, 7), .top_k = (int)one_of(k, 9),
                   .top_p = one_of(top_p, 7), .min_p = one_of(min_p, 5), .penalty = one_of(penalty, 4) };
}
/* as pick() for a random number that is u */
static int with(const Pick *p, const float *l, int V, double u, double *tmp)
{
    double c = 0;
    u *= pick_weights(p, l, V, tmp);
    for (int i = 0; i < V; i++)
        if (u < (c += tmp[i])) return i;
    return -2;
}
static int near(const Pick *p, const float *l, int V, double u, double *tmp, int id)
{
    for (int a = -1; a <= 1; a++) for (int b = -1; b <= 1; b++) {
        Pick q = *p;
        q.top_p *= 1 + a * 1e-12;
        if (with(&q, l, V, u * (1 + b * 1e-12), tmp) == id) return 1;
    }
    return 0;
}
typedef struct Count { int rows, off, wrong; } Count;
/* ROWS rows of a kind by one choice of filters */
static void check(Count *c, int V, int kind, const Pick *p)
{
    const Ops *o = cuda_ops_fp32();
    const size_t bytes = (size_t)ROWS * (size_t)V;
    float *l = xreallocarray(NULL, bytes, sizeof *l);
    double *tmp = xreallocarray(NULL, 2 * (size_t)V, sizeof *tmp), u[ROWS];
    unsigned char *seen = xcalloc(bytes, 1);
    int last[ROWS], id[ROWS];
    Rng from[ROWS];
    for (int n = 0; n < ROWS; n++) {
        fill(l + (size_t)n * V, V, kind);
        for (int i = 0; i < V; i++) seen[(size_t)n * V + i] = uniform() < 0.2;
        last[n] = (int)rng_below(&rng, (uint64_t)V);
        rng_init(&from[n], rng_u64(&rng), 0);
        Rng copy = from[n];
        u[n] = rng_uniform(&copy);
    }
    const int some = p->penalty > 0 && p->penalty != 1;
    float *dl = o->alloc(bytes * sizeof *l);
    double *du = o->alloc(sizeof u);
    unsigned char *dseen = o->alloc(bytes);
    int *dlast = o->alloc(sizeof last), *did = o->alloc(sizeof id);
    o->put(dl, l, bytes * sizeof *l);
    o->put(du, u, sizeof u);
    o->put(dseen, seen, bytes);
    o->put(dlast, last, sizeof last);
    o->pick(did, dl, du, some ? dseen : NULL, dlast, ROWS, V, p);
    o->get(id, did, sizeof id);
    for (int n = 0; n < ROWS; n++) {
        float *row = l + (size_t)n * V;
        seen[(size_t)n * V + last[n]] = 1;
        if (some) pick_penalize(row, V, seen + (size_t)n * V, p->penalty);
        int want = pick(p, row, V, &from[n], tmp);
        c->rows++;
        c->off += id[n] != want;
        c->wrong += id[n] != want &&
                    (want < 0 || p->temperature == 0 || !near(p, row, V, u[n], tmp, id[n]));
    }
    o->free(dl, bytes * sizeof *l); o->free(du, sizeof u); o->free(dseen, bytes);
    o->free(dlast, sizeof last); o->free(did, sizeof id);
    free(l); free(tmp); free(seen);
}

int main(void)
{
    static const int sizes[] = { 1, 2, 31, 33, 100, 301, 511, 513, 700 }, large[] = { 4097, 32768 };
    rng_init(&rng, 1, 2);
    for (int kind = 0; kind < KINDS; kind++) {
        Count c = { 0 };
        for (int i = 0; i < 160; i++) {
            const int V = sizes[rng_below(&rng, sizeof sizes / sizeof *sizes)];
            const Pick p = some_filters(V);
            cuemu_schedule(i % 4);
            cuemu_protect(i % 40 < 4);
            check(&c, V, kind, &p);
            cuemu_protect(0);
        }
        ok(c.wrong == 0 && (kind != NORMAL || c.off == 0),
           "%d rows %s: the host's tokens (%d within rounding)", c.rows, kinds[kind], c.off);
    }
    cuemu_schedule(0);
    for (int i = 0; i < 2; i++) {
        Count c = { 0 };
        const Pick p[] = { { .temperature = 1, .top_p = 0.9 },
                           { .temperature = 0.8, .top_k = 50, .top_p = 0.95, .min_p = 0.02,
                             .penalty = 1.2 } };
        for (int k = 0; k < 2; k++) check(&c, large[i], NORMAL, &p[k]);
        check(&c, large[i], EQUAL, &p[0]);
        ok(c.off == 0, "%d rows of %d: the host's tokens", c.rows, large[i]);
    }
    ok(cuemu_damaged() == 0, "nothing was written past the end of a block");
    return done();
}
