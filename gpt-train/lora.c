/* A run that trains an adapter: the model it belongs to, its part of state.json, and merging. */
#include "gpt/lora.h"
#include "gpt/ckpt.h"
#include "gpt/ends.h"
#include "options.h"
#include "run.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void lora_option(Arena *keep)
{
    if (!opt.adapter) return;
    LoraSpec s = ckpt_lora_spec(opt.adapter);
    char *text = lora_text(&s);
    opt.lora = arena_strndup(keep, text, strlen(text));
    free(text);
    lora_spec_free(&s);
}

/* {"base": {"dir": ..., "xxh3": ...}} */
void lora_base(const Json *state, const char *file, Arena *keep)
{
    if (!opt.lora) return;
    const Json *dir = json_get(json_get(state, "base"), "dir");
    if (!dir || dir->kind != J_STR || memchr(dir->s, 0, dir->len))
        die("%s: 'base' is missing or without its dir", file);
    opt.init = arena_strndup(keep, dir->s, dir->len);
}

void lora_state_json(const Run *r, Buf *b)
{
    if (!r->lora) return;
    buf_str(b, "  \"base\": {\"dir\": ");
    json_str(b, opt.init, strlen(opt.init));
    buf_printf(b, ", \"xxh3\": \"%016" PRIx64 "\"},\n", r->base_hash);
}

static uint64_t base_in(const Json *state, const char *file)
{
    const Json *h = json_get(json_get(state, "base"), "xxh3");
    if (!h || h->kind != J_STR || h->len != 16 || strspn(h->s, "0123456789abcdef") != 16)
        die("%s: 'base' is missing or without its xxh3", file);
    return strtoull(h->s, NULL, 16);
}

void lora_open(Run *r, const Json *state, const char *file)
{
    uint64_t was = 0;
    if (!opt.lora) return;
    const char *from = opt.resume ? opt.out : opt.adapter;
    r->base_hash = model_hash(r->m);
    if (opt.resume && base_in(state, file) != r->base_hash)
        die("%s: not the weights any more that the adapter in %s is trained on", opt.init, opt.out);
    if (from) r->lora = ckpt_lora(from, r->m, 1, &was);
    else r->lora = plan_lora(r->m, 1);
    if (was && was != r->base_hash)
        warn("%s: was trained on other weights than those of %s", opt.adapter, opt.init);
    if (!from) lora_init(r->lora, (uint64_t)opt.seed);
    r->trained = r->lora->p;
    char *whole = realpath(opt.init, NULL);
    if (!whole) die("%s:", opt.init);
    opt.init = whole;                   /* to be found from anywhere; kept to the end */
}

void lora_merge_run(void)
{
    Buf tok = {0};
    const Ops *ops = ops_open(ranks_device(), "fp32", opt.threads);
    Tok *t = ckpt_tok(opt.init);
    Model *m = ckpt_model(opt.init, ops, 0);
    Lora *l = ckpt_lora_for(opt.adapter, m, opt.init);
    lora_merge(l);
    note(1, "%d linear maps of %s now have the adapter in their weights", l->nlow, opt.init);
    tok_print(t, &tok);
    ends_check(opt.init, t, &m->cfg);
    unsigned char *stop = xcalloc((size_t)m->cfg.V, 1);
    ends_stops(opt.init, t, m->cfg.V, stop);
    int bos = ends_bos(opt.init, t, &m->cfg);
    if (ckpt_save(opt.out, m, NULL, &tok, NULL, NULL)) exit(1);
    if (m->cfg.family == &llama_family) ends_write(opt.out, &m->cfg, t, bos, stop);
    free(stop);
    buf_free(&tok);
    lora_free(l);
    model_free(m);
    tok_free(t);
}
