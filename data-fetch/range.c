/* range.c -- see range.h. */
#include "range.h"
#include <string.h>

enum { HUNDRED = 100 * 1000 * 1000 };           /* per cent, in 10^-6 */

/* digits, at most 2^63 */
static bool digits(const char **s, uint64_t *n)
{
    const char *p = *s;
    for (*n = 0; *p >= '0' && *p <= '9'; p++) {
        if (*n > (UINT64_MAX / 2 - 9) / 10) return false;
        *n = 10 * *n + (uint64_t)(*p - '0');
    }
    bool some = p > *s;
    *s = p;
    return some;
}

/* What follows the digits of a percentage: up to six decimals and the sign. */
static bool percent(const char *s, uint64_t whole, RangeEnd *e)
{
    uint64_t unit = 1000 * 1000;
    if (whole > 100) return false;
    e->percent = true;
    e->n = whole * unit;
    if (*s == '.') {
        for (s++; *s >= '0' && *s <= '9' && unit > 1; s++) {
            unit /= 10;
            e->n += unit * (uint64_t)(*s - '0');
        }
    }
    return strcmp(s, "%") == 0 && e->n <= HUNDRED;
}

static bool end_parse(const char *s, size_t len, uint64_t otherwise, RangeEnd *e)
{
    char text[40];
    *e = (RangeEnd){ false, otherwise };
    if (len == 0) return true;
    if (len >= sizeof text) return false;
    memcpy(text, s, len);
    text[len] = 0;
    const char *p = text;
    if (!digits(&p, &e->n)) return false;
    if (*p == '.' || *p == '%') return percent(p, e->n, e);
    if (*p == 0) return true;
    const char *k = strchr("KMG", *p);
    if (!k || p[1] != 0) return false;
    int shift = 10 * (int)(strlen("KMG") - strlen(k) + 1);
    if (e->n > UINT64_MAX / 2 >> shift) return false;
    e->n <<= shift;
    return true;
}

bool range_parse(const char *s, Range *r)
{
    const char *colon = strchr(s, ':');
    return colon && end_parse(s, (size_t)(colon - s), 0, &r->from) &&
           end_parse(colon + 1, strlen(colon + 1), UINT64_MAX, &r->to) &&
           (r->from.percent != r->to.percent || r->from.n <= r->to.n);
}

bool range_relative(const Range *r)
{
    return r->from.percent || r->to.percent;
}

static uint64_t resolve(const RangeEnd *e, uint64_t size)
{
    if (!e->percent) return e->n;
    return size / HUNDRED * e->n + size % HUNDRED * e->n / HUNDRED;
}

void range_resolve(const Range *r, uint64_t size, uint64_t *from, uint64_t *to)
{
    *from = resolve(&r->from, size);
    *to = resolve(&r->to, size);
}

size_t cut_find(Cut *c, uint64_t pos, const char *p, size_t n)
{
    if (c->at >= pos + n && !c->done) return n;
    size_t i = c->at > pos ? (size_t)(c->at - pos) : 0;
    if (c->done) return i;
    /* a continuation byte (10xxxxxx) starts no character; a character has at most three */
    while (c->moved < 3 && i < n && ((unsigned char)p[i] & 0xC0) == 0x80 && c->at > 0) {
        c->moved++;
        c->at++;
        i++;
    }
    c->done = i < n;
    return i;
}
