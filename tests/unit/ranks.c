/* The optimizer and the checkpoint of several ranks against those of one: the same bits, where sums are
 * exact. Counts that the ranks do not divide, ranks without a matrix; state read by another number of
 * ranks; a rank killed, or failing, at every step of a save. */
#include "base/rng.h"
#include "gpt/ckpt.h"
#include "gpt/llama.h"
#include "ranks.h"
#include "tap.h"
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

enum { STEPS = 3 };
static const Config nanochat = { .family = &nanochat_family, .T = 16, .V = 70, .Vp = 128, .L = 5,
                                 .H = 2, .K = 1, .C = 28, .window = "SL" };
static const OptimSettings muon = { .embedding_lr = 0.3, .unembedding_lr = 0.008,
    .matrix_lr = 0.02, .scalar_lr = 0.5, .batch_scale = 1, .lr_scale = 1, .weight_decay = 0.28 };
static const OptimSettings adamw = { .adamw = 1, .lr = 0.01, .lr_scale = 1, .beta1 = 0.9,
    .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1, .ema = 0.9 };
static char *root;

typedef struct Case { const char *name, *dtype; const OptimSettings *s; int llama; } Case;
static const Case cases[] = {
    { "Muon", "fp32", &muon, 0 },
    { "AdamW", "fp32", &adamw, 1 },
#ifndef REAL_F64
    { "Muon", "bf16", &muon, 0 },
#endif
};
enum { CASES = sizeof cases / sizeof *cases };

/* Odd sizes; a vocabulary of rows that three ranks do not share evenly. */
static Config llama(void)
{
    Config c;
    if (!llama_preset(&c, "tutorial")) die("no preset");
    c.V = c.Vp = 70;
    c.L = 2;
    c.C = 40;
    c.H = 4;
    c.K = 2;
    c.D = 10;
    c.T = 16;
    c.llama.F = 52;
    return c;
}

static Model *new_model(const Case *k)
{
    Config c = k->llama ? llama() : nanochat;
    const char *bad = config_check(&c);
    if (bad) die("%s", bad);
    Model *m = model_new(ops_open("cpu", k->dtype, 1), &c, 1);
    model_init(m, 7);
    return m;
}

static Optim *new_optim(const Case *k, Model *m, const Comm *c)
{
    OptimSettings s = *k->s;
    s.comm = c;
    return optim_new(m, &s);
}

/* Rank r's gradient: eighths, whose sums are exact even as bfloat16s. ranks > 0: the sum of theirs. */
static void set_grads(Model *m, int step, int r, int ranks)
{
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        real *g = xcalloc((size_t)p->n, sizeof *g);
        for (int k = ranks ? 0 : r; k < (ranks ? ranks : r + 1); k++) {
            Rng x;
            rng_init(&x, (uint64_t)(100 * step + k), (uint64_t)i);
            for (int64_t j = 0; j < p->n; j++) g[j] += (real)((int)rng_below(&x, 17) - 8) / 8;
        }
        m->ops->store(var_grad(&p->var), g, p->n);
        m->ops->sync();
        free(g);
    }
}

static void step(Optim *o, int i, double *norm)
{
    double sum;
    optim_reduce(o);
    o->m->ops->zero(o->m->sum, sizeof sum);
    optim_squares(o, o->m->sum);
    o->m->ops->get(&sum, o->m->sum, sizeof sum);
    o->comm->host->sum(&sum, 1, COMM_F64);
    *norm = sqrt(sum);
    optim_step(o, 1, 0.9, 0.1 * i);
}

/* ---- one step after the other */

/* What ranks ranks must come to, by one. */
static Optim *alone(const Case *k, int ranks, double *norm)
{
    Model *m = new_model(k);
    Optim *o = new_optim(k, m, NULL);
    for (int i = 0; i < STEPS; i++) {
        set_grads(m, i, 0, ranks);
        step(o, i, norm);
    }
    return o;
}

static Optim *together(const Case *k, const Comm *c, double *norm)
{
    Model *m = new_model(k);
    Optim *o = new_optim(k, m, c);
    for (int i = 0; i < STEPS; i++) {
        set_grads(m, i, c->rank, 0);
        step(o, i, norm);
    }
    return o;
}

static void end(Optim *o)
{
    Model *m = o->m;
    optim_free(o);
    model_free(m);
}

