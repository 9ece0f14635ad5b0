/* feed.c -- from files to batches: lines in blocks as they are, long texts in parts.
 *
 * A text may be cut where the pieces are the same whatever follows or went before: before a space
 * between an ASCII letter or digit and an ASCII letter, and after a line end when a visible ASCII
 * character follows (but not with GPT-2's pattern, which has white space at the end of a text in
 * other pieces). */
#include "encode.h"
#include <stdlib.h>
#include <string.h>

enum { HUGE = 8 };              /* blocks: lines past this are given out in parts */

const char no_chat[] = "has \"messages\" and no \"text\": conversations need --chat";

struct Feed {
    const Encode *e;
    char **files; int n, at;
    const char *name;
    bool file_begins;
    DocReader *docs;            /* of the file that is open */
    In *in;                     /* the same for plain text */
    Specials *special;          /* not to be cut; NULL if their names are ordinary */
    bool lines_safe;            /* may cut after line ends */
    /* a text in parts */
    const char *s; size_t len, pos;     /* the text, or what is known of it; what was given out */
    bool whole, begun;          /* no more of it comes; some part was given out */
    uint64_t before, line;      /* plain text: bytes of the file before s; else 0, and the line */
    uint64_t bad;
    DocBlock big; DocParser *parser;    /* lines: the block it stands in */
    bool in_big;
    Buf text;                   /* plain text: what was read and not given out */
};

Feed *feed_new(const Encode *e, char **files, int n)
{
    static char *from_stdin[] = { "-" };
    Feed *f = xcalloc(1, sizeof *f);
    f->e = e;
    f->files = n ? files : from_stdin;
    f->n = n ? n : 1;
    f->lines_safe = tok_split(e->tok) != SPLIT_GPT2;
    if (e->special != SPECIAL_ORDINARY) f->special = specials_new(e->tok);
    return f;
}

void feed_free(Feed *f)
{
    specials_free(f->special);
    docp_free(f->parser);
    buf_free(&f->big.b);
    buf_free(&f->text);
    free(f);
}

/* ---- cutting ----------------------------------------------------------------------- */

static bool letter(char c) { return (unsigned char)((c | 0x20) - 'a') < 26; }
static bool digit(char c) { return (unsigned char)(c - '0') < 10; }

/* 0 < i, and s[i - 1 .. i + 2) is there */
static bool safe(const Feed *f, const char *s, size_t i)
{
    if (s[i] == ' ') return (letter(s[i - 1]) || digit(s[i - 1])) && letter(s[i + 1]);
    return f->lines_safe && (s[i - 1] == '\n' || s[i - 1] == '\r') && s[i] > 0x20 && s[i] < 0x7f;
}

/* Does the name of a special token begin before s[i] and end after it? */
static bool inside_name(const Feed *f, const char *s, size_t n, size_t i)
{
    if (!f->special) return false;
    size_t longest = specials_longest(f->special), from = i < longest ? 0 : i - longest;
    size_t end = n - i < longest ? n : i + longest, len;
    for (int id; from < i; from++) {
        from = specials_find(f->special, s, end, from, &id, &len);
        if (from < i && from + len > i) return true;
    }
    return false;
}

/* Where to cut s[0..n): about at `want`, before it or else after; 0: nowhere. What comes after s[n)
 * is not known. */
static size_t cut(const Feed *f, const char *s, size_t n, size_t want)
{
    size_t margin = 2 + (f->special ? specials_longest(f->special) : 0);
    if (n <= margin) return 0;
    size_t last = n - margin, from = want < last ? want : last;
    for (size_t i = from; i > 0; i--)
        if (safe(f, s, i) && !inside_name(f, s, n, i)) return i;
    for (size_t i = from + 1; i <= last; i++)
        if (safe(f, s, i) && !inside_name(f, s, n, i)) return i;
    return 0;
}

