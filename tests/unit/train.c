/* gpt-train on rows with masks: one step's gradient weights every target of the step equally,
 * however it is cut into micro-batches; rows and steps without targets add nothing. The program is
 * run (from PATH), and the tensors that it saves are compared. */
#include "base/io.h"
#include "gpt/ckpt.h"
#include "gpt/safetensors.h"
#include "text/rows.h"
#include "tap.h"
#include <limits.h>
#include <math.h>

enum { T = 128 };
static char dir[] = "/tmp/train-test-XXXXXX";

/* One row per entry: how many of its targets count (-1: leave the row out). Tokens are bytes, the
 * same each time. */
static void make(const Tok *tok, const char *name, const int *targets, int rows)
{
    RowHead h = { .vocab = (uint32_t)tok_vocab(tok),
                  .bos = (uint32_t)tok_special(tok, SP_BOS),
                  .T = T,
                  .masks = true,
                  .tok_hash = tok_hash(tok) };
    char *path = xasprintf("%s/%s", dir, name);
    RowWriter *w = rows_create(path, &h);
    for (int r = 0; r < rows; r++) {
        if (targets[r] < 0) continue;
        uint32_t id[T + 1];
        uint8_t mask[T + 1];
        for (int t = 0; t <= T; t++) {
            id[t] = (uint32_t)((r * 37 + t * t * 11 + t / 3) % 256);
            mask[t] = t > T - targets[r];
        }
        rows_write(w, id, mask);
    }
    rows_close(w);
    free(path);
}

static int run(const char *rows, const char *out, const char *more)
{
    char *s = xasprintf("cd %s && gpt-train -q -j 1 --dtype fp32 --depth 3 --aspect-ratio 16 "
                        "--head-dim 16 -t a.tok --train %s -o %s "
                        "--warmup-steps 0 --shuffle none %s >%s.jsonl 2>%s.err",
                        dir, rows, out, more, out, out);
    int r = system(s);
    free(s);
    return WIFEXITED(r) ? WEXITSTATUS(r) : -1;
}

static int says(const char *file, const char *text)
{
    char *s = xasprintf("grep -qF '%s' %s/%s", text, dir, file);
    int r = system(s);
    free(s);
    return r == 0;
}

static StFile *open_file(const char *out, const char *file)
{
    char *path = xasprintf("%s/%s/%s", dir, out, file);
    StFile *f = st_open(path);
    free(path);
    return f;
}

static const char weights[] = "model.safetensors", moments[] = "optimizer-0.safetensors";

/* Largest difference over all tensors, relative to the tensor's largest element. After one step the
 * first moments are the gradient times 1 - beta; weights would not do, for AdamW's first step makes
 * lr * sign(g) of a gradient that is all rounding. */
static double scaled_by(const char *file, const char *a, const char *b, double factor)
{
    StFile *fa = open_file(a, file), *fb = open_file(b, file);
    double worst = 0;
    for (int i = 0; i < st_count(fa); i++) {
        const StTensor *ta = st_at(fa, i), *tb = st_find(fb, ta->name);
        if (strstr(ta->name, "exp_avg_sq") || strstr(ta->name, "second_")) continue;
        if (!tb || tb->n != ta->n) return INFINITY;
        real *x = xcalloc((size_t)ta->n, sizeof *x), *y = xcalloc((size_t)ta->n, sizeof *y);
        double d = 0, most = 1e-30;
        st_read(fa, ta, x);
        st_read(fb, tb, y);
        for (int64_t k = 0; k < ta->n; k++) {
            double want = factor * (double)y[k];
            d = fmax(d, fabs((double)x[k] - want));
            most = fmax(most, fabs(want));
        }
        /* one-element gradients are sums with cancellation: ten times less exact */
        worst = fmax(worst, d / most / (ta->n < 64 ? 10 : 1));
        free(x);
        free(y);
    }
    st_close(fa);
    st_close(fb);
    return worst;
}

