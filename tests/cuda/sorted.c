/* Tokens are sorted once for all tables that they read, and again when they may be others: after each
 * operation that writes them, and around graphs. Each is checked by the gradient of a table, which
 * takes the rows of the tokens it was told. And what a graph cannot grow is said. */
#define HARNESS_CUDA
#include "../ops/harness.h"
#include "ops/cuda/cuda.h"

enum { N = 500, C = 8, V = 40, BYTES = N * sizeof(int) };
static const Ops *o;
static int ids[2][N], *idx, *other;             /* other: ids[1], on the device */
static Act *dy;
static real *dw;

/* is the gradient, of what the device does now, that of ids[which]? The numbers of dy are whole. */
static bool is_of(int which, const real *got)
{
    real want[V * C] = { 0 };
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++) want[ids[which][n] * C + c] += (real)(n % 7 - 3);
    return memcmp(want, got, sizeof want) == 0;
}
static void gradient(void) { o->embed_bwd(store_real(dw), dy, idx, N, C, V); }
static bool gives(int which)
{
    real *got = dev_get(o, dw, V * C * sizeof *got);
    const bool is = is_of(which, got);
    free(got);
    o->zero(dw, V * C * sizeof *dw);
    return is;
}
static bool after(void (*write)(void))          /* ids[0] are sorted, then others written */
{
    o->put(idx, ids[0], BYTES);
    gradient();
    if (!gives(0)) return false;
    write();
    gradient();
    return gives(1);
}
static void by_put(void) { o->put(idx, ids[1], BYTES); }
static void by_part(void)
{
    o->put(idx + N - 1, &ids[1][N - 1], sizeof(int));
    o->put(idx, ids[1], BYTES - sizeof(int));
}
static void by_copy(void) { o->copy(idx, other, BYTES); }
static void by_zero(void)
{
    o->zero(idx, BYTES);
    o->copy(idx, other, BYTES);
}
static void *noted(void (*work)(void))
{
    o->graph_begin();
    work();
    return o->graph_end();
}
/* a graph that sorts, and does so each time, from what is there then */
static void graph_sorts(void)
{
    o->put(idx, ids[0], BYTES);
    gradient();
    bool good = gives(0);
    void *g = noted(gradient);
    o->put(idx, ids[1], BYTES);
    good &= g && o->graph_run(g) && gives(1);
    o->graph_free(g);
    o->put(idx, ids[0], BYTES);
    g = noted(gradient);
    gradient();                                 /* not from what was only noted down */
    good &= gives(0);
    good &= g && o->graph_run(g) && gives(0);
    ok(good, "a graph sorts the tokens of its time");
    o->graph_free(g);
}
static void graph_writes(void)
{
    void *g = noted(by_copy);
    o->put(idx, ids[0], BYTES);
    gradient();
    bool good = gives(0) && g && o->graph_run(g);
    gradient();
    ok(good && gives(1), "tokens that a graph wrote are sorted anew");
    o->graph_free(g);
}
static void grow(void *unused)
{
    (void)unused;
    o->graph_begin();
    cuda_scratch(SLOT_OP, 1 << 26);
}

int main(void)
{
    real x[N * C];
    o = tier_ops("cuda", 1);
    for (int n = 0; n < N; n++) {
        ids[0][n] = n * 7 % V;
        ids[1][n] = n * n % (V - 3);
        for (int c = 0; c < C; c++) x[n * C + c] = (real)(n % 7 - 3);
    }
    idx = dev(o, NULL, BYTES), other = dev(o, ids[1], BYTES), dy = dev(o, x, sizeof x);
    dw = dev(o, NULL, V * C * sizeof *dw);
    ok(after(by_put) && after(by_part) && after(by_copy) && after(by_zero),
       "tokens that were put, in part, copied or zeroed are sorted anew");
    graph_sorts();
    graph_writes();
    dev_end(o);
    ok(dies(1, "while a graph is noted down", grow, NULL), "scratch cannot grow in a graph");
    return done();
}
