/* bpb.h: both sums by hand; the evaluation of a model does not depend on the batch size. */
#include "gpt/bpb.h"
#include "base/rng.h"
#include "tap.h"
#include <math.h>
#include <signal.h>

enum { T = 16, V = 70, ROWS = 7 };

static void test_sums(void)
{
    const int32_t len[] = { 0, 1, 3 }, tgt[] = { 1, -1, 2, 0, 1 };
    const real loss[] = { 1, 100, 2, 8, 3 };
    Bpb b = {0};
    bpb_add(&b, loss, tgt, len, 2);
    bpb_add(&b, loss + 2, tgt + 2, len, 3);
    ok(b.bytes == 5 && b.nats == 6 && b.tokens == 4 && b.all == 14,
       "ignored and special targets stay out");
    ok(fabs(bpb_value(&b) - 6 / (log(2) * 5)) < 1e-15, "bits over bytes");
    ok(bpb_loss(&b) == 3.5, "mean over all targets, special tokens too");
    Bpb none = {0};
    ok(isinf(bpb_value(&none)) && isnan(bpb_loss(&none)), "no byte, no target");
}

static Data *make_data(const char *path)
{
    RowHead h = { .vocab = V, .bos = 0, .T = T, .masks = true, .tok_hash = 1 };
    RowWriter *w = rows_create(path, &h);
    Rng g;
    rng_init(&g, 7, 0);
    for (int r = 0; r < ROWS; r++) {
        uint32_t id[T + 1];
        uint8_t mask[T + 1];
        for (int t = 0; t <= T; t++) {
            id[t] = (uint32_t)rng_below(&g, V);
            mask[t] = rng_below(&g, 4) > 0;
        }
        rows_write(w, id, mask);
    }
    rows_close(w);
    const char *s[] = { path };
    return data_open(&(StrList){ s, 1 });
}

/* A signal that comes while the third batch is read back from the device. */
static volatile sig_atomic_t stop;
static void (*real_get)(void *, const void *, size_t);
static int gets;
static void stopping_get(void *to, const void *from, size_t n)
{
    real_get(to, from, n);
    stop = ++gets == 3;
}

static void test_stop(Model *m, Tape *t, const Data *d, const int32_t *len)
{
    Ops ops = *m->ops;
    BpbEval e;
    Bpb b = {0}, want = {0}, none = {0};
    real_get = ops.get;
    ops.get = stopping_get;
    bpb_eval_init(&e, &ops, 2, T);
    e.stop = &stop;
    t->on = 1;
    ok(!bpb_rows(&e, m, t, d, 0, ROWS, len, &b) && b.rows == 6 && t->on == 1,
       "an evaluation that is stopped says so, after the batch in progress");
    ok(!bpb_rows(&e, m, t, d, 0, ROWS, len, &none) && none.rows == 0 && none.tokens == 0,
       "one that is stopped before it begins measures nothing");
    stop = 0;
    ok(bpb_rows(&e, m, t, d, 0, 6, len, &want) && b.nats == want.nats && b.tokens == want.tokens,
       "and what is there are those rows");
    gets = 2;
    ok(bpb_rows(&e, m, t, d, 0, 2, len, &want), "after the last batch it is whole");
    bpb_eval_free(&e);
}

static void test_batches(const char *path)
{
    Config c = config_depth(2, 16, 16, T, V, "L");
    const Ops *ops = ops_cpu(2);
    Model *m = model_new(ops, &c, 0);
    model_init(m, 3);
    Data *d = make_data(path);
    int32_t len[V], x[T], y[T];
    uint64_t tokens = 0, bytes = 0;
    for (int i = 0; i < V; i++) len[i] = i % 5;
    for (uint64_t r = 0; r < ROWS; r++) {
        data_get(d, r, x, y);
        for (int t = 0; t < T; t++) if (y[t] >= 0) { tokens++; bytes += (uint64_t)len[y[t]]; }
    }
    Tape t;
    tape_init(&t, ops);
    double first = 0;
    const int batch[] = { 1, 3, 7, 8 };
    for (int i = 0; i < 4; i++) {
        BpbEval e;
        bpb_eval_init(&e, ops, batch[i], T);
        Bpb b = {0};
        bpb_rows(&e, m, &t, d, 0, ROWS, len, &b);
        ok(b.tokens == tokens && b.bytes == bytes && b.rows == ROWS,
           "batches of %d: every target once", batch[i]);
        if (i == 0) first = bpb_value(&b);
        ok(fabs(bpb_value(&b) - first) <= 1e-6 * first, "batches of %d: %.9g", batch[i],
           bpb_value(&b));
        /* a fresh model knows nothing: ln V per target to its initial lm_head's size */
        if (i == 0)
            ok(fabs(bpb_loss(&b) - log(V)) < 0.05, "a fresh model's loss is ln V: %.6g",
               bpb_loss(&b));
        bpb_eval_free(&e);
    }
    test_stop(m, &t, d, len);
    tape_free(&t);
    data_free(d);
    model_free(m);
}

int main(void)
{
    test_sums();
    char path[] = "/tmp/bpb-test-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    test_batches(path);
    unlink(path);
    return done();
}
