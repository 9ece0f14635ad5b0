/* tok.c -- a tokenizer's tables and its file; see tok.h. Encoding is in enc.c. */
#include "text/tok.h"
#include "base/io.h"
#include "text/split.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SPECIALS 1024
#define MAX_NAME 255
#define MAX_FILE (TOK_MAX_MERGES * 8u + MAX_SPECIALS * (4 + MAX_NAME) + 4096)
static const char magic[8] = "PGTOK\r\n\x1a";       /* CR LF: a text-mode copy breaks it */
enum { FORMAT = 1 };

const char *const special_names[SP_COUNT] = {
    "<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>",
    "<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>",
};

typedef struct PairSlot { uint32_t a, b, id; } PairSlot;        /* id 0: empty */

struct Tok {
    size_t merges, specials;
    int vocab, max_len;         /* vocab = 256 + merges + specials */
    uint32_t (*pair)[2];        /* [merges] */
    char *bytes;                /* of all ids, one after the other */
    size_t *off;                /* [vocab + 1] where each begins */
    int32_t *len;               /* [vocab] bytes of ordinary tokens, 0 for special ones */
    int special[SP_COUNT];
    PairSlot *pairs;
    uint32_t *ids;              /* by bytes: id + 1, 0 is empty */
    size_t pair_mask, id_mask;  /* slots - 1: 2^k - 1; at least half are empty */
    uint64_t hash;
};

static size_t pair_home(const Tok *t, uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (x ^ x >> 32) & t->pair_mask;
}

static PairSlot *pair_slot(const Tok *t, uint32_t a, uint32_t b)
{
    size_t i = pair_home(t, a, b);
    while (t->pairs[i].id && (t->pairs[i].a != a || t->pairs[i].b != b))
        i = (i + 1) & t->pair_mask;
    return &t->pairs[i];
}

static uint32_t *id_slot(const Tok *t, const char *s, size_t n)
{
    size_t i = xxh3(s, n) & t->id_mask;
    for (uint32_t id; (id = t->ids[i]); i = (i + 1) & t->id_mask)
        if ((size_t)t->len[id - 1] == n && !memcmp(t->bytes + t->off[id - 1], s, n))
            break;
    return &t->ids[i];
}

int tok_pair(const Tok *t, uint32_t a, uint32_t b)
{
    const PairSlot *p = pair_slot(t, a, b);
    return p->id ? (int)p->id : -1;
}

int tok_find(const Tok *t, const char *s, size_t n)
{
    if (n == 0 || n > (size_t)t->max_len)
        return -1;
    return (int)*id_slot(t, s, n) - 1;
}

/* ---- from merges and names to tables -------------------------------------- */

static size_t slots_for(size_t n)
{
    size_t k = 1024;
    while (k < 2 * n)
        k *= 2;
    return k;
}

/* Lengths of all ordinary tokens; off[id] is where the bytes of id begin. */
static void measure(Tok *t, const char *name)
{
    for (uint32_t id = 0; id < 256 + t->merges; id++) {
        int32_t n = 1;
        if (id >= 256) {
            uint32_t a = t->pair[id - 256][0], b = t->pair[id - 256][1];
            if (a >= id || b >= id)
                die("%s: token %" PRIu32 " is made of %" PRIu32 " and %" PRIu32
                    ", and not both are older", name, id, a, b);
            n = t->len[a] + t->len[b];
            if (n > TOK_MAX_LEN)
                die("%s: token %" PRIu32 " has %" PRIi32 " bytes; at most %d are possible",
                    name, id, n, TOK_MAX_LEN);
        }
        t->len[id] = n;
        t->off[id + 1] = t->off[id] + (size_t)n;
        if (n > t->max_len)
            t->max_len = n;
        if (t->off[id + 1] > TOK_MAX_BYTES)
            die("%s: the first %" PRIu32 " tokens have more than %d bytes in all",
                name, id + 1, TOK_MAX_BYTES);
    }
}

