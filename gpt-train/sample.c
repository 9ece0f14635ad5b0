/* Samples on the way: how the model continues a few prompts, greedily. */
#include "gpt/ends.h"
#include "options.h"
#include "run.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_TOKENS = 32 };

typedef struct Text { const Tok *tok; Buf b; } Text;

static void on_token(void *arg, int sample, int id)
{
    (void)sample;
    Text *t = arg;
    size_t n;
    const char *s = tok_bytes(t->tok, id, &n);
    buf_add(&t->b, s, n);
}

static void on_end(void *arg, int sample, int id) { (void)arg; (void)sample; (void)id; }

/* What begins a text (if anything does) and the prompt's tokens. */
static Ids encode(const Run *r, const char *prompt)
{
    const Tok *tok = r->tok;
    Ids ids = {0};
    int bos = ends_bos(run_source(), tok, &r->plan.cfg);
    if (bos >= 0) ids_add(&ids, (uint32_t)bos);
    TokEnc *e = tokenc_new(tok);
    tok_encode(e, prompt, strlen(prompt), &ids);
    tokenc_free(e);
    return ids;
}

static void sample_one(Run *r, const char *prompt, const unsigned char *stop)
{
    Ids ids = encode(r, prompt);
    if (ids.n == 0 || ids.n >= (size_t)r->plan.cfg.T) {
        warn("--sample-prompt: %zu tokens, not from 1 to %d; left out", ids.n, r->plan.cfg.T - 1);
        ids_free(&ids);
        return;
    }
    int *id = xreallocarray(NULL, ids.n, sizeof *id);
    for (size_t i = 0; i < ids.n; i++) id[i] = (int)ids.id[i];
    Text t = { .tok = r->tok };
    GenJob job = { .model = opt.out, .prompt = id, .n = (int)ids.n, .samples = 1, .batch = 1,
                   .max_tokens = SAMPLE_TOKENS, .stop = stop, .token = on_token, .end = on_end,
                   .arg = &t };
    gen_run(r->gen, &job);
    metrics_sample(r, prompt, t.b.n ? t.b.s : "", t.b.n);
    Buf shown = {0};
    json_str(&shown, prompt, strlen(prompt));
    buf_str(&shown, " ");
    json_str(&shown, t.b.n ? t.b.s : "", t.b.n);
    note(1, "step %" PRId64 ": %s", r->st.step, shown.s);
    buf_free(&shown);
    buf_free(&t.b);
    free(id);
    ids_free(&ids);
}

void sample_all(Run *r)
{
    static const char *const usual[] = { "The capital of France is", "Once upon a time",
                                         "If 5 + 3 = 8, then 8 - 3 =" };
    if (!r->gen) r->gen = gen_new(r->m);
    unsigned char *stop = xcalloc((size_t)r->plan.cfg.V, 1);
    ends_stops(run_source(), r->tok, r->plan.cfg.V, stop);
    const char *const *p = opt.prompts.n ? opt.prompts.s : usual;
    int n = opt.prompts.n ? opt.prompts.n : (int)(sizeof usual / sizeof *usual);
    run_mean(r);
    for (int i = 0; i < n; i++) sample_one(r, p[i], stop);
    run_mean(r);
    free(stop);
}
