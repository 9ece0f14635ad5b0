/* hf.c -- Hugging Face's tokenizer.json, where it is byte-level BPE with a pattern known here.
 *
 * There, bytes are spelled as characters: those that are printable in Latin-1 as themselves, the
 * others, in their order, as U+0100 and up. What would change ids and is not known here is refused
 * by its name; what cannot (post-processors, decoders, truncation) is passed over. */
#include "text/convert.h"
#include "text/tok_int.h"
#include "base/json.h"
#include "base/map.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_JSON ((size_t)1 << 26)      /* the tree takes 30 times as much at the worst */

/* 33..126 and 161..255 without 173 are themselves, the other 68 are U+0100 and up in their order. */
static uint32_t spelling_of(unsigned b)
{
    if (b < 33) return 256 + b;
    if (b >= 127 && b < 161) return 256 + 33 + (b - 127);
    return b == 173 ? 256 + 67 : b;
}

typedef struct Spelling { int byte[324]; } Spelling;            /* -1: spells none */

static Spelling spelling(void)
{
    Spelling p;
    for (int c = 0; c < 324; c++)
        p.byte[c] = -1;
    for (unsigned b = 0; b < 256; b++)
        p.byte[spelling_of(b)] = (int)b;
    return p;
}

static bool unspell(const Spelling *p, Buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; ) {
        uint32_t c;
        int k = utf8_next(s + i, n - i, &c);
        if (k < 0 || c >= 324 || p->byte[c] < 0)
            return false;
        buf_char(b, (char)p->byte[c]);
        i += (size_t)k;
    }
    return true;
}

void tok_spell(Buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c[4];
        buf_add(b, c, (size_t)utf8_put(c, spelling_of((unsigned char)s[i])));
    }
}

/* ---- reading -------------------------------------------------------------- */

typedef struct Reader {
    const char *name;
    Spelling p;
    Map added;                  /* content -> id of special tokens */
    Buf b;
    Tok *t;
} Reader;

static bool is_null(const Json *j) { return !j || j->kind == J_NULL; }
static bool is_true(const Json *j) { return j && j->kind == J_BOOL && j->b; }
static bool is_false(const Json *j) { return j && j->kind == J_BOOL && !j->b; }

_Noreturn static void refuse(const Reader *r, const char *what, const Json *j)
{
    const Json *type = json_get(j, "type");
    if (type && type->kind == J_STR)
        j = type;
    size_t n = j->src_len < 200 ? j->src_len : 200;
    die("%s: its %s is not one that is known here: %.*s", r->name, what, (int)n, j->src);
}

static int64_t id_of(const Reader *r, const Json *j, const char *what)
{
    int64_t id;
    if (!j || !json_int(j, &id) || id < 0 || id > INT32_MAX)
        die("%s: %s without a valid id", r->name, what);
    return id;
}

/* Other programs cut tokens that are not special, "added" ones, out of any text. Names in brackets
 * do no harm; a word or spaces would give text other ids than here. */
static void read_added(Reader *r, const Json *list, uint64_t *end)
{
    static const char *const ways[] = { "lstrip", "rstrip", "single_word" };
    if (is_null(list))
        return;
    if (list->kind != J_ARR)
        die("%s: its \"added_tokens\" is no array", r->name);
    for (const Json *j = list->child; j; j = j->next) {
        const Json *content = json_get(j, "content");
        int64_t id = id_of(r, json_get(j, "id"), "an added token");
        if (!content || content->kind != J_STR || !content->len)
            die("%s: the added token %" PRId64 " has no content", r->name, id);
        int n = content->len < 200 ? (int)content->len : 200;
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
            if (is_true(json_get(j, ways[k])))
                die("%s: the added token '%.*s' has \"%s\", which is not known here", r->name, n,
                    content->s, ways[k]);
        if (!is_true(json_get(j, "special")) && !strchr("<[{", content->s[0]))
            die("%s: the added token '%.*s' is neither special nor a name in brackets", r->name, n,
                content->s);
        if (map_get(&r->added, content->s, content->len))
            die("%s: two added tokens are '%.*s'", r->name, n, content->s);
        *map_put(&r->added, content->s, content->len) = id;
        if ((uint64_t)id >= *end)
            *end = (uint64_t)id + 1;
    }
}

