/* Collectives: what arrives, with canaries before and behind the arrays, counts that the ranks do not
 * divide, none at all, and more than one message. By itself this is one rank; tests/cli/ranks.sh runs
 * it under mpirun, where rank 0 prints what all have found. */
#include "base/err.h"
#include "ops/comm.h"
#include "tap.h"
#include <math.h>
#include <stdint.h>

enum { GUARD = 64 };                    /* bytes on both sides */
static const Comm *c;
static double wrong_anywhere(int wrong) { return comm_sum(wrong); }
#define same(wrong, ...) do { \
        double w_ = wrong_anywhere(wrong); \
        if (c->rank == 0) ok(w_ == 0, __VA_ARGS__); \
        else if (w_ > 0) tap_bad++; \
    } while (0)

static const int size_of[COMM_TYPES] = { 4, 8, 2 };
static const char *const type_name[COMM_TYPES] = { "fp32", "fp64", "bf16" };

static float bf16(float f)              /* rounded to nearest, even */
{
    uint32_t b;
    memcpy(&b, &f, 4);
    b = (b + 0x7fff + (b >> 16 & 1)) & 0xffff0000u;
    memcpy(&f, &b, 4);
    return f;
}
static void store(void *x, int64_t i, CommType t, double v)
{
    if (t == COMM_F32) ((float *)x)[i] = (float)v;
    else if (t == COMM_F64) ((double *)x)[i] = v;
    else {
        float f = bf16((float)v);
        memcpy((uint16_t *)x + i, (char *)&f + 2, 2);
    }
}
static double load(const void *x, int64_t i, CommType t)
{
    float f = 0;
    if (t == COMM_F32) return (double)((const float *)x)[i];
    if (t == COMM_F64) return ((const double *)x)[i];
    memcpy((char *)&f + 2, (const uint16_t *)x + i, 2);
    return (double)f;
}

/* Rank r's element i: small integers and eighths, whose sums are exact in all types. */
static double value(int r, int64_t i) { return (double)((i * 7 + r * 5) % 13) - 6 + 0.125 * (r % 2); }
static double total(int64_t i)
{
    double s = 0;
    for (int r = 0; r < c->ranks; r++) s += value(r, i);
    return s;
}

typedef struct Array { char *all; void *x; int64_t n; CommType t; } Array;
static Array array(int64_t n, CommType t)
{
    Array a = { .n = n, .t = t };
    size_t bytes = (size_t)(n * size_of[t]);
    a.all = xmalloc(bytes + 2 * GUARD);
    memset(a.all, 0xa5, bytes + 2 * GUARD);
    a.x = a.all + GUARD;
    for (int64_t i = 0; i < n; i++) store(a.x, i, t, value(c->rank, i));
    return a;
}
/* Frees it; how many canaries are dead. */
static int end(Array *a)
{
    int dead = 0;
    const char *behind = (char *)a->x + a->n * size_of[a->t];
    for (int i = 0; i < GUARD; i++)
        dead += (unsigned char)a->all[i] != 0xa5 || (unsigned char)behind[i] != 0xa5;
    free(a->all);
    return dead;
}

static void test_sum(int64_t n, CommType t)
{
    Array a = array(n, t);
    int wrong = 0;
    c->wait(c->sum(a.x, n, t));
    for (int64_t i = 0; i < n; i++) wrong += load(a.x, i, t) != total(i);
    same(wrong + end(&a), "sum of %lld, %s", (long long)n, type_name[t]);
}

static void test_parts(int64_t n, int64_t part, CommType t)
{
    Array a = array(n, t), b = array(n, t);
    int wrong = 0;
    int64_t from = c->rank * part, to = from + part < n ? from + part : n;
    c->scatter(a.x, n, part, t);
    c->wait(c->gather(b.x, n, part, t));
    for (int64_t i = from; i < to; i++) wrong += load(a.x, i, t) != total(i);
    for (int64_t i = 0; i < n; i++) wrong += load(b.x, i, t) != value((int)(i / part), i);
    wrong += end(&a) + end(&b);
    same(wrong, "%lld in parts of %lld, %s", (long long)n, (long long)part, type_name[t]);
}

static void test_broadcast(int64_t n, CommType t, int root)
{
    Array a = array(n, t);
    int wrong = 0;
    c->wait(c->broadcast(a.x, n, t, root));
    for (int64_t i = 0; i < n; i++) wrong += load(a.x, i, t) != value(root, i);
    same(wrong + end(&a), "broadcast of %lld from %d, %s", (long long)n, root, type_name[t]);
}

/* Terms that cancel: in the order of ranks and in double nothing is lost, and every run and every way
 * through (few at once, in parts) gives the same bits. */
static void test_order(void)
{
    enum { N = 1000 };
    float x[N], y[N], z[N];
    int wrong = 0;
    for (int i = 0; i < N; i++)
        x[i] = y[i] = z[i] = (float)sin(i + 10 * c->rank) * (i % 2 ? 1e-6f : 1e6f);
    c->sum(x, N, COMM_F32);
    c->sum(y, N, COMM_F32);
    for (int i = 0; i < N; i += 8) c->sum(z + i, 8, COMM_F32);
    for (int i = 0; i < N; i++) {
        double s = 0;
        for (int r = 0; r < c->ranks; r++)
            s += (double)((float)sin(i + 10 * r) * (i % 2 ? 1e-6f : 1e6f));
        wrong += x[i] != (float)s || y[i] != x[i] || z[i] != x[i];
    }
    same(wrong, "sums in the order of ranks, rounded once");
}

int main(void)
{
    static const int64_t n[] = { 0, 1, 2, 5, 257, 1000, 400003 };
    comm_begin();
    c = comm_host();
    int R = c->ranks;
    double top[2] = { c->rank, -c->rank };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int t = 0; t < COMM_TYPES; t++) {
            test_sum(n[i], (CommType)t);
            test_parts(n[i], (n[i] + R - 1) / R, (CommType)t);
        }
    test_parts(4, R == 1 ? 4 : 2, COMM_F32);        /* of three ranks the last has none */
    test_parts(5, 5, COMM_F32);                     /* all is rank 0's */
    test_parts(600001, R == 1 ? 600001 : 400000, COMM_BF16);
    for (int root = 0; root < R; root++) test_broadcast(root ? 3 : 400003, COMM_F32, root);
    test_broadcast(0, COMM_BF16, R - 1);
    test_order();
    comm_max(top, 2);
    same(top[0] != R - 1 || top[1] != 0, "the largest of all ranks'");
    int locals, local = comm_local(&locals);
    same(local < 0 || local >= locals || comm_threads() < 1, "a number on this machine, threads");
    c->barrier();
    int r = c->rank;
    comm_end();
    return r ? tap_bad != 0 : done();
}
