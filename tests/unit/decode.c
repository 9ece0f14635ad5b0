/* The key/value cache and the sampling loop, on a small random model: what is cached equals what is
 * not, rows do not touch each other, nothing leaks, and samples depend on their prompt and seed
 * alone. Runs as REAL_F64 too. */
#include "gpt/decode.h"
#include "tap.h"
#include <math.h>

enum { V = 37, T = 192, LONG = 170 };       /* windows 128, 192, 192: LONG passes the short one */
static const double tol = sizeof(real) == 8 ? 1e-12 : 5e-5;
static const Ops *ops;
static Model *m;
static Tape tape;
static int text[T];                         /* random ids */

/* Every parameter random, those too that start at 0. Padding rows of lm_head are
 * the largest, so that a padding id would win. */
static void randomize(Model *x, uint64_t seed)
{
    for (int i = 0; i < x->nparam; i++) {
        const Param *p = &x->param[i];
        Rng r;
        rng_init(&r, seed, (uint64_t)i);
        double scale = p->group == PG_MATRIX ? 0.15 : p->n <= x->cfg.L ? 0.4 : 0.7;
        real *w = xreallocarray(NULL, (size_t)p->n, sizeof *w);
        for (int64_t j = 0; j < p->n; j++) w[j] = (real)(scale * rng_normal(&r));
        if (p->group == PG_LM_HEAD)
            for (int64_t j = (int64_t)V * p->cols; j < p->n; j++) w[j] *= 100;
        model_set(x, p, w);
        free(w);
    }
}

static void fill_param(const char *name, double value)
{
    const Param *p = model_find(m, name);
    real *w = xreallocarray(NULL, (size_t)p->n, sizeof *w);
    for (int64_t j = 0; j < p->n; j++) w[j] = (real)value;
    model_set(m, p, w);
    free(w);
}

/* Logits [n,V] of every position, without a cache. */
static real *uncached(const int *ids, int n)
{
    tape_reset(&tape);
    int *idx = tape_mem(&tape, (size_t)n * sizeof *idx);
    ops->put(idx, ids, (size_t)n * sizeof *idx);
    real *l = model_logits(m, &tape, model_forward(m, &tape, idx, 1, n, NULL), NULL, n);
    real *host = xreallocarray(NULL, (size_t)n * V, sizeof *host);
    ops->get(host, l, (size_t)n * V * sizeof *host);
    tape_reset(&tape);
    return host;
}

static double far(const real *a, const real *b, int n)
{
    double d = 0;
    for (int i = 0; i < n; i++) {
        double x = fabs((double)a[i] - (double)b[i]);
        if (!(x <= d)) d = isnan(x) ? INFINITY : x;
    }
    return d;
}

static void chunks(void)
{
    real *want = uncached(text, LONG), got[V];
    static const int size[] = { 1, 7, 20, 129, LONG };
    for (int i = 0; i < 5; i++) {
        Cache *c = cache_new(m, 1, T);
        double worst = 0;
        for (int at = 0; at < LONG; at += size[i]) {
            int n = LONG - at < size[i] ? LONG - at : size[i];
            cache_feed(c, &tape, text + at, n, got);
            double d = far(got, want + (size_t)(at + n - 1) * V, V);
            worst = d > worst ? d : worst;
        }
        ok(worst <= tol && c->len[0] == LONG, "cached in chunks of %d = uncached: %.1e", size[i],
           worst);
        cache_free(c);
    }
    free(want);
}

/* Feed ids [at, at+n) of text, shifted by `shift` so that rows differ. */
static void feed(Cache *c, int shift, int at, int n, real *l)
{
    int ids[T];
    for (int i = 0; i < n; i++) ids[i] = (text[at + i] + shift) % V;
    cache_feed(c, &tape, ids, n, l);
}