/* Begin the tokenizer: of the ids of the vocabulary and those below `end`. */
static void begin(Reader *r, const Json *vocab, uint64_t end)
{
    for (const Json *j = vocab->child; j; j = j->next) {
        int64_t id = id_of(r, j, "a token");
        if ((uint64_t)id >= end)
            end = (uint64_t)id + 1;
    }
    r->t = tok_begin(r->name, (size_t)vocab->n + r->added.n, end);
}

/* The id of a token that is in the vocabulary only; -1 if it is an added one. */
static int64_t plain_id(const Reader *r, const Json *j)
{
    int64_t id = id_of(r, j, "a token"), *special = map_get(&r->added, j->key, j->key_len);
    if (special && *special != id)
        die("%s: '%.*s' has the ids %" PRId64 " and %" PRId64, r->name, (int)j->key_len, j->key, id,
            *special);
    return special ? -1 : id;
}

static void add_specials(Reader *r)
{
    for (size_t i = 0; i < r->added.n; i++)
        tok_put_special(r->t, (uint64_t)r->added.e[i].val, r->added.e[i].key, r->added.e[i].len);
}

/* A vocabulary of words, as bpe-train --words makes it: no spelling, no merges. */
static void read_words(Reader *r, const Json *model, const Json *pre, uint64_t end)
{
    const Json *vocab = json_get(model, "vocab");
    if (!vocab || vocab->kind != J_OBJ)
        die("%s: its model has no vocabulary", r->name);
    if (!json_is_str(json_get(model, "unk_token"), word_specials[1]))
        die("%s: its \"unk_token\" is not %s", r->name, word_specials[1]);
    if (!json_is_str(json_get(pre, "type"), "Split") ||
        !json_is_str(json_get(json_get(pre, "pattern"), "Regex"), "\\s+") ||
        !json_is_str(json_get(pre, "behavior"), "Isolated") || is_true(json_get(pre, "invert")))
        refuse(r, "pre-tokenizer", pre ? pre : model);
    begin(r, vocab, end);
    for (const Json *j = vocab->child; j; j = j->next) {
        int64_t id = plain_id(r, j);
        if (id >= 0)
            tok_put(r->t, (uint64_t)id, j->key, j->key_len);
    }
    add_specials(r);
    r->t->words = true;
    tok_put_pattern(r->t, "\\s+|\\S+", 7, false);
}

static void read_vocab(Reader *r, const Json *vocab, uint64_t end)
{
    if (!vocab || vocab->kind != J_OBJ)
        die("%s: its model has no vocabulary", r->name);
    begin(r, vocab, end);
    for (const Json *j = vocab->child; j; j = j->next) {
        int64_t id = plain_id(r, j);
        if (id < 0)
            continue;
        buf_clear(&r->b);
        if (!unspell(&r->p, &r->b, j->key, j->key_len))
            die("%s: token %" PRId64 " is not bytes in their spelling: %.*s", r->name, id,
                j->src_len < 200 ? (int)j->key_len : 200, j->key);
        tok_put(r->t, (uint64_t)id, r->b.s, r->b.n);
    }
    add_specials(r);
}

static uint32_t half(Reader *r, const char *s, size_t n, size_t merge)
{
    buf_clear(&r->b);
    int id = unspell(&r->p, &r->b, s, n) ? tok_find(r->t, r->b.s, r->b.n) : -1;
    if (id < 0)
        die("%s: merge %zu: '%.*s' is no token", r->name, merge, n < 200 ? (int)n : 200, s);
    return (uint32_t)id;
}