/* s[pos .. pos + k) becomes a batch. */
static void give(Feed *f, Batch *b, size_t k, bool last)
{
    buf_clear(&b->in.b);
    buf_reserve(&b->in.b, size_add(k, DOC_PAD));
    memcpy(b->in.b.s, f->s + f->pos, k);
    memset(b->in.b.s + k, 0, DOC_PAD);
    b->in.b.n = k;
    b->part = true;
    b->first = !f->begun;
    b->last = last;
    b->in.line = 0;
    b->at = f->before + f->pos;
    b->line = f->line;
    b->bad = f->begun ? 0 : f->bad;
    f->begun = !last;
    f->pos += k;
}

/* ---- lines -------------------------------------------------------------------------- */

/* The next part of the texts in the big block; false if there are no more of them. */
static bool next_of_big(Feed *f, Batch *b)
{
    if (!f->s) {
        Doc d;
        int got = docp_next(f->parser, &f->big, &d, &b->err);
        if (got == 0) return f->in_big = false;
        if (got > 0 && !d.text)
            b->err = (DocError){ no_chat, d.line, 0 };
        if (b->err.why) {
            b->part = true;
            b->first = b->last = false;
            b->in.line = 0;
            buf_clear(&b->in.b);
            return true;
        }
        f->s = d.text, f->len = d.len, f->pos = 0, f->line = d.line, f->bad = d.bad;
        f->begun = false;
    }
    size_t left = f->len - f->pos, k = left;
    if (left > f->e->block) k = cut(f, f->s + f->pos, left, f->e->block);
    if (k == 0) k = left;
    bool last = k == left;
    give(f, b, k, last);
    if (last) f->s = NULL;
    return true;
}

static bool next_lines(Feed *f, Batch *b)
{
    for (;;) {
        if (f->in_big) {
            if (next_of_big(f, b)) return true;
            b->part = true;                 /* its lines count, and nothing else */
            b->first = b->last = false;
            buf_clear(&b->in.b);
            b->in.line = f->big.line;
            buf_free(&f->big.b);
            return true;
        }
        if (!docs_block(f->docs, &b->in, f->e->block)) return false;
        if (b->in.b.n / HUGE <= f->e->block || f->e->chats) return true;
        DocBlock swap = f->big;
        f->big = b->in;
        b->in = swap;
        if (!f->parser) f->parser = docp_new(f->e->invalid);
        f->in_big = true;
    }
}

/* ---- plain text ---------------------------------------------------------------------- */

static bool next_text(Feed *f, Batch *b)
{
    size_t want = f->e->block, k = 0;
    if (f->whole) return false;
    for (size_t more = want; ; more = f->text.n) {
        buf_reserve(&f->text, more);
        size_t got = in_read(f->in, f->text.s + f->text.n, more);
        f->text.n += got;
        f->whole = got < more;
        f->s = f->text.s;
        f->pos = 0;
        if (f->whole) k = f->text.n;
        else k = cut(f, f->s, f->text.n, f->text.n);
        if (k || f->whole) break;
    }
    if (k == 0 && !f->begun) return false;              /* an empty file is no document */
    give(f, b, k, f->whole);
    f->before += k;
    f->text.n -= k;
    memmove(f->text.s, f->text.s + k, f->text.n);
    return true;
}

/* ---- files ----------------------------------------------------------------------------- */

static void open_next(Feed *f)
{
    const char *path = f->files[f->at++];
    f->file_begins = true;
    f->before = f->line = 0;
    f->name = strcmp(path, "-") ? path : "stdin";       /* lives longer than in_name() */
    if (f->e->text) {
        f->in = in_open(path);
        f->whole = f->begun = false;
    } else {
        f->docs = docs_open(path);
    }
}

static void close_this(Feed *f)
{
    if (f->in) in_close(f->in);
    docs_close(f->docs);
    f->in = NULL;
    f->docs = NULL;
}

bool feed_next(Feed *f, Batch *b)
{
    b->part = false;
    b->bad = 0;
    b->err.why = NULL;
    for (;;) {
        if (!f->in && !f->docs) {
            if (f->at == f->n) return false;
            open_next(f);
        }
        if (f->in ? next_text(f, b) : next_lines(f, b)) break;
        close_this(f);
    }
    b->name = f->name;
    b->file_begins = f->file_begins;
    f->file_begins = false;
    return true;
}
