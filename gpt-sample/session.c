/* session.c -- see session.h. */
#include "session.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

/* An end token's id, or an array of such, as config.json and generation_config.json have them. */
static void add_ends(Session *s, const char *file)
{
    Arena a = {0};
    const Json *o = ckpt_json(s->dir, file, &a), *ends = json_get(o, "eos_token_id");
    bool list = ends && ends->kind == J_ARR;
    for (const Json *e = list ? ends->child : ends; e; e = list ? e->next : NULL) {
        int64_t id;
        if (!list && e->kind == J_NULL) break;
        if (!json_int(e, &id) || id < 0 || id >= s->m->cfg.V)
            die("%s/%s: eos_token_id is not a token below vocab_size (%d)", s->dir, file,
                s->m->cfg.V);
        s->stop[id] = 1;
    }
    arena_free(&a);
}

/* The id that begins a text in a Hugging Face directory, or -1: what tokenizer_config.json says
 * about it; where it says nothing, models of type llama have one. */
static int foreign_bos(Session *s)
{
    Arena a = {0};
    const Json *o = ckpt_json(s->dir, "tokenizer_config.json", &a), *bos = json_get(o, "bos_token");
    const Json *add = json_get(o, "add_bos_token");
    if (bos && bos->kind == J_OBJ) bos = json_get(bos, "content");
    bool wanted = add && add->kind == J_BOOL ? add->b : !s->m->cfg.llama.qk_norm;
    int id = wanted && bos && bos->kind == J_STR ? tok_named(s->tok, bos->s) : -1;
    arena_free(&a);
    return id;
}

/* Ids that the tokenizer lacks stand for nothing: tables of embeddings are often rounded up. They
 * end a sample. */
static void check_vocab(const Session *s)
{
    int have = tok_vocab(s->tok), V = s->m->cfg.V;
    char *own = ckpt_path(s->dir, "tokenizer.tok");
    if (have > V || (own && have < V))
        die("%s: the tokenizer has %d tokens, but the model's vocab_size is %d", s->dir, have, V);
    free(own);
}

/* <|user_start|> ends a sample too: a model that goes on to the next turn would talk to itself. */
static void set_stops(Session *s)
{
    static const int ends[] = { SP_BOS, SP_ASSISTANT_END, SP_USER_START };
    s->stop = xcalloc((size_t)s->m->cfg.V, 1);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int id = tok_special(s->tok, ends[i]);
        if (id >= 0) s->stop[id] = 1;
    }
    for (int id = tok_vocab(s->tok); id < s->m->cfg.V; id++) s->stop[id] = 1;
    add_ends(s, "config.json");
    add_ends(s, "generation_config.json");
}

void session_open(Session *s, const char *dir, int which, const char *adapter, const Ops *ops)
{
    s->dir = dir;
    s->m = ckpt_model(dir, ops, which);
    if (adapter) s->lora = ckpt_lora_for(adapter, s->m, dir);
    s->tok = ckpt_tok(dir);
    check_vocab(s);
    s->bos = tok_special(s->tok, SP_BOS);
    if (s->bos < 0) s->bos = foreign_bos(s);
    s->enc = tokenc_new(s->tok);
    s->gen = gen_new(s->m);
    set_stops(s);
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
