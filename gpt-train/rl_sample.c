/* Sampling answers from the model that is trained, with what their tokens' chances were. */
#include "options.h"
#include "rl.h"
#include <math.h>
#include <stdlib.h>

typedef struct Sampler {
    Answer *a;
    const real *logits;             /* of the row whose token is being drawn */
    double lse, entropy;
    int V;
} Sampler;

static void add(Answer *a, int id, int drawn, double logp)
{
    if (a->ids.n == a->cap) {
        a->cap = a->cap ? 2 * a->cap : 64;
        a->logp = xreallocarray(a->logp, a->cap, sizeof *a->logp);
        a->ref = xreallocarray(a->ref, a->cap, sizeof *a->ref);
    }
    a->logp[a->ids.n] = logp;
    ids_add(&a->ids, (uint32_t)id);
    buf_char(&a->mask, (char)drawn);
}

/* entropy = lse - sum of p l */
static void on_logits(void *arg, int sample, int made, real *l)
{
    Sampler *s = arg;
    (void)sample;
    (void)made;
    double top = -INFINITY, sum = 0, mean = 0;
    for (int i = 0; i < s->V; i++) top = fmax(top, (double)l[i]);
    for (int i = 0; i < s->V; i++) {
        double d = (double)l[i] - top, e = exp(d);
        sum += e;
        mean += e * d;
    }
    s->logits = l;
    s->lse = top + log(sum);
    s->entropy = log(sum) - mean / sum;
}

static void on_token(void *arg, int sample, int id)
{
    Sampler *s = arg;
    add(&s->a[sample], id, 1, (double)s->logits[id] - s->lse);
    s->a[sample].entropy += s->entropy;
}

static void on_forced(void *arg, int sample, int id)
{
    add(&((Sampler *)arg)->a[sample], id, 0, 0);
}

static void on_end(void *arg, int sample, int id)
{
    Sampler *s = arg;
    s->a[sample].ended = id >= 0;
    if (id >= 0) on_token(arg, sample, id);     /* drawn like any other: it is learnt as well */
}

static void clear(Answer *a, int n)
{
    for (int i = 0; i < n; i++) {
        a[i].ids.n = 0;
        buf_clear(&a[i].mask);
        a[i].entropy = 0;
        a[i].ended = 0;
        a[i].reward = NAN;
    }
}

int rl_sample(Run *r, const Prompt *p, Answer *a, int n, double temperature, uint64_t stream)
{
    Sampler s = { .a = a, .V = r->plan.cfg.V };
    clear(a, n);
    GenJob job = {
        .model = opt.out, .prompt = (const int *)p->ids.id, .n = (int)p->ids.n, .samples = n,
        .batch = n < 64 ? n : 64, .max_tokens = opt.max_tokens,
        .pick = { .temperature = temperature, .top_k = opt.top_k },
        .seed = (uint64_t)opt.seed, .stream = stream, .stop = r->rl->stop,
        .tool = r->rl->has_tool ? &r->rl->tool : NULL, .token = on_token, .forced = on_forced,
        .end = on_end, .logits = on_logits, .arg = &s, .cancel = &stopped_by,
    };
    gen_run(r->gen, &job);
    return !stopped_by;
}

void answers_free(Answer *a, int n)
{
    for (int i = 0; i < n; i++) {
        ids_free(&a[i].ids);
        buf_free(&a[i].mask);
        free(a[i].logp);
        free(a[i].ref);
    }
    free(a);
}
