/* text.c -- see text.h. */
#include "text.h"
#include <string.h>

static void emit(Text *t, const char *s, size_t n)
{
    if (n == 0) t->empty++;
    else if (!t->doc(t->arg, s, n)) t->stop = true;
}

/* n bytes that end before an LF, less the CR that may belong to it. */
static size_t without_cr(const char *s, size_t n)
{
    return n > 0 && s[n - 1] == '\r' ? n - 1 : n;
}

/* One function per kind: find what is complete in s[0..n), which begins a document, give it out and
 * return how many bytes are done with. t->seen and t->line are kept for what remains. */

static size_t take_line(Text *t, const char *s, size_t n)
{
    size_t at = 0;
    const char *lf;
    while (!t->stop && (lf = memchr(s + at + t->seen, '\n', n - at - t->seen)) != NULL) {
        size_t end = (size_t)(lf - s);
        emit(t, s + at, without_cr(s + at, end - at));
        at = end + 1;
        t->seen = 0;
    }
    t->seen = n - at;
    return at;
}

static size_t take_sep(Text *t, const char *s, size_t n)
{
    size_t at = 0;
    const char *p;
    while (!t->stop &&
           (p = memmem(s + at + t->seen, n - at - t->seen, t->sep, t->sep_len)) != NULL) {
        emit(t, s + at, (size_t)(p - s) - at);
        at = (size_t)(p - s) + t->sep_len;
        t->seen = 0;
    }
    size_t left = n - at, tail = t->sep_len - 1;        /* a separator may have begun in the tail */
    if (left > tail && left - tail > t->seen) t->seen = left - tail;
    return at;
}

/* s[0..end) are lines, each with its end: the paragraph they make goes without the last one. */
static size_t paragraph(const char *s, size_t end)
{
    return end > 0 && s[end - 1] == '\n' ? without_cr(s, end - 1) : end;
}

static size_t take_blank(Text *t, const char *s, size_t n)
{
    size_t at = 0;              /* where the paragraph begins; t->line counts from there */
    const char *lf;
    while (!t->stop && (lf = memchr(s + at + t->seen, '\n', n - at - t->seen)) != NULL) {
        size_t line = at + t->line, end = (size_t)(lf - s);
        bool is_empty = without_cr(s + line, end - line) == 0;
        if (is_empty && t->line > 0) emit(t, s + at, paragraph(s + at, t->line));
        if (is_empty) at = end + 1;
        t->line = t->seen = end + 1 - at;
    }
    t->seen = n - at;
    return at;
}

bool text_feed(Text *t, const char *s, size_t n)
{
    if (t->stop) return false;
    buf_add(&t->buf, s, n);
    size_t done = 0;
    switch (t->kind) {
    case SPLIT_BLANK: done = take_blank(t, t->buf.s, t->buf.n); break;
    case SPLIT_LINE: done = take_line(t, t->buf.s, t->buf.n); break;
    case SPLIT_SEP: done = take_sep(t, t->buf.s, t->buf.n); break;
    case SPLIT_NONE: break;
    }
    if (done > 0) memmove(t->buf.s, t->buf.s + done, t->buf.n -= done);
    return !t->stop;
}

void text_end(Text *t)
{
    size_t n = t->kind == SPLIT_BLANK && t->buf.n > 0 ? paragraph(t->buf.s, t->buf.n) : t->buf.n;
    if (n > 0 && !t->stop) emit(t, t->buf.s, n);
    buf_clear(&t->buf);
    t->seen = t->line = 0;
}

void text_free(Text *t)
{
    buf_free(&t->buf);
}