static void rows(void)
{
    static const int len[] = { 5, 150, 20, 1 };
    real alone[4][3][V], l[4 * V];
    Cache *all = cache_new(m, 4, T);
    for (int r = 0; r < 4; r++) {
        Cache *c = cache_new(m, 1, len[r] + 3);     /* another M than all's */
        feed(c, r, 0, len[r], NULL);
        cache_copy_row(all, r, c, 0);
        for (int i = 0; i < 3; i++) feed(c, r, len[r] + i, 1, alone[r][i]);
        cache_free(c);
    }
    int same = 1, ids[4];
    for (int i = 0; i < 3; i++) {
        for (int r = 0; r < 4; r++) ids[r] = (text[len[r] + i] + r) % V;
        cache_feed(all, &tape, ids, 1, l);
        for (int r = 0; r < 4; r++)
            same = same && !memcmp(l + r * V, alone[r][i], sizeof alone[r][i]);
    }
    ok(same, "four rows of different lengths = each alone, bit for bit");
    ok(all->len[0] == 8 && all->len[1] == 153, "lengths advance by row");

    cache_copy_row(all, 0, all, 1);                 /* within a cache; then rows [0,2) only */
    cache_rows(all, 2);
    ids[0] = ids[1] = 3;
    cache_feed(all, &tape, ids, 1, l);
    ok(!memcmp(l, l + V, V * sizeof *l) && all->len[2] == 23,
       "a copied row goes on as its original");
    cache_free(all);
}

static void poison(Cache *c)
{
    size_t n = (size_t)c->cap * (size_t)c->M * (size_t)m->cfg.K * (size_t)(m->cfg.C / m->cfg.H);
    real *x = ops->alloc(n * sizeof *x), *h = xreallocarray(NULL, n, sizeof *h);
    for (size_t i = 0; i < n; i++) h[i] = (real)NAN;
    ops->put(x, h, n * sizeof *h);
    for (int i = 0; i < m->cfg.L; i++) {
        ops->cast(c->k[i], x, (int64_t)n);
        ops->cast(c->v[i], x, (int64_t)n);
    }
    ops->cast(c->prev, x, c->m->cfg.C);
    ops->free(x, n * sizeof *x);
    free(h);
}

static void reset(void)
{
    real fresh[V], again[V];
    Cache *c = cache_new(m, 1, T);
    feed(c, 0, 0, 9, fresh);
    feed(c, 5, 9, 100, again);
    cache_reset(c, 0);
    feed(c, 0, 0, 9, again);
    ok(!memcmp(fresh, again, sizeof fresh), "a row that was reset remembers nothing");
    poison(c);
    cache_reset(c, 0);
    feed(c, 0, 0, 4, NULL);
    feed(c, 0, 4, 5, again);
    ok(far(fresh, again, V) <= tol, "what lies beyond a row's length is not read");
    cache_free(c);
}

static void trim(void)
{
    real *want = uncached(text, LONG), got[V];
    Cache *c = cache_new(m, 2, T);
    static const int keep[] = { 150, 149, 130, 1, 0 };
    double worst = 0;
    for (int i = 0; i < 5; i++) {
        cache_reset(c, 0);
        cache_rows(c, 1);
        feed(c, 0, 0, 150, NULL);
        cache_trim(c, &tape, 0, keep[i], keep[i] ? text[keep[i] - 1] : 0);
        feed(c, 0, keep[i], LONG - keep[i], got);
        double d = far(got, want + (size_t)(LONG - 1) * V, V);
        worst = d > worst ? d : worst;
    }
    ok(worst <= tol, "a row that was cut back goes on as one that never was longer: %.1e", worst);
    cache_free(c);
    free(want);
}

static void last_position(void)
{
    real *want = uncached(text, T), got[V];
    Cache *c = cache_new(m, 1, T);
    feed(c, 0, 0, T - 1, NULL);
    feed(c, 0, T - 1, 1, got);
    ok(far(want + (size_t)(T - 1) * V, got, V) <= tol && c->len[0] == T,
       "the last position of the context");
    cache_free(c);
    free(want);
}

/* ---- samples -------------------------------------------------------------- */