static void read_merges(Reader *r, const Json *list)
{
    size_t k = 0;
    if (!list || list->kind != J_ARR)
        die("%s: its model has no merges", r->name);
    for (const Json *j = list->child; j; j = j->next, k++) {
        const Json *x = j->child, *y = x ? x->next : NULL;
        const char *gap = j->kind == J_STR && j->len ? memchr(j->s, ' ', j->len) : NULL;
        if (gap) {
            size_t at = (size_t)(gap - j->s);
            uint32_t a = half(r, j->s, at, k);
            tok_put_merge(r->t, a, half(r, gap + 1, j->len - at - 1, k));
        } else if (j->kind == J_ARR && j->n == 2 && x->kind == J_STR && y->kind == J_STR) {
            uint32_t a = half(r, x->s, x->len, k);
            tok_put_merge(r->t, a, half(r, y->s, y->len, k));
        } else {
            die("%s: merge %zu is not two tokens", r->name, k);
        }
    }
}

static void read_model(Reader *r, const Json *model, uint64_t end)
{
    static const char *const none[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    const Json *type = json_get(model, "type"), *dropout = json_get(model, "dropout");
    if (!model || model->kind != J_OBJ)
        die("%s: not a tokenizer.json: it has no model", r->name);
    if (type && !json_is_str(type, "BPE"))
        refuse(r, "model", model);
    for (int i = 0; i < 2; i++) {
        const Json *j = json_get(model, none[i]);
        if (!is_null(j) && !json_is_str(j, ""))
            die("%s: its model has \"%s\", which is not known here", r->name, none[i]);
    }
    if (!is_null(dropout) && !(dropout->kind == J_NUM && dropout->num == 0))
        die("%s: its model has \"dropout\"", r->name);
    read_vocab(r, json_get(model, "vocab"), end);
    read_merges(r, json_get(model, "merges"));
    r->t->whole = is_true(json_get(model, "ignore_merges"));
}

static bool is_bytes(const Json *j, bool regex)        /* "use_regex" is true where it is absent */
{
    const Json *use = json_get(j, "use_regex");
    return json_is_str(json_get(j, "type"), "ByteLevel") &&
           is_false(json_get(j, "add_prefix_space")) && (regex ? !is_false(use) : is_false(use));
}

static void read_split(Reader *r, const Json *pre)
{
    const Json *list = json_get(pre, "pretokenizers"), *split = list ? list->child : NULL;
    if (is_null(pre))
        die("%s: has no pre-tokenizer", r->name);
    if (is_bytes(pre, true)) {
        const char *pattern = split_kind_pattern(SPLIT_GPT2);
        tok_put_pattern(r->t, pattern, strlen(pattern), true);
        return;
    }
    if (!json_is_str(json_get(pre, "type"), "Sequence") || !list || list->kind != J_ARR ||
        list->n != 2 || !json_is_str(json_get(split, "type"), "Split") ||
        !is_bytes(split->next, false))
        refuse(r, "pre-tokenizer", pre);
    const Json *behavior = json_get(split, "behavior"), *invert = json_get(split, "invert"),
               *regex = json_get(json_get(split, "pattern"), "Regex");
    /* The patterns match all of a text: keeping matches apart, or removing what is none, is one. */
    bool isolated = json_is_str(behavior, "Isolated") && !is_true(invert),
         removed = json_is_str(behavior, "Removed") && is_true(invert);
    if (!regex || regex->kind != J_STR || !(isolated || removed))
        refuse(r, "pre-tokenizer", split);
    tok_put_pattern(r->t, regex->s, regex->len, true);
}

static void read_normalizer(Reader *r, const Json *j)
{
    if (is_null(j))
        return;
    if (!json_is_str(json_get(j, "type"), "NFC"))
        refuse(r, "normalizer", j);
    r->t->nfc = true;
}

Tok *hf_parse(const char *name, const char *s, size_t n)
{
    Reader r = { .name = name, .p = spelling() };
    Arena a = {0};
    const char *err;
    size_t at;
    uint64_t end = 0;
    if (n > MAX_JSON)
        die("%s: %zu bytes; at most %zu are possible", name, n, MAX_JSON);
    const Json *root = json_parse(&a, s, n, &err, &at);
    if (!root)
        die("%s: not a tokenizer.json: byte %zu: %s", name, at, err);
    read_added(&r, json_get(root, "added_tokens"), &end);
    const Json *model = json_get(root, "model"), *pre = json_get(root, "pre_tokenizer");
    bool words = json_is_str(json_get(model, "type"), "WordLevel");
    if (words) read_words(&r, model, pre, end);
    else read_model(&r, model, end);
    read_normalizer(&r, json_get(root, "normalizer"));
    if (!words) read_split(&r, pre);
    map_free(&r.added), buf_free(&r.b);
    arena_free(&a);
    return tok_end(r.t);
}

/* ---- writing -------------------------------------------------------------- */

typedef struct Writer { const Tok *t; Buf *b, spelled; const char *comma; } Writer;

static void put_spelled(Writer *w, int id)             /* into w->spelled */
{
    tok_spell(&w->spelled, w->t->bytes.s + w->t->span[id].at, w->t->span[id].n);
}

static void put_added(Writer *w)
{
    const char *comma = "";
    buf_str(w->b, "  \"added_tokens\": [");
    for (int id = 0; id < w->t->vocab; id++) {
        if (!tok_is_special(w->t, id))
            continue;
        buf_printf(w->b, "%s\n    {\"id\": %d, \"content\": ", comma, id);
        json_str(w->b, w->t->bytes.s + w->t->span[id].at, w->t->span[id].n);
        buf_str(w->b, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                      "\"normalized\": false, \"special\": true}");
        comma = ",";
    }
    buf_str(w->b, "\n  ],\n");
}

static void put_split(Writer *w)
{
    if (w->t->kind == SPLIT_GPT2) {
        buf_str(w->b, "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                      "\"trim_offsets\": true, \"use_regex\": true},\n");
        return;
    }
    const char *pattern = w->t->pattern;
    if (split_kind_of(pattern, strlen(pattern), true) < 0)
        pattern = split_kind_pattern(w->t->kind);
    buf_str(w->b, "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n"
                  "    {\"type\": \"Split\", \"pattern\": {\"Regex\": ");
    json_str(w->b, pattern, strlen(pattern));
    buf_str(w->b, "}, \"behavior\": \"Isolated\", \"invert\": false},\n"
                  "    {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                  "\"trim_offsets\": true, \"use_regex\": false}\n  ]},\n");
}

static void put_vocab(Writer *w)
{
    const char *comma = "";
    buf_str(w->b, "    \"vocab\": {");
    for (int id = 0; id < w->t->vocab; id++) {
        if (!w->t->len[id])
            continue;
        buf_clear(&w->spelled);
        put_spelled(w, id);
        buf_printf(w->b, "%s\n      ", comma);
        json_str(w->b, w->spelled.s, w->spelled.n);
        buf_printf(w->b, ": %d", id);
        comma = ",";
    }
    buf_str(w->b, "\n    },\n");
}

static void put_merge(void *arg, uint32_t a, uint32_t b)
{
    Writer *w = arg;
    buf_clear(&w->spelled);
    put_spelled(w, (int)a);
    buf_char(&w->spelled, ' ');                 /* no byte is spelled so */
    put_spelled(w, (int)b);
    buf_printf(w->b, "%s\n      ", w->comma);
    json_str(w->b, w->spelled.s, w->spelled.n);
    w->comma = ",";
}

void tok_each_merge(const Tok *t, void (*f)(void *arg, uint32_t a, uint32_t b), void *arg)
{
    for (size_t k = 0; k < t->merges; k++)
        f(arg, t->pair[k][0], t->pair[k][1]);
    for (int id = 0; t->by_rank && id < t->vocab; id++) {
        const char *s = t->bytes.s + t->span[id].at;
        for (size_t n = (size_t)t->len[id], k = 1; k < n; k++) {
            int a = tok_find(t, s, k), b = a < 0 ? -1 : tok_find(t, s + k, n - k);
            if (b >= 0)
                f(arg, (uint32_t)a, (uint32_t)b);
        }
    }
}

static void put_merges(Writer *w)
{
    buf_str(w->b, "    \"merges\": [");
    w->comma = "";
    tok_each_merge(w->t, put_merge, w);
    buf_str(w->b, "\n    ]\n");
}

static void put_words(Writer *w)
{
    buf_str(w->b, "  \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\s+\"}, "
                  "\"behavior\": \"Isolated\", \"invert\": false},\n"
                  "  \"decoder\": {\"type\": \"Fuse\"},\n"
                  "  \"model\": {\n    \"type\": \"WordLevel\",\n    \"unk_token\": ");
    json_str(w->b, word_specials[1], strlen(word_specials[1]));
    buf_str(w->b, ",\n    \"vocab\": {");
    for (int id = 0; id < w->t->vocab; id++) {
        if (!w->t->span[id].n) continue;
        buf_str(w->b, id ? ",\n      " : "\n      ");
        json_str(w->b, w->t->bytes.s + w->t->span[id].at, w->t->span[id].n);
        buf_printf(w->b, ": %d", id);
    }
    buf_str(w->b, "\n    }\n  }\n}\n");
}

static void put_bytes(Writer *w, const char *name)
{
    const Tok *t = w->t;
    Buf *b = w->b;
    if (t->by_rank)
        warn("%s: some tokens cannot be reached by merging; as a tokenizer.json it may give other "
             "ids where two ways to make one token compete", name);
    put_split(w);
    buf_str(b, "  \"decoder\": {\"type\": \"ByteLevel\", "
               "\"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true},\n"
               "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
               "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
               "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
               "    \"byte_fallback\": false,\n");
    buf_printf(b, "    \"ignore_merges\": %s,\n",
               t->whole && !tok_all_reached(t) ? "true" : "false");
    put_vocab(w);
    put_merges(w);
    buf_str(b, "  }\n}\n");
}

static void put_begin(Writer *w, int bos)
{
    Buf name = {0};
    if (bos < 0) {
        buf_str(w->b, "  \"post_processor\": null,\n");
        return;
    }
    json_str(&name, w->t->bytes.s + w->t->span[bos].at, w->t->span[bos].n);
    buf_printf(w->b, "  \"post_processor\": {\"type\": \"TemplateProcessing\",\n"
               "    \"single\": [{\"SpecialToken\": {\"id\": %s, \"type_id\": 0}},\n"
               "      {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}],\n"
               "    \"pair\": [{\"SpecialToken\": {\"id\": %s, \"type_id\": 0}},\n"
               "      {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}},\n"
               "      {\"SpecialToken\": {\"id\": %s, \"type_id\": 1}},\n"
               "      {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}],\n"
               "    \"special_tokens\": {%s: {\"id\": %s, \"ids\": [%d], \"tokens\": [%s]}}},\n",
               name.s, name.s, name.s, name.s, name.s, bos, name.s);
    buf_free(&name);
}

void hf_print(const Tok *t, const char *name, int bos, Buf *b)
{
    Writer w = { .t = t, .b = b };
    buf_str(b, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_added(&w);
    buf_printf(b, "  \"normalizer\": %s,\n", t->nfc ? "{\"type\": \"NFC\"}" : "null");
    put_begin(&w, bos);
    if (t->words) put_words(&w);
    else put_bytes(&w, name);
    buf_free(&w.spelled);
}