static double difference(const char *file, const char *a, const char *b)
{
    return scaled_by(file, a, b, 1);
}

static double number(const char *out, int step, const char *key)
{
    char *s = xasprintf("sed -n 's/^{\"step\": %d,.*\"%s\": \\([^,]*\\),.*/\\1/p' %s/%s.jsonl",
                        step, key, dir, out);
    FILE *f = popen(s, "r");
    double x = NAN;
    if (!f || fscanf(f, "%lf", &x) != 1) x = NAN;
    if (f) pclose(f);
    free(s);
    return x;
}

/* The second step sees what the first did; its loss shows a wrong gradient of the first. */
static double loss_of(const char *out, int step) { return number(out, step, "loss"); }

/* A copy of model `from` in which the first n elements of one token's row are v, in all tables of a
 * group.
 *
 * Value embeddings, all of the row, 3e38: rows with that token then give no finite loss; the
 * weights are finite, and the others train. lm_head, one element, infinite: that logit is the
 * softcap's 15 or -15, the loss finite, but its gradient 0 times infinity. */
static void poison(const char *from, const char *to, int group, int token, int n, real v)
{
    char *in = xasprintf("%s/%s", dir, from), *out = xasprintf("%s/%s", dir, to);
    char *tok = xasprintf("%s/a.tok", dir);
    Buf b = {0};
    Model *m = ckpt_model(in, ops_cpu(1), 0);
    for (int i = 0; i < m->nparam; i++) {
        Param *p = &m->param[i];
        if ((int)p->group != group) continue;
        real *w = xreallocarray(NULL, (size_t)p->n, sizeof *w);
        model_get(m, p, w);
        for (int k = 0; k < p->cols && k < n; k++) w[token * p->cols + k] = v;
        model_set(m, p, w);
        free(w);
    }
    read_file(tok, &b, 1 << 26);
    if (ckpt_save(out, m, NULL, &b, NULL, NULL)) abort();
    buf_free(&b);
    model_free(m);
    free(in);
    free(out);
    free(tok);
}

/* Rows of token 1 and 2, but for row `bad`, in which one is 200. */
static void make_poisoned(const Tok *tok, const char *name, int rows, int bad)
{
    RowHead h = { .vocab = (uint32_t)tok_vocab(tok), .bos = (uint32_t)tok_special(tok, SP_BOS),
                  .T = T, .tok_hash = tok_hash(tok) };
    char *path = xasprintf("%s/%s", dir, name);
    RowWriter *w = rows_create(path, &h);
    for (int r = 0; r < rows; r++) {
        uint32_t id[T + 1];
        for (int t = 0; t <= T; t++) id[t] = (uint32_t)(1 + (r + t * t) % 3 % 2);
        if (r == bad) id[5] = 200;
        rows_write(w, id, NULL);
    }
    rows_close(w);
    free(path);
}

/* F32: a vocabulary whose ids just fit into 16 bits, and one that has one more. A row whose every
 * token is the highest id gives that id a gradient, and in wte no other. */