static void expand(Tok *t, const char *name)
{
    t->pair_mask = slots_for(t->merges) - 1;
    t->pairs = xcalloc(t->pair_mask + 1, sizeof *t->pairs);
    t->id_mask = slots_for(256 + t->merges) - 1;
    t->ids = xcalloc(t->id_mask + 1, sizeof *t->ids);
    for (uint32_t id = 0; id < 256 + t->merges; id++) {
        char *s = t->bytes + t->off[id];
        if (id < 256) {
            *s = (char)id;
        } else {
            uint32_t a = t->pair[id - 256][0], b = t->pair[id - 256][1];
            memcpy(s, t->bytes + t->off[a], (size_t)t->len[a]);
            memcpy(s + t->len[a], t->bytes + t->off[b], (size_t)t->len[b]);
            *pair_slot(t, a, b) = (PairSlot){a, b, id};
        }
        uint32_t *slot = id_slot(t, s, (size_t)t->len[id]);
        if (*slot)
            die("%s: tokens %" PRIu32 " and %" PRIu32 " have the same bytes", name, *slot - 1, id);
        *slot = id + 1;
    }
}

typedef struct Name { const char *s; size_t n; } Name;

static bool same(Name a, const char *b)
{
    return a.n == strlen(b) && !memcmp(a.s, b, a.n);
}

static void name_specials(Tok *t, const Name *names, const char *name)
{
    for (int k = 0; k < SP_COUNT; k++)
        t->special[k] = -1;
    for (size_t i = 0; i < t->specials; i++) {
        size_t id = 256 + t->merges + i;
        if (!names[i].n || names[i].n > MAX_NAME || utf8_valid(names[i].s, names[i].n) < names[i].n)
            die("%s: special token %zu has no valid name", name, id);
        for (size_t j = 0; j < i; j++)
            if (names[i].n == names[j].n && !memcmp(names[i].s, names[j].s, names[i].n))
                die("%s: two special tokens are named %.*s", name, (int)names[i].n, names[i].s);
        for (int k = 0; k < SP_COUNT; k++)
            if (same(names[i], special_names[k]))
                t->special[k] = (int)id;
        memcpy(t->bytes + t->off[id], names[i].s, names[i].n);
        t->off[id + 1] = t->off[id] + names[i].n;
    }
}

/* Takes over pair. `name` is what messages say is wrong. */
static Tok *build(uint32_t (*pair)[2], size_t merges, const Name *names, size_t specials,
                  const char *name)
{
    Tok *t = xcalloc(1, sizeof *t);
    t->pair = pair, t->merges = merges, t->specials = specials;
    t->vocab = (int)(256 + merges + specials);
    t->len = xcalloc((size_t)t->vocab, sizeof *t->len);
    t->off = xcalloc((size_t)t->vocab + 1, sizeof *t->off);
    measure(t, name);
    t->bytes = xmalloc(t->off[256 + merges] + specials * MAX_NAME);
    expand(t, name);
    name_specials(t, names, name);
    return t;
}

void tok_free(Tok *t)
{
    if (!t)
        return;
    free(t->pair), free(t->bytes), free(t->off), free(t->len), free(t->pairs), free(t->ids);
    free(t);
}

/* ---- the file ------------------------------------------------------------- */

static void write_image(const Tok *t, Buf *b)           /* all but the trailer */
{
    buf_add(b, magic, sizeof magic);
    buf_u32(b, FORMAT);
    buf_u32(b, (uint32_t)t->merges);
    buf_u32(b, (uint32_t)t->specials);
    buf_u32(b, (uint32_t)strlen(SPLIT_UNICODE));
    buf_str(b, SPLIT_UNICODE);
    buf_u32(b, (uint32_t)strlen(split_pattern));
    buf_str(b, split_pattern);
    for (size_t i = 0; i < t->merges; i++) {
        buf_u32(b, t->pair[i][0]);
        buf_u32(b, t->pair[i][1]);
    }
    for (int id = (int)(256 + t->merges); id < t->vocab; id++) {
        size_t n;
        const char *s = tok_bytes(t, id, &n);
        buf_u32(b, (uint32_t)n);
        buf_add(b, s, n);
    }
}

Tok *tok_from_merges(const uint32_t (*pair)[2], size_t n)
{
    if (n > TOK_MAX_MERGES)
        die("a tokenizer of %zu merges: at most %d are possible", n, TOK_MAX_MERGES);
    Name names[SP_COUNT];
    for (int k = 0; k < SP_COUNT; k++)
        names[k] = (Name){special_names[k], strlen(special_names[k])};
    uint32_t (*copy)[2] = xreallocarray(NULL, n + 1, sizeof *copy);
    if (n)
        memcpy(copy, pair, n * sizeof *copy);
    Tok *t = build(copy, n, names, SP_COUNT, "merges");
    Buf b = {0};
    write_image(t, &b);
    t->hash = xxh3(b.s, b.n);
    buf_free(&b);
    return t;
}

