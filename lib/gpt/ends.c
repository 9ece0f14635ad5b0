/* ends.c -- see ends.h. */
#include "gpt/ends.h"
#include "base/io.h"
#include "text/convert.h"
#include <stdlib.h>
#include <string.h>

/* ---- reading ----------------------------------------------------------------- */

/* An end token's id, or an array of such. */
static void add_ends(const char *dir, const char *file, int V, unsigned char *stop)
{
    Arena a = {0};
    const Json *o = ckpt_json(dir, file, &a), *ends = json_get(o, "eos_token_id");
    bool list = ends && ends->kind == J_ARR;
    for (const Json *e = list ? ends->child : ends; e; e = list ? e->next : NULL) {
        int64_t id;
        if (!list && e->kind == J_NULL) break;
        if (!json_int(e, &id) || id < 0 || id >= V)
            die("%s/%s: eos_token_id is not a token below vocab_size (%d)", dir, file, V);
        stop[id] = 1;
    }
    arena_free(&a);
}

void ends_check(const char *dir, const Tok *t, const Config *c)
{
    int have = tok_vocab(t);
    if (have > c->V || (have < c->V && c->family != &llama_family))
        die("%s: the tokenizer has %d tokens, but the model's vocab_size is %d", dir, have, c->V);
}

/* <|user_start|> ends a text too: a model that goes on to the next turn would talk to itself. */
void ends_stops(const char *dir, const Tok *t, int V, unsigned char *stop)
{
    static const int ends[] = { SP_BOS, SP_ASSISTANT_END, SP_USER_START };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int id = tok_special(t, ends[i]);
        if (id >= 0 && id < V) stop[id] = 1;
    }
    for (int id = tok_vocab(t); id < V; id++) stop[id] = 1;
    if (!dir) return;
    add_ends(dir, "config.json", V, stop);
    add_ends(dir, "generation_config.json", V, stop);
}

int ends_bos(const char *dir, const Tok *t, const Config *c)
{
    Arena a = {0};
    if (tok_special(t, SP_BOS) >= 0 || !dir) return tok_special(t, SP_BOS);
    const Json *o = ckpt_json(dir, "tokenizer_config.json", &a), *bos = json_get(o, "bos_token");
    const Json *add = json_get(o, "add_bos_token");
    if (bos && bos->kind == J_OBJ) bos = json_get(bos, "content");
    bool wanted = add && add->kind == J_BOOL ? add->b : !c->llama.qk_norm;
    int id = wanted && bos && bos->kind == J_STR ? tok_named(t, bos->s) : -1;
    arena_free(&a);
    return id;
}

/* ---- writing ----------------------------------------------------------------- */

static void put_file(const char *dir, const char *name, const Buf *b)
{
    char *path = xasprintf("%s/%s", dir, name);
    Out *o = out_open(path, 0);
    out_write(o, b->s, b->n);
    out_close(o);
    free(path);
}

static void put_token(Buf *b, const char *key, const Tok *t, int id)
{
    size_t n;
    if (id < 0) return;
    const char *s = tok_bytes(t, id, &n);
    buf_printf(b, ", \"%s\": ", key);
    json_str(b, s, n);
}

static int first_end(const Tok *t, const unsigned char *stop)
{
    for (int id = 0; id < tok_vocab(t); id++)
        if (stop[id] && tok_is_special(t, id)) return id;
    return -1;
}

void ends_write(const char *dir, const Config *c, const Tok *t, int bos, const unsigned char *stop)
{
    Buf b = {0};
    hf_print(t, dir, bos, &b);
    put_file(dir, "tokenizer.json", &b);

    buf_clear(&b);
    buf_printf(&b, "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"model_max_length\": %d, "
               "\"clean_up_tokenization_spaces\": false, \"add_bos_token\": %s", c->T,
               bos >= 0 ? "true" : "false");
    put_token(&b, "bos_token", t, bos);
    put_token(&b, "eos_token", t, first_end(t, stop));
    put_token(&b, "unk_token", t, tok_words(t) ? 1 : -1);
    put_token(&b, "pad_token", t, tok_words(t) ? 0 : -1);
    buf_str(&b, "}\n");
    put_file(dir, "tokenizer_config.json", &b);

    buf_clear(&b);
    buf_str(&b, "{\"do_sample\": true, \"eos_token_id\": [");
    for (int id = 0, some = 0; id < tok_vocab(t); id++)
        if (stop[id]) buf_printf(&b, "%s%d", some++ ? ", " : "", id);
    buf_char(&b, ']');
    if (bos >= 0) buf_printf(&b, ", \"bos_token_id\": %d", bos);
    buf_str(&b, "}\n");
    put_file(dir, "generation_config.json", &b);
    buf_free(&b);
}
