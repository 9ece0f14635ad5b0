/* tokfile.c -- the .tok file, pipegpt-tok(5), and telling the three formats apart.
 *
 * What fits version 1 is written as version 1, so that a tokenizer has one file and one hash. */
#include "text/tok_int.h"
#include "base/io.h"
#include "text/split.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 29)
static const char magic[8] = "PGTOK\r\n\x1a";       /* CR LF: a text-mode copy breaks it */
enum { WHOLE = 1, BY_RANK = 2, NFC = 4, WORDS = 8 };          /* flags of version 2 */

/* ---- writing -------------------------------------------------------------- */

static void put_string(Buf *b, const char *s, size_t n)
{
    buf_u32(b, (uint32_t)n);
    buf_add(b, s, n);
}

static void print_specials(const Tok *t, Buf *b)
{
    for (int id = 0; id < t->vocab; id++) {
        if (!tok_is_special(t, id))
            continue;
        if (!t->version1)
            buf_u32(b, (uint32_t)id);
        put_string(b, t->bytes.s + t->span[id].at, t->span[id].n);
    }
}

void tokfile_print(const Tok *t, Buf *b)
{
    buf_add(b, magic, sizeof magic);
    buf_u32(b, t->version1 ? 1 : 2);
    buf_u32(b, (uint32_t)t->merges);
    buf_u32(b, (uint32_t)t->specials);
    if (!t->version1) {
        buf_u32(b, (uint32_t)t->ordinary);
        buf_u32(b, (uint32_t)(t->whole * WHOLE | t->by_rank * BY_RANK | t->nfc * NFC |
                              t->words * WORDS));
    }
    put_string(b, SPLIT_UNICODE, strlen(SPLIT_UNICODE));
    put_string(b, t->pattern, strlen(t->pattern));
    for (int id = 0; id < t->vocab && !t->version1; id++) {
        if (t->len[id]) {
            buf_u32(b, (uint32_t)id);
            put_string(b, t->bytes.s + t->span[id].at, t->span[id].n);
        }
    }
    for (size_t i = 0; i < t->merges; i++) {
        buf_u32(b, t->pair[i][0]);
        buf_u32(b, t->pair[i][1]);
    }
    print_specials(t, b);
}

void tok_print(const Tok *t, Buf *b)
{
    tokfile_print(t, b);
    buf_u64(b, t->hash);
}

void tok_write(const Tok *t, Out *o)
{
    Buf b = {0};
    tok_print(t, &b);
    out_write(o, b.s, b.n);
    buf_free(&b);
}

void tok_save(const Tok *t, const char *path)
{
    Out *o = out_open(path, OUT_BINARY);
    tok_write(t, o);
    out_close(o);
}

/* ---- version 1: merges only ----------------------------------------------- */

Tok *tok_of_pairs(const char *name, const char *m, size_t merges, size_t specials)
{
    Tok *t = tok_begin(name, 256 + merges + specials, 256 + merges + specials);
    tok_put_plain(t, m, merges);
    tok_put_pattern(t, split_pattern, strlen(split_pattern), false);
    return t;
}

/* ---- reading -------------------------------------------------------------- */

typedef struct Cursor { const char *s; size_t n, i; const char *name; } Cursor;
typedef struct Name { const char *s; size_t n; } Name;

static const char *take(Cursor *c, size_t n, const char *what)
{
    if (n > c->n - c->i)
        die("%s: ends inside its %s, byte %zu", c->name, what, c->n);
    c->i += n;
    return c->s + c->i - n;
}

static uint32_t take_u32(Cursor *c, const char *what)
{
    return get_u32(take(c, 4, what));
}

static Name take_name(Cursor *c, const char *what)
{
    size_t n = take_u32(c, what);
    return (Name){ take(c, n, what), n };
}

static bool same(Name a, const char *b)
{
    return a.n == strlen(b) && !memcmp(a.s, b, a.n);
}

static void check_end(Cursor *c, uint64_t hash, size_t content)
{
    if (c->i != c->n)
        die("%s: %zu bytes follow its end, byte %zu", c->name, c->n - c->i, c->i);
    if (hash != xxh3(c->s, content))
        die("%s: damaged: its checksum does not agree with its content", c->name);
}

static void check_unicode(const Cursor *c, Name unicode)
{
    if (!same(unicode, SPLIT_UNICODE))
        die("%s: its Unicode version is not the one this program has (%s)", c->name, SPLIT_UNICODE);
}