static void test_wide(int V)
{
    int n = V - 256 - SP_COUNT, alone = 1;
    uint32_t (*pair)[2] = xreallocarray(NULL, (size_t)n, sizeof *pair);
    for (int i = 0; i < n; i++) {
        pair[i][0] = (uint32_t)i / 256;
        pair[i][1] = (uint32_t)i % 256;
    }
    char *tok_path = xasprintf("%s/wide%d.tok", dir, V), *rows = xasprintf("wide%d.rows", V);
    char *path = xasprintf("%s/%s", dir, rows), *out = xasprintf("wide%d", V);
    char *more = xasprintf("--depth 1 --aspect-ratio 32 -t %s --steps 1 --total-batch-size %d",
                           tok_path, T);
    Tok *tok = tok_from_merges((const uint32_t (*)[2])pair, (size_t)n);
    tok_save(tok, tok_path);
    RowHead h = { .vocab = (uint32_t)tok_vocab(tok), .bos = (uint32_t)tok_special(tok, SP_BOS),
                  .T = T, .tok_hash = tok_hash(tok) };
    RowWriter *w = rows_create(path, &h);
    uint32_t id[T + 1];
    for (int t = 0; t <= T; t++) id[t] = (uint32_t)V - 1;
    rows_write(w, id, NULL);
    rows_close(w);
    ok(tok_vocab(tok) == V && !run(rows, out, more) && fabs(loss_of(out, 1) - log(V)) < 0.01,
       "F32: %d ids, a step: loss %.6g, ln V %.6g", V, loss_of(out, 1), log(V));
    StFile *f = open_file(out, moments);
    const StTensor *t = st_find(f, "state.transformer.wte.weight.exp_avg_sq");
    const StTensor *u = st_find(f, "state.lm_head.weight.exp_avg");
    real *g = xcalloc((size_t)t->n, sizeof *g), *e = xcalloc((size_t)u->n, sizeof *e);
    int64_t C = t->dim[1];
    st_read(f, t, g);
    st_read(f, u, e);
    for (int64_t i = 0; i < t->n; i++) alone &= (g[i] != 0) == (i / C == V - 1);
    ok(alone && t->dim[0] >= V, "only the highest id was an input");
    for (int64_t i = 0, top = (V - 1) * C; i < C; i++)      /* d = p - 1 there, p elsewhere */
        alone &= e[top + i] * e[i] < 0 && fabs((double)e[top + i]) > 1000 * fabs((double)e[i]);
    ok(alone, "and the target");
    st_close(f);
    tok_free(tok);
    free(pair); free(g); free(e);
    free(tok_path); free(rows); free(path); free(out); free(more);
}

static void test_nonfinite(const Tok *tok)
{
    const char *go = "--init poison --steps 6 --total-batch-size 128 --save-every 1";
    char *skip2 = xasprintf("%s --skip-nonfinite 1", go);
    char *stop3 = xasprintf("%s --stop-at 3", skip2);
    poison("base", "poison", PG_VALUE_EMBEDS, 200, INT_MAX, (real)3e38);
    make_poisoned(tok, "p.rows", 6, 2);
    ok(run("p.rows", "stop", go) == 1, "a row that gives no finite loss: exit 1");
    ok(says("stop.err", "step 3: the loss is ") && says("stop.err", "p.rows row 2 (epoch 0)") &&
           says("stop.err", "the checkpoint of step 2 is in stop"),
       "naming step, row and checkpoint");
    ok(says("stop/state.json", "\"step\": 2,"), "which is there");
    ok(run("p.rows", "four", "--init poison --steps 2 --total-batch-size 512 -B 4") == 1 &&
           says("four.err", "p.rows row 2 (epoch 0); nothing was saved yet"),
       "the row within a micro-batch");
    ok(run("p.rows", "skip", skip2) == 0, "--skip-nonfinite 1 leaves it out");
    ok(says("skip.jsonl", "\"nonfinite_steps\": 1") && isnan(loss_of("skip", 3)) &&
           loss_of("skip", 4) < 7 && says("skip/state.json", "\"nonfinite_steps\": 1"),
       "and trains on: %.4g", loss_of("skip", 4));
    char *resume = xasprintf("cd %s && gpt-train -q -j 1 --resume -o half >half2.jsonl && "
                             "diff -r -x clock.json -x status.json half skip", dir);
    ok(run("p.rows", "half", stop3) == 0 && system(resume) == 0, "a resume after it is exact");
    ok(run("p.rows", "twice", "--init poison --steps 9 --total-batch-size 128 --skip-nonfinite 1")
           == 1 && says("twice.err", "step 9: the loss is ") && says("twice.err", "(epoch 1)"),
       "the second one is one too many");
    poison("base", "steep", PG_LM_HEAD, 200, 1, INFINITY);
    ok(run("p.rows", "grad", "--init steep --steps 6 --total-batch-size 256 -B 1") == 1 &&
           says("grad.err", "step 1: the gradient") && says("grad.err", "norm is nan, first in ") &&
           says("grad.err", "p.rows row 0 (epoch 0)"),
       "a gradient that is not finite, of a loss that is: named");
    ok(run("p.rows", "grads", "--init steep --steps 2 --total-batch-size 256 --skip-nonfinite 2")
           == 1 && says("grads.jsonl", "\"nonfinite_steps\": 2") && isnan(loss_of("grads", 2)) &&
           says("grads.err", "the weights are not finite"),
       "is left out too; such weights are not saved");
    free(skip2);
    free(resume);
    free(stop3);
}

