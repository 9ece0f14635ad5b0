/* session.c -- see session.h. */
#include "session.h"
#include "gpt/ends.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

void session_open(Session *s, const char *dir, int which, const char *adapter, const Ops *ops)
{
    s->dir = dir;
    s->m = ckpt_model(dir, ops, which);
    if (adapter) s->lora = ckpt_lora_for(adapter, s->m, dir);
    s->tok = ckpt_tok(dir);
    ends_check(dir, s->tok, &s->m->cfg);
    s->bos = ends_bos(dir, s->tok, &s->m->cfg);
    s->enc = tokenc_new(s->tok);
    s->gen = gen_new(s->m);
    s->stop = xcalloc((size_t)s->m->cfg.V, 1);
    ends_stops(dir, s->tok, s->m->cfg.V, s->stop);
}

void session_chat(Session *s, const char *template, const char *cmd, int no_tools)
{
    char *file = ckpt_tok_path(s->dir);
    ChatKind kind = template ? chat_kind(template) : chat_guess(s->tok);
    s->chat = chat_new(s->tok, file, s->enc, kind, -1);
    free(file);
    chat_stops(s->chat, s->stop);
    s->tools = !no_tools && tool_init(&s->tool, s->tok, s->enc);
    if (cmd && !s->tools) die("%s: the tokenizer has no tokens for tools, as --tool needs", s->dir);
    if (!cmd) return;
    s->cmd.cmd = cmd;
    s->tool.run = toolcmd_run;
    s->tool.arg = &s->cmd;
}

void session_stop(Session *s, const char *name)
{
    int id = tok_named(s->tok, name);
    Ids v = {0};
    if (id < 0) {
        tok_encode(s->enc, name, strlen(name), &v);
        if (v.n != 1)
            die_usage("--stop-token '%s': neither a special token nor text of one token (but of "
                      "%zu)", name, v.n);
        id = (int)v.id[0];
    }
    s->stop[id] = 1;
    ids_free(&v);
}

/* What names a prompt's random numbers: its ids, and how many equal prompts came before. So a
 * prompt's samples do not depend on which others stand beside it, and equal prompts differ. A line
 * with a seed of its own depends on that alone. */
static uint64_t stream_of(Session *s, const uint32_t *id, size_t n, const Settings *set)
{
    uint64_t key[2] = { xxh3(id, n * sizeof *id), 0 };
    if (!set->own_seed) key[1] = (uint64_t)(*map_put(&s->seen, key, sizeof *key))++;
    return xxh3(key, sizeof key);
}

GenJob session_job(Session *s, const uint32_t *id, size_t n, const Settings *set)
{
    return (GenJob){
        .model = s->dir, .prompt = (const int *)id, .n = (int)n,    /* ids are below 2^31 */
        .samples = set->samples, .max_tokens = set->max_tokens, .batch = s->batch,
        .pick = {
            .temperature = set->temperature, .top_k = set->top_k, .min_p = set->min_p,
            .top_p = set->top_p > 0 ? set->top_p : DBL_MIN,     /* 0 is the likeliest alone */
            .penalty = set->penalty,
        },
        .seed = (uint64_t)set->seed, .stream = stream_of(s, id, n, set), .stop = s->stop,
        .tool = s->tools ? &s->tool : NULL,
    };
}

void session_close(Session *s)
{
    chat_free(s->chat);
    gen_free(s->gen);
    tokenc_free(s->enc);
    tok_free(s->tok);
    lora_free(s->lora);
    model_free(s->m);
    map_free(&s->seen);
    free(s->stop);
}