void tok_write(const Tok *t, Out *o)
{
    Buf b = {0};
    write_image(t, &b);
    buf_u64(&b, t->hash);
    out_write(o, b.s, b.n);
    buf_free(&b);
}

void tok_save(const Tok *t, const char *path)
{
    Out *o = out_open(path, OUT_BINARY);
    tok_write(t, o);
    out_close(o);
}

typedef struct Cursor { const char *s; size_t n, i; const char *name; } Cursor;

static const char *take(Cursor *c, size_t n, const char *what)
{
    if (n > c->n - c->i)
        die("%s: ends inside its %s, byte %zu", c->name, what, c->n);
    c->i += n;
    return c->s + c->i - n;
}

static Name take_name(Cursor *c, const char *what)
{
    size_t n = get_u32(take(c, 4, what));
    return (Name){take(c, n, what), n};
}

static void must_be(const Cursor *c, Name got, const char *want, const char *what)
{
    if (!same(got, want))
        die("%s: its %s is not the one this program has (%s)", c->name, what, want);
}

Tok *tok_load(const char *path)
{
    Buf b = {0};
    read_file(path, &b, MAX_FILE);
    Cursor c = { b.s, b.n, 0, path };
    if (b.n < sizeof magic || memcmp(take(&c, sizeof magic, "magic"), magic, sizeof magic))
        die("%s: not a tokenizer file", path);
    uint32_t version = get_u32(take(&c, 4, "header"));
    if (version != FORMAT)
        die("%s: tokenizer file version %" PRIu32 "; this program reads version %d", path, version,
            FORMAT);
    size_t merges = get_u32(take(&c, 4, "header")), specials = get_u32(take(&c, 4, "header"));
    if (merges > TOK_MAX_MERGES || specials > MAX_SPECIALS)
        die("%s: %zu merges and %zu special tokens: at most %d and %d are possible", path,
            merges, specials, TOK_MAX_MERGES, MAX_SPECIALS);
    Name unicode = take_name(&c, "Unicode version"), pattern = take_name(&c, "pattern");
    const char *m = take(&c, merges * 8, "merges");
    Name *names = xreallocarray(NULL, specials + 1, sizeof *names);
    for (size_t i = 0; i < specials; i++)
        names[i] = take_name(&c, "special tokens");
    size_t content = c.i;
    uint64_t hash = get_u64(take(&c, 8, "checksum"));
    if (c.i != c.n)
        die("%s: %zu bytes follow its end, byte %zu", path, c.n - c.i, c.i);
    if (hash != xxh3(b.s, content))
        die("%s: damaged: its checksum does not agree with its content", path);
    must_be(&c, unicode, SPLIT_UNICODE, "Unicode version");
    must_be(&c, pattern, split_pattern, "pattern");

    uint32_t (*pair)[2] = xreallocarray(NULL, merges + 1, sizeof *pair);
    for (size_t i = 0; i < merges; i++) {
        pair[i][0] = get_u32(m + 8 * i);
        pair[i][1] = get_u32(m + 8 * i + 4);
    }
    Tok *t = build(pair, merges, names, specials, path);
    t->hash = hash;
    free(names);
    buf_free(&b);
    return t;
}

/* ---- asking --------------------------------------------------------------- */

int tok_vocab(const Tok *t) { return t->vocab; }
uint64_t tok_hash(const Tok *t) { return t->hash; }
int tok_special(const Tok *t, int which) { return t->special[which]; }
bool tok_is_special(const Tok *t, int id) { return (size_t)id >= 256 + t->merges; }
const int32_t *tok_byte_lengths(const Tok *t) { return t->len; }
int tok_max_length(const Tok *t) { return t->max_len; }

const char *tok_bytes(const Tok *t, int id, size_t *len)
{
    *len = t->off[id + 1] - t->off[id];
    return t->bytes + t->off[id];
}

size_t tok_merges(const Tok *t, const uint32_t (**pair)[2])
{
    *pair = (const uint32_t (*)[2])t->pair;
    return t->merges;
}
