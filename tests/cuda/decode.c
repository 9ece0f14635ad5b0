/* Decoding with the emulated CUDA back-end: one token a row as a graph gives bit for bit what single
 * operations give, when rows come and go, when scratch moves, with another tape and other weights; and
 * graphs are what is run. Samples drawn on the device are those that the host draws. Models of two
 * layers of both families. */
#include "base/err.h"
#include "cuda_runtime_api.h"
#include "gpt/decode.h"
#include "models.h"
#include "tap.h"
#include <math.h>

const Ops *cuda_ops_fp32(void), *cuda_ops_bf16(void);

enum { T = 100, V = 101, ROWS = 2, MOST = 60 };

static Config nanochat(void) { return config_depth(2, 32, 32, T, V, "SL"); }
static Config llama(int experts) { return small_llama(T, V, experts, 0); }
/* other weights where the old ones were */
static void set_weights(Model *m, uint32_t seed)
{
    for (int i = 0; i < m->nparam; i++) {
        Param *p = &m->param[i];
        real *x = xreallocarray(NULL, (size_t)p->n, sizeof *x);
        for (int64_t k = 0; k < p->n; k++) {
            seed = seed * 1664525u + 1013904223u;
            x[k] = (real)0.3 * ((real)(seed >> 8) / (1 << 24) - (real)0.5);
        }
        model_set(m, p, x);
        free(x);
    }
}
typedef struct Said { real *l; int n; } Said;   /* [n][V] logits, one after the other */
static void feed(Said *s, Cache *c, Tape *t, const int *ids, int n)
{
    cache_feed(c, t, ids, n, s->l + (size_t)s->n * V);
    s->n += c->B;
    if (s->n > MOST) abort();
}
/* the same story with or without graphs */
static Said story(const Ops *o, Config cfg)
{
    Said s = { xreallocarray(NULL, MOST * V, sizeof(real)), 0 };
    int ids[ROWS * 100];
    for (int i = 0; i < ROWS * 100; i++) ids[i] = (i * 37 + i * i % 11) % V;
    Model *m = model_new(o, &cfg, 0);
    set_weights(m, 1);
    Tape t, other;
    tape_init(&t, o);
    tape_init(&other, o);
    Cache *c = cache_new(m, ROWS, T);
    feed(&s, c, &t, ids, 5);
    for (int i = 0; i < 5; i++) feed(&s, c, &t, ids + i, 1);
    feed(&s, c, &t, ids, 30);                   /* scratch grows */
    for (int i = 0; i < 2; i++) feed(&s, c, &t, ids + 7 * i, 1);
    cache_rows(c, ROWS - 1);
    for (int i = 0; i < 3; i++) feed(&s, c, &t, ids + 3 * i, 1);
    set_weights(m, 2);
    feed(&s, c, &t, ids, 1);
    for (int i = 0; i < 3; i++) feed(&s, c, &other, ids + i, 1);
    tape_free(&t);
    tape_init(&t, o);                           /* at the same address */
    for (int i = 0; i < 3; i++) feed(&s, c, &t, ids + i, 1);
    cache_free(c);
    tape_free(&t);
    tape_free(&other);
    model_free(m);
    return s;
}
static void check(const char *name, const Ops *o, Config cfg)
{
    Ops plain = *o;
    plain.graph_begin = NULL;
    const long before = cuemu_graphs();
    Said a = story(&plain, cfg);
    const long none = cuemu_graphs() - before;
    Said b = story(o, cfg);
    const long some = cuemu_graphs() - before - none;
    int finite = 1;
    for (int i = 0; i < a.n * V; i++) finite &= isfinite(a.l[i]) != 0;
    ok(a.n == b.n && finite && memcmp(a.l, b.l, (size_t)a.n * V * sizeof *a.l) == 0,
       "%s %s: graphs give the same bits", name, o->dtype);
#ifdef ON_DEVICE
    (void)none, (void)some;                     /* nobody counts them there */
#else
    ok(none == 0 && some >= 11, "%s %s: of 17 passes of a token %ld are graphs", name, o->dtype, some);
#endif
    free(a.l);
    free(b.l);
}

/* ---- samples: what comes of a job, an end as -2 - id */

enum { SAMPLES = 4, TOKENS = 8 };
typedef struct Heard { int n, what[SAMPLES * (TOKENS + 1) * 2]; } Heard;
static void hear_token(void *arg, int sample, int id)
{
    Heard *h = arg;
    h->what[h->n++] = sample;
    h->what[h->n++] = id;
}
static void hear_end(void *arg, int sample, int id) { hear_token(arg, sample, -2 - id); }
static Heard sample(const Ops *o, Config cfg, const Pick *p)
{
    static const int prompt[] = { 3, 14, 15, 92, 65, 35 };
    unsigned char stop[V] = { 0 };
    Heard h = { 0 };
    Model *m = model_new(o, &cfg, 0);
    set_weights(m, 1);
    Gen *g = gen_new(m);
    for (int i = 0; i < V; i += 9) stop[i] = 1;
    GenJob j = { .model = "m", .prompt = prompt, .n = 6, .samples = SAMPLES, .max_tokens = TOKENS,
                 .batch = 3, .pick = *p, .seed = 8, .stop = stop, .token = hear_token,
                 .end = hear_end, .arg = &h };
    gen_run(g, &j);
    gen_free(g);
    model_free(m);
    return h;
}
static void check_samples(const char *name, const Ops *o, Config cfg)
{
    static const Pick picks[] = {
        { .temperature = 0 }, { .temperature = 1 }, { .temperature = 0, .penalty = 1.4 },
        { .temperature = 0.9, .top_k = 40, .top_p = 0.95, .min_p = 0.01, .penalty = 1.3 },
    };
    Ops host = *o;
    int same = 1, tokens = 0;
    host.pick = NULL;
    for (size_t i = 0; i < sizeof picks / sizeof *picks; i++) {
        Heard a = sample(&host, cfg, &picks[i]);
        cuemu_lazy(1);
        cuemu_protect(1);
        Heard b = sample(o, cfg, &picks[i]);
        cuemu_protect(0);
        cuemu_lazy(0);
        same &= a.n == b.n && !memcmp(a.what, b.what, (size_t)a.n * sizeof *a.what);
        tokens += a.n / 2;
    }
    ok(same && tokens > 40, "%s %s: the device draws what the host draws, %d tokens and ends", name,
       o->dtype, tokens);
}

int main(void)
{
    const Ops *ops[] = { cuda_ops_fp32(), cuda_ops_bf16() };
    for (int i = 0; i < 2; i++) {
        check("nanochat", ops[i], nanochat());
        check("llama", ops[i], llama(0));
        check("llama, experts", ops[i], llama(4));
        if (i == 0) check_samples("nanochat", ops[i], nanochat());
        else check_samples("llama", ops[i], llama(0));
    }
    ok(cuemu_damaged() == 0, "nothing was written past the end of a block");
    return done();
}
