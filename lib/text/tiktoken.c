/* tiktoken.c -- rank files: a line "BASE64 RANK" per token, the rank being its id. Empty lines and
 * CR LF are read, as tiktoken reads them.
 *
 * Neighbours merge when their bytes together are a token's, lowest rank first. If merging by the
 * lower ranks leaves exactly two parts of every token, these two are its merge, and no other two
 * can ever come to stand there: up to the token's turn, the bytes of a place where it can arise
 * merge as they would alone. Such a file is as good as a list of merges. In others there are
 * tokens that their own bytes do not lead to: then merges come from every split of every token. */
#include "text/convert.h"
#include "text/tok_int.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Rank { uint64_t rank; size_t at; uint32_t n; } Rank;

static int by_rank(const void *a, const void *b)
{
    const Rank *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int value64(char c)
{
    const char *p = c ? strchr(digits64, c) : NULL;
    return p ? (int)(p - digits64) : -1;
}

/* Appends what s[0..n) stands for; false unless it is base64 in its one canonical form. */
static bool decode64(Buf *b, const char *s, size_t n)
{
    if (n == 0 || n % 4)
        return false;
    size_t pad = s[n - 1] != '=' ? 0 : s[n - 2] != '=' ? 1 : 2;
    for (size_t i = 0; i < n; i += 4) {
        int last = i + 4 == n ? 4 - (int)pad : 4;       /* digits in this group */
        uint32_t x = 0;
        for (int k = 0; k < 4; k++) {
            int v = k < last ? value64(s[i + (size_t)k]) : 0;
            if (v < 0)
                return false;
            x = x << 6 | (uint32_t)v;
        }
        char c[3] = { (char)(x >> 16), (char)(x >> 8), (char)x };
        if ((last < 4 && c[2]) || (last < 3 && c[1]))
            return false;                               /* bits that belong to no byte */
        buf_add(b, c, (size_t)last - 1);
    }
    return true;
}

static void encode64(Buf *b, const unsigned char *s, size_t n)
{
    for (size_t i = 0; i < n; i += 3) {
        size_t k = n - i < 3 ? n - i : 3;
        uint32_t x = (uint32_t)s[i] << 16 | (k > 1 ? (uint32_t)s[i + 1] << 8 : 0) |
                     (k > 2 ? s[i + 2] : 0u);
        for (size_t j = 0; j < 4; j++)
            buf_char(b, j > k ? '=' : digits64[x >> (18 - 6 * j) & 63]);
    }
}

/* The parts of a line s[0..n): base64 up to *gap, then one space and the rank. */
static bool parts(const char *s, size_t n, size_t *gap, uint64_t *rank)
{
    size_t i = 0;
    while (i < n && (value64(s[i]) >= 0 || s[i] == '='))
        i++;
    *gap = i;
    if (i == 0 || i + 1 >= n || s[i] != ' ' || n - i > 11 || (s[i + 1] == '0' && n - i > 2))
        return false;
    *rank = 0;
    for (i++; i < n && s[i] >= '0' && s[i] <= '9'; i++)
        *rank = 10 * *rank + (uint64_t)(s[i] - '0');
    return i == n && *rank <= INT32_MAX;
}

/* What stands in the line at s, without its end; *whole: with it. */
static size_t line_length(const char *s, size_t n, size_t *whole)
{
    const char *end = n ? memchr(s, '\n', n) : NULL;
    size_t len = end ? (size_t)(end - s) : n;
    *whole = end ? len + 1 : n;
    return len && s[len - 1] == '\r' ? len - 1 : len;
}

bool tiktoken_like(const char *s, size_t n)
{
    size_t gap, len, whole;
    uint64_t rank;
    while (n && !(len = line_length(s, n, &whole))) s += whole, n -= whole;
    return n && parts(s, len, &gap, &rank);
}

/* Puts merges if every token has one, in the order of ranks; else merges by rank. */
static void find_merges(Tok *t, const Rank *r, size_t n)
{
    PieceRoom room = {0};
    Ids v = {0};
    for (size_t i = 0; i < n && !t->by_rank; i++) {
        if (r[i].n < 2)
            continue;
        v.n = 0;
        tok_merge_piece(t, &room, t->bytes.s + t->span[r[i].rank].at, r[i].n, &v);
        if (v.n == 2)
            tok_put_merge(t, v.id[0], v.id[1]);
        else
            tok_merge_by_rank(t);
    }
    t->whole = true;
    piece_free(&room), ids_free(&v);
}

Tok *tiktoken_parse(const char *name, const char *s, size_t n, SplitKind kind)
{
    Buf bytes = {0};
    Rank *r = NULL;
    size_t count = 0, cap = 0, line = 1;
    for (size_t i = 0, whole, gap; i < n; i += whole, line++) {
        Rank x = { .at = bytes.n };
        size_t len = line_length(s + i, n - i, &whole);
        if (!len) continue;
        if (!parts(s + i, len, &gap, &x.rank) || !decode64(&bytes, s + i, gap))
            die("%s: line %zu: not a token in base64, a space, and its rank", name, line);
        if (bytes.n - x.at > TOK_MAX_LEN)
            die("%s: line %zu: a token of %zu bytes; at most %d are possible", name, line,
                bytes.n - x.at, TOK_MAX_LEN);
        x.n = (uint32_t)(bytes.n - x.at);
        if (count == cap) {
            cap = cap ? size_mul(cap, 2) : 1024;
            r = xreallocarray(r, cap, sizeof *r);
        }
        r[count++] = x;
    }
    if (!count)
        die("%s: has no tokens", name);
    qsort(r, count, sizeof *r, by_rank);
    Tok *t = tok_begin(name, count, r[count - 1].rank + 1);
    const char *pattern = split_kind_pattern(kind);
    tok_put_pattern(t, pattern, strlen(pattern), false);
    for (size_t i = 0; i < count; i++)
        tok_put(t, r[i].rank, bytes.s + r[i].at, r[i].n);
    for (int b = 0; b < 256; b++)
        if (t->byte_id[b] < 0)
            die("%s: has no token for the byte %02x", name, (unsigned)b);
    find_merges(t, r, count);
    free(r), buf_free(&bytes);
    return tok_end(t);
}

/* Ranks say nothing about how to merge, so what is written must merge the same when read. */
static void check_same(const Tok *t, const char *name, const Buf *b)
{
    Tok *u = tiktoken_parse(name, b->s, b->n, t->kind);
    if (u->by_rank != t->by_rank || u->merges != t->merges || u->whole != t->whole ||
        (t->merges && memcmp(u->pair, t->pair, t->merges * sizeof *t->pair)))
        die("%s: cannot be ranks: its merges are not those that ranks would give", name);
    tok_free(u);
}

void tiktoken_print(const Tok *t, const char *name, Buf *b)
{
    size_t from = b->n;
    if (t->words) die("%s: a tokenizer of words: ranks are of byte pairs", name);
    for (int id = 0; id < t->vocab; id++) {
        if (!t->len[id])
            continue;
        encode64(b, (const unsigned char *)t->bytes.s + t->span[id].at, t->span[id].n);
        buf_printf(b, " %d\n", id);
    }
    Buf written = { b->s + from, b->n - from, 0 };
    check_same(t, name, &written);
}