static Tok *parse1(Cursor *c)
{
    size_t merges = take_u32(c, "header"), specials = take_u32(c, "header");
    if (merges > TOK_MAX_MERGES || specials > 1024)
        die("%s: %zu merges and %zu special tokens: at most %d and %d are possible", c->name,
            merges, specials, TOK_MAX_MERGES, 1024);
    Name unicode = take_name(c, "Unicode version"), pattern = take_name(c, "pattern");
    const char *m = take(c, merges * 8, "merges");
    size_t at = c->i;
    for (size_t i = 0; i < specials; i++)
        take_name(c, "special tokens");
    size_t content = c->i;
    uint64_t hash = get_u64(take(c, 8, "checksum"));
    check_end(c, hash, content);
    check_unicode(c, unicode);
    if (!same(pattern, split_pattern))
        die("%s: its pattern is not the one of version 1 files (%s)", c->name, split_pattern);
    Tok *t = tok_of_pairs(c->name, m, merges, specials);
    c->i = at;
    for (size_t i = 0; i < specials; i++) {
        Name special = take_name(c, "special tokens");
        tok_put_special(t, 256 + merges + i, special.s, special.n);
    }
    t->hash = hash;             /* there is one way only to write it */
    return tok_end(t);
}

/* A list of ids with their bytes: n of them, ids rising. Returns the last id + 1, 0 for none. */
static uint64_t skip_list(Cursor *c, size_t n, const char *what)
{
    uint64_t next = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = take_u32(c, what);
        if (id < next)
            die("%s: its %s are not in the order of ids, byte %zu", c->name, what, c->i - 4);
        next = (uint64_t)id + 1;
        take_name(c, what);
    }
    return next;
}

typedef void (*Put)(Tok *t, uint64_t id, const char *s, size_t n);

static void put_list(Cursor *c, Tok *t, size_t n, Put put)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t id = take_u32(c, "tokens");
        Name s = take_name(c, "tokens");
        put(t, id, s.s, s.n);
    }
}

static Tok *parse2(Cursor *c)
{
    size_t merges = take_u32(c, "header"), specials = take_u32(c, "header"),
           tokens = take_u32(c, "header");
    uint32_t flags = take_u32(c, "header");
    if (flags & ~(uint32_t)(WHOLE | BY_RANK | NFC | WORDS))
        die("%s: has flags %#" PRIx32 ", not all of which are known", c->name, flags);
    Name unicode = take_name(c, "Unicode version"), pattern = take_name(c, "pattern");
    size_t at_tokens = c->i;
    uint64_t end = skip_list(c, tokens, "tokens"), end2;
    const char *m = take(c, size_mul(merges, 8), "merges");
    size_t at_specials = c->i;
    end2 = skip_list(c, specials, "special tokens");
    size_t content = c->i;
    check_end(c, get_u64(take(c, 8, "checksum")), content);
    check_unicode(c, unicode);
    if (flags & BY_RANK && (merges || !(flags & WHOLE)))
        die("%s: says that merges go by rank, and has %zu of its own", c->name, merges);
    Tok *t = tok_begin(c->name, tokens + specials, end > end2 ? end : end2);
    t->whole = flags & WHOLE, t->nfc = flags & NFC, t->words = flags & WORDS;
    tok_put_pattern(t, pattern.s, pattern.n, false);
    c->i = at_tokens;
    put_list(c, t, tokens, tok_put);
    c->i = at_specials;
    put_list(c, t, specials, tok_put_special);
    for (size_t i = 0; i < merges; i++)
        tok_put_merge(t, get_u32(m + 8 * i), get_u32(m + 8 * i + 4));
    if (flags & BY_RANK)
        tok_merge_by_rank(t);
    return tok_end(t);
}

Tok *tokfile_parse(const char *name, const char *s, size_t n)
{
    Cursor c = { s, n, sizeof magic, name };
    uint32_t version = take_u32(&c, "header");
    if (version != 1 && version != 2)
        die("%s: tokenizer file version %" PRIu32 "; this program reads 1 and 2", name, version);
    return version == 1 ? parse1(&c) : parse2(&c);
}

Tok *tok_parse(const char *name, const char *s, size_t n, int kind)
{
    bool own = n >= sizeof magic && !memcmp(s, magic, sizeof magic);
    size_t i = 0;
    while (i < n && (s[i] == ' ' || s[i] == '\t' || s[i] == '\n' || s[i] == '\r'))
        i++;
    bool json = i < n && s[i] == '{';
    if ((own || json) && kind >= 0)
        die("%s: names its pattern itself; --pattern is for ranks", name);
    if (own)
        return tokfile_parse(name, s, n);
    if (json)
        return hf_parse(name, s, n);
    if (!tiktoken_like(s, n))
        die("%s: not a tokenizer file", name);
    if (kind < 0)
        die("%s: ranks name no pattern to split text by: convert it with tok-encode --convert and"
            " --pattern NAME, one of %s", name, split_kind_names());
    return tiktoken_parse(name, s, n, (SplitKind)kind);
}

Tok *tok_load_as(const char *path, int kind)
{
    Buf b = {0};
    read_file(path, &b, MAX_FILE);
    Tok *t = tok_parse(path, b.n ? b.s : "", b.n, kind);
    buf_free(&b);
    return t;
}

Tok *tok_load(const char *path)
{
    return tok_load_as(path, -1);
}