enum { SAMPLES = 40 };
typedef struct Got {
    int n[SAMPLES], id[SAMPLES][T], end[SAMPLES];   /* end: -2 until the sample ended */
    int bad;                                        /* a token or an end after the end */
} Got;

static void on_token(void *arg, int s, int id)
{
    Got *g = arg;
    g->bad += g->end[s] != -2 || g->n[s] >= T;
    if (!g->bad) g->id[s][g->n[s]++] = id;
}

static void on_end(void *arg, int s, int id)
{
    Got *g = arg;
    g->bad += g->end[s] != -2;
    g->end[s] = id;
}

static GenJob job(Got *g, int n, int samples, int max_tokens)
{
    memset(g, 0, sizeof *g);
    for (int s = 0; s < SAMPLES; s++) g->end[s] = -2;
    return (GenJob){ .model = "toy", .prompt = text, .n = n, .samples = samples, .batch = 16,
                     .max_tokens = max_tokens, .pick = { .temperature = 1 }, .seed = 5,
                     .stream = 11, .token = on_token, .end = on_end, .arg = g };
}

static void greedy(void)
{
    static Got a;
    int ids[T], same = 1;
    Gen *g = gen_new(m);
    GenJob j = job(&a, 20, 3, 60);
    j.pick.temperature = 0;
    gen_run(g, &j);
    memcpy(ids, text, sizeof ids);
    for (int i = 0; i < 60; i++) {
        real *l = uncached(ids, 20 + i);
        Pick zero = { 0 };
        ids[20 + i] = pick(&zero, l + (size_t)(19 + i) * V, V, NULL, NULL);
        free(l);
    }
    for (int s = 0; s < 3; s++)
        same = same && a.n[s] == 60 && a.end[s] == -1 &&
               !memcmp(a.id[s], ids + 20, 60 * sizeof *ids);
    ok(same && !a.bad, "greedy samples = argmax of uncached logits, token by token");
    gen_free(g);
}

static void independence(void)
{
    static Got a, b;
    static const int batch[] = { 1, 3, 7, 40 };
    unsigned char stop[V] = { [3] = 1, [30] = 1 };
    Gen *g = gen_new(m);
    GenJob j = job(&a, 10, SAMPLES, 30);
    j.stop = stop;
    gen_run(g, &j);
    int stopped = 0, full = 0, printed = 0, distinct = 0;
    for (int s = 0; s < SAMPLES; s++) {
        stopped += a.end[s] >= 0 && stop[a.end[s]];
        full += a.end[s] == -1 && a.n[s] == 30;
        for (int i = 0; i < a.n[s]; i++) printed += stop[a.id[s][i]];
        distinct += s > 0 && memcmp(a.id[s], a.id[s - 1], sizeof a.id[s]) != 0;
    }
    ok(stopped + full == SAMPLES && stopped > 5 && full > 5 && !a.bad,
       "%d samples stop, %d are full", stopped, full);
    ok(printed == 0, "end tokens are not handed on");
    ok(distinct >= SAMPLES - 3, "samples of one prompt differ");
    for (int i = 0; i < 4; i++) {
        GenJob k = job(&b, 10, SAMPLES, 30);
        k.stop = stop;
        k.batch = batch[i];
        gen_run(g, &k);
        ok(!memcmp(&a, &b, sizeof a), "batch %d: the same samples", batch[i]);
    }
    GenJob other = job(&b, 150, 5, 20);         /* something else in between, then a fresh Gen */
    other.prompt = text + 3;
    gen_run(g, &other);
    GenJob k = job(&b, 10, SAMPLES, 30);
    k.stop = stop;
    gen_run(g, &k);
    ok(!memcmp(&a, &b, sizeof a), "after another prompt: the same samples");
    GenJob few = job(&b, 10, 4, 30);
    few.stop = stop;
    gen_run(g, &few);
    ok(!memcmp(a.id, b.id, 4 * sizeof a.id[0]), "the first four of forty = four alone");
    GenJob seed = job(&b, 10, 4, 30);
    seed.seed = 6;
    gen_run(g, &seed);
    ok(memcmp(a.id, b.id, 4 * sizeof a.id[0]) != 0, "another seed, other samples");
    gen_free(g);
}