int main(void)
{
    if (system("gpt-train --version >/dev/null 2>&1")) {
        skip("gpt-train is not on PATH", "accumulation");
        return done();
    }
    if (!mkdtemp(dir)) return 1;
    char *tok_path = xasprintf("%s/a.tok", dir);
    Tok *made = tok_from_merges(NULL, 0);
    tok_save(made, tok_path);
    tok_free(made);
    Tok *tok = tok_load(tok_path);
    make(tok, "two.rows", (int[]){ 11, 101 }, 2);
    make(tok, "few.rows", (int[]){ 11 }, 1);
    make(tok, "many.rows", (int[]){ -1, 101 }, 2);
    make(tok, "pad.rows", (int[]){ 11, 101, 0, 0 }, 4);
    make(tok, "none.rows", (int[]){ 0, 0 }, 2);
    make(tok, "late.rows", (int[]){ 0, 0, 11, 101 }, 4);

    /* A first run, so that no matrix is zero any more and every gradient counts. (Of two layers,
     * backout would have none: it only scales what is normed next.) */
    ok(!run("two.rows", "base", "--steps 12 --total-batch-size 256 --matrix-lr 4 --embedding-lr 4"),
       "a base");
    const char *one = "--init base --steps 9 --stop-at 1 --total-batch-size 256 -B 1";
    ok(!run("two.rows", "b2", "--init base --steps 9 --stop-at 1 --total-batch-size 256 -B 2"),
       "two rows in one micro-batch");
    ok(!run("two.rows", "b1", one), "in two micro-batches");
    double loss = loss_of("b1", 1);
    ok(fabs(loss_of("b2", 1) - loss) < 2e-6 * loss, "the same loss: %.7g", loss);
    double d = difference(moments, "b2", "b1");
    ok(d < 1e-5, "the same gradient: %.2g of the largest", d);

    /* F24: what stands for no token is not trained: its rows of lm_head get no gradient */
    {
        StFile *f = open_file("b2", moments);
        const StTensor *t = st_find(f, "state.lm_head.weight.exp_avg");
        real *g = xcalloc((size_t)t->n, sizeof *g);
        int64_t V = tok_vocab(tok), C = t->dim[1], wrong = 0, zero = 0;
        st_read(f, t, g);
        for (int64_t i = 0; i < t->n; i++) i < V * C ? (zero += g[i] == 0) : (wrong += g[i] != 0);
        ok(t->dim[0] > V && wrong == 0 && zero < V * C / 100, "no gradient beyond the vocabulary");
        free(g);
        st_close(f);
    }
    /* F02: rows with 3, 128, 0 and 40 targets, cut in every way */
    make(tok, "four.rows", (int[]){ 3, 128, 0, 40 }, 4);
    const char *cut[] = { "4", "2", "1" };
    double at[3];
    for (int i = 0; i < 3; i++) {
        char *more = xasprintf("--init base --steps 9 --stop-at 2 --total-batch-size 512 -B %s",
                               cut[i]);
        char *out = xasprintf("cut%s", cut[i]);
        ok(!run("four.rows", out, more), "four rows, %s at a time", cut[i]);
        at[i] = loss_of(out, 2);
        ok(fabs(at[i] - at[0]) < 1e-6 * at[0] &&
               fabs(loss_of(out, 1) - loss_of("cut4", 1)) < 1e-6 * at[0] &&
               difference(moments, out, "cut4") < 2e-5,
           "the same losses, the same moments: %.9g", at[i]);
        free(more);
        free(out);
    }

    /* the gradient is scaled down to the norm asked for, and the
     * first moments follow */
    ok(!run("two.rows", "clip", "--init base --steps 9 --stop-at 1 --total-batch-size 256 -B 2 "
                                "--clip-norm 1e-3"), "a clipped step");
    double ratio = number("b2", 1, "grad_norm") / 1e-3;
    ok(number("clip", 1, "grad_norm") == number("b2", 1, "grad_norm") && ratio > 2,
       "logs the norm before it: %.4g", 1e-3 * ratio);
    d = scaled_by(moments, "clip", "b2", 1 / ratio);
    ok(d < 1e-5, "moments are %.3g times as large: %.2g", 1 / ratio, d);
    ok(!run("two.rows", "loose", "--init base --steps 9 --stop-at 1 --total-batch-size 256 -B 2 "
                                 "--clip-norm 1e6") && difference(moments, "loose", "b2") == 0,
       "a bound that is not reached changes nothing");

    /* by hand: the mean over the 112 targets, not of the rows' means */
    ok(!run("few.rows", "few", "--init base --steps 9 --stop-at 1 --total-batch-size 128"),
       "the row with 11 targets alone");
    ok(!run("many.rows", "many", "--init base --steps 9 --stop-at 1 --total-batch-size 128"),
       "the one with 101");
    double want = (11 * loss_of("few", 1) + 101 * loss_of("many", 1)) / 112;
    ok(fabs(loss - want) < 2e-6 * want, "the loss is the mean over targets: %.7g", want);

    /* F03 */
    ok(!run("pad.rows", "pad", "--init base --steps 9 --stop-at 1 --total-batch-size 512 -B 1"),
       "with rows that have no target");
    ok(fabs(loss_of("pad", 1) - loss) < 2e-6 * loss, "the same loss: %.7g", loss_of("pad", 1));
    d = difference(moments, "pad", "b1");
    ok(d < 1e-5, "the same gradient: %.2g", d);

    ok(!run("none.rows", "none", "--steps 2 --total-batch-size 256"), "no target at all");
    ok(says("none.jsonl", "\"loss\": null") && says("none/state.json", "\"skipped_steps\": 2"),
       "two steps skipped");
    ok(!run("none.rows", "zero", "--steps 9 --total-batch-size 256 --stop-at 1"),
       "another such run");
    ok(difference(weights, "none", "zero") == 0, "nothing changed");
    /* schedules go by steps, not by updates: step 2 of 2 after a skipped one */
    ok(!run("late.rows", "late", "--steps 2 --total-batch-size 256"),
       "a step without targets, then one with");
    ok(says("late.jsonl", "\"loss\": null") && says("late/state.json", "\"skipped_steps\": 1"),
       "one was skipped");
    ok(loss_of("late", 2) > 5 && loss_of("late", 2) < 6.5, "and the next trained: %.4g",
       loss_of("late", 2));

    ok(run("two.rows", "bad",
           "--steps 50 --total-batch-size 256 --matrix-lr 1e5 --embedding-lr 1e5 --unembedding-lr "
           "1e6 "
           "--scalar-lr 1e5 --save-every 1") == 1,
       "rates that break the model: exit 1");
    ok(says("bad.err", "step ") &&
           (says("bad.err", "two.rows row ") || says("bad.err", "weights are not finite")),
       "naming the step, and the row or the weights");
    ok(says("bad/state.json", "\"step\": "), "the last checkpoint is there");
    test_nonfinite(tok);
    test_wide(65536);
    test_wide(65537);
    tok_free(tok);
    free(tok_path);
    char *rm = xasprintf("rm -rf %s", dir);
    if (system(rm)) return 1;
    free(rm);
    return done();
}
