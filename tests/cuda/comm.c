/* Collectives on the device (lib/ops/cuda/nccl.c): what comes before them on the first stream is in,
 * what comes after wait() sees them. tests/cuda/ranks.sh runs it under mpirun, with both streams early
 * and late; by itself this is one rank. */
#include "base/err.h"
#include "ops/comm.h"
#include "tap.h"

static const Comm *c;
static const Ops *o;
#define same(wrong, ...) do { \
        double w_ = comm_sum(wrong); \
        if (c->rank == 0) ok(w_ == 0, __VA_ARGS__); \
        else if (w_ > 0) tap_bad++; \
    } while (0)

static float value(int r, int64_t i) { return (float)((i * 7 + r * 5) % 13) - 6; }
static float total(int64_t i)
{
    float s = 0;
    for (int r = 0; r < c->ranks; r++) s += value(r, i);
    return s;
}

/* Device arrays of n numbers, one of them full of the rank's values. */
typedef struct Arrays { int64_t n; size_t bytes; void *from, *x, *to; } Arrays;
static size_t size_of(CommType t) { return t == COMM_F32 ? 4 : t == COMM_F64 ? 8 : 2; }
static Arrays arrays(int64_t n, CommType t)
{
    Arrays a = { .n = n, .bytes = (size_t)n * size_of(t) };
    char *host = xcalloc(a.bytes + 1, 1);
    for (int64_t i = 0; i < n; i++) {
        float f = value(c->rank, i);
        double d = (double)f;
        if (t == COMM_F32) memcpy(host + 4 * i, &f, 4);
        else if (t == COMM_F64) memcpy(host + 8 * i, &d, 8);
        else memcpy(host + 2 * i, (char *)&f + 2, 2);
    }
    void **all[] = { &a.from, &a.x, &a.to };
    for (int i = 0; i < 3; i++) *all[i] = o->alloc(a.bytes);
    o->put(a.from, host, a.bytes);
    o->sync();
    free(host);
    return a;
}
/* Numbers [lo, hi) that differ from total() or from the value of the rank whose part they are in. */
static int wrong_in(Arrays *a, CommType t, int64_t lo, int64_t hi, int64_t part)
{
    char *host = xcalloc(a->bytes + 1, 1);
    int wrong = 0;
    o->get(host, a->to, a->bytes);
    for (int64_t i = lo; i < hi; i++) {
        float f = 0, want = part ? value((int)(i / part), i) : total(i);
        double d;
        if (t == COMM_F32) memcpy(&f, host + 4 * i, 4);
        else if (t == COMM_BF16) memcpy((char *)&f + 2, host + 2 * i, 2);
        else { memcpy(&d, host + 8 * i, 8); f = (float)d; }
        wrong += f != want;
    }
    o->free(a->from, a->bytes);
    o->free(a->x, a->bytes);
    o->free(a->to, a->bytes);
    free(host);
    return wrong;
}

enum { SUM, SCATTER, GATHER };
static void test(int what, int64_t n, int64_t part, CommType t)
{
    static const char *const name[] = { "sum", "scatter", "gather" };
    Arrays a = arrays(n, t);
    int64_t call = 0, lo = what == SCATTER ? c->rank * part : 0, hi = what == SCATTER ? lo + part : n;
    o->copy(a.x, a.from, a.bytes);              /* on the first stream, before and after */
    if (what == SUM) call = c->sum(a.x, n, t);
    if (what == SCATTER) call = c->scatter(a.x, n, part, t);
    if (what == GATHER) call = c->gather(a.x, n, part, t);
    c->wait(call);
    o->copy(a.to, a.x, a.bytes);
    int wrong = wrong_in(&a, t, lo, hi < n ? hi : n, what == GATHER ? part : 0);
    same(wrong, "%s of %lld in parts of %lld", name[what], (long long)n, (long long)part);
}

int main(void)
{
    static const int64_t n[] = { 0, 1, 5, 257, 12000 };
    comm_begin();
    int locals, local = comm_local(&locals);
    o = ops_open(ops_device("cuda", local), "fp32", 1);
    c = comm_device(o);
    int R = c->ranks;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int t = 0; t < COMM_TYPES; t++)
            for (int what = SUM; what <= GATHER; what++)
                test(what, n[i], (n[i] + R - 1) / R, (CommType)t);
    test(SCATTER, 5, 5, COMM_F32);              /* all is rank 0's */
    test(GATHER, 5, 5, COMM_BF16);
    Arrays a = arrays(77, COMM_F32);
    o->copy(a.x, a.from, a.bytes);
    c->wait(c->broadcast(a.x, 77, COMM_F32, R - 1));
    o->copy(a.to, a.x, a.bytes);
    float *host = xcalloc(77, sizeof *host);
    o->get(host, a.to, a.bytes);
    int wrong = 0;
    for (int i = 0; i < 77; i++) wrong += host[i] != value(R - 1, i);
    same(wrong, "broadcast from the last rank");
    free(host);
    for (int i = 0; i < 200; i++) {             /* more calls than there are events */
        o->copy(a.x, a.from, a.bytes);
        c->wait(c->sum(a.x, 77, COMM_F32));
    }
    o->copy(a.to, a.x, a.bytes);
    same(wrong_in(&a, COMM_F32, 0, 77, 0), "many calls");
    c->barrier();
    int r = c->rank;
    comm_end();
    return r ? tap_bad != 0 : done();
}