static void limits(void)
{
    static Got a;
    static const struct { int n, max, want; } c[] = {
        { T, 10, 0 }, { T, 0, 0 }, { T, 1, 0 }, { T - 1, 1, 1 }, { T - 1, 2, 1 }, { T - 1, 3, 1 },
        { T - 1, 100000, 1 }, { T - 2, 100000, 2 }, { 10, T - 9, T - 10 },
        { 10, 0, 0 }, { 10, T - 10, T - 10 }, { 10, T, T - 10 }, { 1, 1 << 30, T - 1 }
    };
    Gen *g = gen_new(m);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        GenJob j = job(&a, c[i].n, 2, c[i].max);
        gen_run(g, &j);
        ok(a.n[0] == c[i].want && a.n[1] == c[i].want && a.end[0] == -1 && a.end[1] == -1 && !a.bad,
           "context %d, prompt %d, at most %d: %d tokens", T, c[i].n, c[i].max, c[i].want);
    }
    gen_free(g);
}

/* A conversation: each prompt is the last one with its answer and more, or it turns off earlier. */
typedef struct Talk { int id[T], n; const real *want; double worst; } Talk;

static void talk_token(void *arg, int s, int id)
{
    Talk *t = arg;
    (void)s;
    t->id[t->n++] = id;
}

static void talk_end(void *arg, int s, int id) { (void)arg, (void)s, (void)id; }

static void talk_logits(void *arg, int s, int made, real *l)
{
    Talk *t = arg;
    (void)s, (void)made;
    real *want = uncached(t->id, t->n);
    double d = far(l, want + (size_t)(t->n - 1) * V, V);
    t->worst = d > t->worst ? d : t->worst;
    free(want);
}

static void keep(void)
{
    static const struct { int back, more, max; } turn[] = {
        { 0, 9, 12 }, { 0, 1, 5 }, { 0, 20, 30 }, { 10, 3, 8 }, { 0, 0, 4 }, { 40, 60, 20 },
        { 100, 1, 0 }, { 0, 90, 30 }, { 150, 130, 2 }
    };
    Talk t = { .n = 0 };
    Gen *g = gen_new(m);
    int wasted = 0, held = 0, last[T];
    for (size_t i = 0; i < sizeof turn / sizeof *turn; i++) {
        t.n = t.n < turn[i].back ? 0 : t.n - turn[i].back;
        for (int k = 0; k < turn[i].more; k++, t.n++) t.id[t.n] = (text[t.n] + (int)i) % V;
        int prompt[T], n = t.n, from = 0;
        memcpy(prompt, t.id, sizeof prompt);
        while (from < n - 1 && from < held && last[from] == prompt[from]) from++;
        int64_t before = g->prompt_tokens;
        GenJob j = { .model = "toy", .prompt = prompt, .n = n, .samples = 1, .batch = 1,
                     .max_tokens = turn[i].max, .pick = { .temperature = 1 }, .keep = 1,
                     .token = talk_token, .end = talk_end, .logits = talk_logits, .arg = &t };
        gen_run(g, &j);
        if (turn[i].max == 0) continue;             /* nothing was computed */
        wasted += g->prompt_tokens - before != n - from;
        held = t.n - 1;
        memcpy(last, t.id, sizeof last);
    }
    ok(t.worst <= tol, "turns that go on in the cache: logits as without one: %.1e", t.worst);
    ok(wasted == 0, "and only what is new is computed");
    gen_free(g);
}

static volatile sig_atomic_t cancel;
static void cancel_token(void *arg, int s, int id)
{
    on_token(arg, s, id);
    if (((Got *)arg)->n[0] == 7) cancel = 1;
}