static int equal_stores(const Ops *ops, Store a, Store b, int64_t n)
{
    real *x = xreallocarray(NULL, (size_t)n + 1, sizeof *x);
    real *y = xreallocarray(NULL, (size_t)n + 1, sizeof *y);
    ops->load(x, a, n);
    ops->load(y, b, n);
    int same = !memcmp(x, y, (size_t)n * sizeof *x);
    free(x);
    free(y);
    return same;
}

/* The weights; of the moments what o has. */
static int equal(const Optim *o, const Optim *want)
{
    int good = o->t == want->t;
    for (int i = 0; i < o->m->nparam; i++) {
        const Param *p = &o->m->param[i], *q = &want->m->param[i];
        good &= equal_stores(o->m->ops, var_weights(&p->var), var_weights(&q->var), p->n);
        for (int k = 0; k < 2; k++) {
            int64_t at, n, zero, all;
            Store x = optim_moment(o, p, k, &at, &n), y = optim_moment(want, q, k, &zero, &all);
            good &= at + n <= all && equal_stores(o->m->ops, x, store_at(y, at), n);
        }
    }
    if (o->ema) good &= equal_stores(o->m->ops, store_real(o->ema), store_real(want->ema), o->m->n);
    return good;
}

static void check_steps(const Comm *c, void *arg)
{
    double norm, one;
    Optim *o = together(arg, c, &norm), *want = alone(arg, c->ranks, &one);
    if (!equal(o, want) || fabs(norm / one - 1) > 1e-6) {
        printf("# rank %d: other numbers; norms %.9g %.9g\n", c->rank, norm, one);
        fflush(stdout);
        _exit(1);
    }
    end(o);
    end(want);
}

static void test_steps(void)
{
    for (size_t i = 0; i < CASES; i++)
        for (int ranks = 2; ranks <= 7; ranks += ranks < 3 ? 1 : 2)
            ok(!ranks_run(ranks, check_steps, (void *)&cases[i]), "%s, %s, %d ranks: one's weights",
               cases[i].name, cases[i].dtype, ranks);
}

/* Every number of every moment is kept by one rank, and memory is shared. */
static void test_shares(void)
{
    enum { RANKS = 7 };
    Model *m = new_model(&cases[0]);
    Comm c[RANKS];
    Optim *o[RANKS], *all = optim_new(m, &muon);
    int wrong = 0, none = 0;
    size_t most = 0, one = optim_bytes(m, &muon);
    for (int r = 0; r < RANKS; r++) {
        OptimSettings s = muon;
        c[r] = *comm_pretend(RANKS);
        c[r].rank = r;
        s.comm = &c[r];
        o[r] = optim_new(m, &s);
        size_t n = optim_bytes(m, &s);
        if (n > most) most = n;
        for (int i = 0; i < o[r]->nspan; i++) none += o[r]->span[i].nown == 0;
    }
    for (int i = 0; i < 2 * m->nparam; i++) {
        const Param *p = &m->param[i / 2];
        int64_t at, n, next = 0;
        for (int r = 0; r < RANKS; r++) {
            optim_moment(o[r], p, i % 2, &at, &n);
            n = optim_saves(o[r], p) ? n : 0;
            wrong += n && p->group != PG_MATRIX && at != next;
            next += n;
        }
        optim_moment(all, p, i % 2, &at, &n);
        wrong += at != 0 || n != next;
    }
    for (int r = 0; r < RANKS; r++) optim_free(o[r]);
    optim_free(all);
    ok(!wrong, "each moment is saved once");
    ok(none > 0, "  some ranks have none of a stack");
    ok(most < one / 3, "  a rank of 7 keeps %zu bytes, one alone %zu", most, one);
    model_free(m);
}

/* ---- checkpoints */

static void save_to(Optim *o, const char *dir)
{
    if (ckpt_save(dir, o->m, o, NULL, "{\"version\": 1}", NULL)) exit(3);
}

typedef struct Trip { const Case *k; char *a, *b; int from; } Trip;