static void cancelled(void)
{
    static Got a;
    Gen *g = gen_new(m);
    GenJob j = job(&a, 10, 1, 50);
    j.cancel = &cancel;
    j.token = cancel_token;
    gen_run(g, &j);
    ok(a.n[0] == 7 && a.end[0] == -1 && !a.bad, "a sample that is cancelled ends");
    GenJob k = job(&a, 10, 3, 50);
    k.cancel = &cancel;
    gen_run(g, &k);
    ok(a.n[2] == 0 && a.end[0] == -1 && a.end[2] == -1, "and so do those not yet begun");
    gen_free(g);
}

typedef struct Count { int first[V], all[V], samples; int last; } Count;

static void count_token(void *arg, int s, int id)
{
    Count *c = arg;
    if (s != c->last) c->first[id]++;           /* batch 1: a sample's tokens come together */
    c->last = s;
    c->all[id]++;
}

static void count_end(void *arg, int s, int id)
{
    (void)s, (void)id;
    ((Count *)arg)->samples++;
}

static double chi_square(const int *count, const double *prob, int n)
{
    double x = 0;
    for (int i = 0; i < V; i++) {
        double d = count[i] - n * prob[i];
        x += d * d / (n * prob[i]);
    }
    return x;
}

/* 36 degrees of freedom: chi-square passes 90 with probability 2e-6. */
static void frequencies(void)
{
    Count c = { .last = -1 };
    double prob[V], sum = 0;
    real *l = uncached(text, 10);
    for (int i = 0; i < V; i++) sum += prob[i] = exp((double)l[9 * V + i] / 1.5);
    for (int i = 0; i < V; i++) prob[i] /= sum;
    free(l);
    Gen *g = gen_new(m);
    GenJob j = { .model = "toy", .prompt = text, .n = 10, .samples = 20000, .batch = 1,
                 .max_tokens = 1, .pick = { .temperature = 1.5 }, .token = count_token,
                 .end = count_end, .arg = &c };
    gen_run(g, &j);
    double x = chi_square(c.first, prob, 20000);
    ok(c.samples == 20000 && x < 90, "first tokens follow the distribution: chi-square %.1f", x);

    fill_param("lm_head.weight", 0);            /* flat */
    for (int i = 0; i < V; i++) prob[i] = 1.0 / V;
    c = (Count){ .last = -1 };
    j.samples = 64;
    j.max_tokens = 100;
    gen_run(g, &j);
    x = chi_square(c.all, prob, 6400);
    ok(x < 90, "later tokens of a flat model are uniform: chi-square %.1f", x);
    x = chi_square(c.first, prob, 64);
    ok(x < 90, "so are the first tokens of 64 samples: chi-square %.1f", x);
    gen_free(g);
    randomize(m, 1);
}

static void run_job(void *arg)
{
    gen_run(gen_new(m), arg);
}

static void diverged(void)
{
    static Got a;
    fill_param("resid_lambdas", NAN);
    GenJob j = job(&a, 10, 2, 5);
    ok(dies(1, "toy: the model's logits are not finite", run_job, &j), "NaN weights die by name");
    j.pick.temperature = 0;
    ok(dies(1, "toy: the model's logits are not finite", run_job, &j), "greedy as well");
}

int main(void)
{
    Config c = { .family = &nanochat_family, .T = T, .V = V, .Vp = 64, .L = 3, .H = 4, .K = 2, .C = 64,
                 .window = "SL" };
    ops = ops_cpu(1);                       /* one thread: dies() forks */
    m = model_new(ops, &c, 0);
    tape_init(&tape, ops);
    randomize(m, 1);
    Rng r;
    rng_init(&r, 9, 9);
    for (int i = 0; i < T; i++) text[i] = (int)rng_below(&r, V);

    chunks();
    rows();
    reset();
    trim();
    last_position();
    greedy();
    independence();
    keep();
    cancelled();
    limits();
    frequencies();
    diverged();
    tape_free(&tape);
    model_free(m);
    return done();
}