static void save_a(const Comm *c, void *arg)
{
    Trip *t = arg;
    double norm;
    Optim *o = together(t->k, c, &norm);
    save_to(o, t->a);
    end(o);
}
static void load_a_save_b(const Comm *c, void *arg)
{
    Trip *t = arg;
    double one;
    Model *m = ckpt_model(t->a, ops_open("cpu", t->k->dtype, 1), CKPT_TRAIN);
    Optim *o = new_optim(t->k, m, c), *want = alone(t->k, t->from, &one);
    ckpt_optim(t->a, o);
    if (!equal(o, want)) exit(1);
    save_to(o, t->b);
    set_grads(m, STEPS, c->rank, 0);            /* and it goes on as one would */
    step(o, STEPS, &one);
    set_grads(want->m, STEPS, 0, c->ranks);
    step(want, STEPS, &one);
    if (!equal(o, want)) exit(2);
    end(o);
    end(want);
}

static int count_files(const char *dir, const char *with)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d)); ) n += strstr(e->d_name, with) != NULL;
    if (d) closedir(d);
    return n;
}

static void test_resharding(void)
{
    static const int from[] = { 1, 2, 3, 3, 5, 2 }, to[] = { 3, 1, 2, 1, 3, 5 };
    char *a = xasprintf("%s/a", root), *b = xasprintf("%s/b", root);
    for (size_t i = 0; i < CASES; i++)
        for (size_t j = 0; j < sizeof to / sizeof *to; j++) {
            Trip t = { &cases[i], a, b, from[j] };
            double one;
            int bad = ranks_run(from[j], save_a, &t) || count_files(a, "optimizer-") != from[j] ||
                      ranks_run(to[j], load_a_save_b, &t) || count_files(b, "optimizer-") != to[j];
            Model *m = ckpt_model(b, ops_open("cpu", t.k->dtype, 1), CKPT_TRAIN);
            Optim *o = new_optim(t.k, m, NULL), *want = alone(t.k, from[j], &one);
            ckpt_optim(b, o);
            ok(!bad && equal(o, want) && !count_files(a, ".new"),
               "%s, %s: saved by %d, read by %d, read by one", t.k->name, t.k->dtype, from[j], to[j]);
            end(o);
            end(want);
        }
    ok(!ckpt_keep(b, 5, 1), "kept");
    char *kept = xasprintf("%s/step-000005", b);
    ok(count_files(kept, "optimizer-") == 5, "  with the files of all ranks");
    ok(!ckpt_forget(b) && access(kept, F_OK), "  and forgotten");
    free(a); free(b); free(kept);
}

/* ---- deaths. Versions 1 and 2 differ in all numbers. */

typedef struct Death { char *dir; int version, rank, kill_at, fail_at; } Death;

static Optim *version_of(const Comm *c, int version)
{
    Model *m = new_model(&cases[0]);
    Optim *o = new_optim(&cases[0], m, c);
    for (int i = 0; i < version; i++) {
        double norm;
        set_grads(m, i, c ? c->rank : 0, c ? 0 : 3);
        step(o, i, &norm);
    }
    return o;
}
static void save_and_die(const Comm *c, void *arg)
{
    Death *d = arg;
    Optim *o = version_of(c, d->version);
    char *state = xasprintf("{\"version\": %d}", d->version);
    if (d->fail_at && !freopen("/dev/null", "w", stderr)) exit(9);
    if (c->rank == d->rank)
        ckpt_fault = (struct CkptFault){ .kill_at = d->kill_at, .fail_at = d->fail_at };
    int bad = ckpt_save(d->dir, o->m, o, NULL, state, NULL);
    if (bad) exit(5);
    if (c->rank == d->rank && d->kill_at < 0) exit(ckpt_fault.steps);
    end(o);
}
/* 1 or 2; -1: neither, or a mixture */
static int version_in(const char *dir)
{
    Arena a = { 0 };
    int64_t v = -1;
    json_int(json_get(ckpt_state(dir, &a), "version"), &v);
    Model *m = ckpt_model(dir, ops_cpu(1), CKPT_TRAIN);
    Optim *o = new_optim(&cases[0], m, NULL), *want = version_of(NULL, (int)v);
    ckpt_optim(dir, o);
    int good = equal(o, want);
    end(o);
    end(want);
    arena_free(&a);
    return good ? (int)v : -1;
}

static void test_deaths(int rank, int stride)
{
    Death d = { xasprintf("%s/d%d", root, rank), 1, -1, 0, 0 };
    int old = 0, new = 0, wrong = 0, k = 1;
    wrong += ranks_run(3, save_and_die, &d) != 0;
    for (;; k += stride) {
        d = (Death){ d.dir, 2, rank, k, 0 };
        int st = ranks_run(3, save_and_die, &d), v = version_in(d.dir);
        if (!st) break;
        wrong += !WIFEXITED(st) || WEXITSTATUS(st) != 77 || v < 1;
        old += v == 1;
        new += v == 2;
        if (v != 2) continue;
        d = (Death){ d.dir, 1, -1, 0, 0 };      /* the next writer finishes the commit first */
        wrong += ranks_run(3, save_and_die, &d) != 0 || version_in(d.dir) != 1;
    }
    ok(!wrong && old && (rank ? !new : new > 0) && version_in(d.dir) == 2,
       "rank %d killed at every fifth step: %d times the old checkpoint, %d times the new one", rank, old,
       new);
    free(d.dir);
}

/* A step that a failure cannot come to is none; some failures, after the commit, are told only. */
static void test_failures(int rank, int times)
{
    Death d = { xasprintf("%s/f%d", root, rank), 1, rank, -1, 0 };
    int steps = WEXITSTATUS(ranks_run(3, save_and_die, &d)), wrong = steps < 2, failed = 0;
    for (int i = 0; i < times && !wrong; i++) {
        int k = 1 + (steps - 1) * i / (times - 1);
        d = (Death){ d.dir, 2, rank, 0, k };
        int st = ranks_run(3, save_and_die, &d), good = st == 0;
        failed += !good;
        wrong += !WIFEXITED(st) || version_in(d.dir) != 1 + good;
        wrong += !good && (WEXITSTATUS(st) != 5 || count_files(d.dir, ".new"));
        d = (Death){ d.dir, 1, -1, 0, 0 };
        if (good) wrong += ranks_run(3, save_and_die, &d) != 0;
    }
    ok(!wrong && failed > 1, "rank %d's disk full at %d steps: all know, the old checkpoint is whole", rank,
       failed);
    free(d.dir);
}

/* ---- what does not belong together */

static void load_f(void *dir)
{
    Model *m = new_model(&cases[0]);
    ckpt_optim(dir, new_optim(&cases[0], m, NULL));
}
static void move(const char *dir, const char *a, const char *b)
{
    char *x = xasprintf("%s/%s", dir, a), *y = xasprintf("%s/%s", dir, b);
    if (rename(x, y)) die("%s:", x);
    free(x); free(y);
}
static void test_refused(void)
{
    char *dir = xasprintf("%s/r", root), *old = xasprintf("%s/o", root);
    Death d = { dir, 1, -1, 0, 0 }, e = { old, 2, -1, 0, 0 };
    int bad = ranks_run(3, save_and_die, &d) || ranks_run(3, save_and_die, &e);
    move(dir, "optimizer-1.safetensors", "kept");
    ok(!bad && dies(1, "optimizer-1.safetensors: No such file", load_f, dir), "a rank's file is missing");
    move(dir, "optimizer-2.safetensors", "optimizer-1.safetensors");
    move(dir, "kept", "optimizer-2.safetensors");
    ok(dies(1, "optimizer-1.safetensors: of rank 2 of 3, not 1 of 3", load_f, dir), "files exchanged");
    move(old, "optimizer-2.safetensors", "../r/optimizer-2.safetensors");
    move(dir, "optimizer-1.safetensors", "../o/optimizer-2.safetensors");
    move(old, "optimizer-1.safetensors", "../r/optimizer-1.safetensors");
    ok(dies(1, "of step 2, but", load_f, dir), "of another step");
    free(dir); free(old);
}

static void wipe(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)); ) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        char *p = xasprintf("%s/%s", dir, e->d_name);
        if (unlink(p)) wipe(p);
        free(p);
    }
    if (d) closedir(d);
    rmdir(dir);
}

int main(void)
{
    char name[] = "/tmp/ranks.XXXXXX";
    root = mkdtemp(name);
    if (!root) die("%s:", name);
    test_steps();
    test_shares();
    test_resharding();
    test_deaths(0, 5);
    test_deaths(2, 5);
    test_failures(0, 12);
    test_failures(1, 2);
    test_refused();
    wipe(root);
    return done();
}
