#include "data/tar.h"
#include "data/member.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, NAME_MOST = 64 << 10, PAX_MOST = 1 << 20 };

struct Tar {
    In *in;
    Buf name;                   /* of the file */
    char *full;                 /* ARCHIVE:FILE */
    uint64_t left, padding;     /* of its bytes; zeros after them */
    uint64_t others;
    /* of the headers before it that speak of it */
    Buf long_name, pax;
    bool has_size; uint64_t size;
};

static _Noreturn void bad(const Tar *t, const char *why)
{
    uint64_t at = in_offset(t->in);
    die("%s: byte %" PRIu64 ": %s", in_name(t->in), at < BLOCK ? 0 : at - BLOCK, why);
}

/* ---- numbers and sums */

/* Octal digits with spaces or NULs around them; or, after 0x80, a big-endian number of GNU. */
static bool number(const char *s, size_t n, uint64_t *x)
{
    size_t i = 0;
    *x = 0;
    if ((unsigned char)s[0] & 0x80) {
        if ((unsigned char)s[0] != 0x80) return false;          /* negative, or past 2^88 */
        for (i = 1; i < n; i++) {
            if (*x >> 55) return false;
            *x = *x << 8 | (unsigned char)s[i];
        }
        return true;
    }
    while (i < n && s[i] == ' ') i++;
    for (; i < n && s[i] >= '0' && s[i] <= '7'; i++) {
        if (*x >> 60) return false;
        *x = *x << 3 | (uint64_t)(s[i] - '0');
    }
    while (i < n && (s[i] == ' ' || s[i] == 0)) i++;
    return i == n;
}

/* The sum of the bytes, its own field taken as spaces; some old programs add them as signed. */
static bool sum_right(const char *h)
{
    uint64_t want;
    int64_t plain = 0, with_sign = 0;
    for (int i = 0; i < BLOCK; i++) {
        char x = i >= 148 && i < 156 ? ' ' : h[i];
        plain += (unsigned char)x;
        with_sign += (signed char)x;
    }
    return number(h + 148, 8, &want) && ((int64_t)want == plain || (int64_t)want == with_sign);
}

static bool all_zero(const char *h)
{
    for (int i = 0; i < BLOCK; i++)
        if (h[i]) return false;
    return true;
}

bool tar_magic(const char *s, size_t n)
{
    return n >= BLOCK && !all_zero(s) && sum_right(s);
}

/* ---- headers */

static void next_block(Tar *t, char *h)
{
    in_exact(t->in, h, BLOCK, "a tar archive, which has no end mark");
}

static void skip(Tar *t, uint64_t n)
{
    const char *p;
    while (n > 0) {
        size_t k = in_some(t->in, &p);
        if (!k) die("%s: ends inside a file of the archive, byte %" PRIu64, in_name(t->in), in_offset(t->in));
        if (k > n) k = (size_t)n;
        in_skip(t->in, k);
        n -= k;
    }
}

static uint64_t padding(uint64_t n) { return (BLOCK - n % BLOCK) % BLOCK; }

/* The contents of a header that speaks of the next one. */
static void read_into(Tar *t, Buf *b, uint64_t n, uint64_t most)
{
    if (n > most) bad(t, "a header that is too long");
    buf_clear(b);
    buf_reserve(b, (size_t)n);
    in_exact(t->in, b->s, (size_t)n, "a tar header");
    b->s[b->n = (size_t)n] = 0;
    skip(t, padding(n));
}

static uint64_t decimal(Tar *t, const char *s, size_t n)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || x > (INT64_MAX - 9) / 10) bad(t, "a pax size that is no number");
        x = 10 * x + (uint64_t)(s[i] - '0');
    }
    if (!n) bad(t, "a pax size that is no number");
    return x;
}

static bool is(const char *s, size_t n, const char *word) { return strlen(word) == n && !memcmp(s, word, n); }

static void pax_record(Tar *t, const char *key, size_t nkey, const char *val, size_t n)
{
    if (is(key, nkey, "size")) {
        t->has_size = true;
        t->size = decimal(t, val, n);
    } else if (is(key, nkey, "path")) {
        if (n > NAME_MOST) bad(t, "a name that is too long");
        buf_clear(&t->long_name);
        buf_add(&t->long_name, val, n);
    } else if (nkey >= 10 && !memcmp(key, "GNU.sparse", 10)) {
        bad(t, "a sparse file, which is not supported");
    }
}

/* Records "LENGTH KEY=VALUE\n", LENGTH of all of it, in decimal. */
static void read_pax(Tar *t)
{
    const char *s = t->pax.s, *end = s + t->pax.n;
    while (s < end) {
        size_t n = 0, d = 0;
        while (s + d < end && s[d] >= '0' && s[d] <= '9' && d < 8) n = 10 * n + (size_t)(s[d++] - '0');
        if (d == 0 || s + d == end || s[d] != ' ' || n > (size_t)(end - s) || n < d + 3 || s[n - 1] != '\n')
            bad(t, "a damaged pax header");
        const char *key = s + d + 1, *eq = memchr(key, '=', n - d - 2);
        if (!eq) bad(t, "a damaged pax header");
        pax_record(t, key, (size_t)(eq - key), eq + 1, (size_t)(s + n - 1 - (eq + 1)));
        s += n;
    }
}

static void set_name(Tar *t, const char *h)
{
    bool ustar = !memcmp(h + 257, "ustar\0", 6);
    buf_clear(&t->name);
    if (t->long_name.n) {
        buf_add(&t->name, t->long_name.s, t->long_name.n);
    } else {
        size_t prefix = ustar ? strnlen(h + 345, 155) : 0;
        buf_add(&t->name, h + 345, prefix);
        if (prefix) buf_char(&t->name, '/');
        buf_add(&t->name, h, strnlen(h, 100));
    }
    while (t->name.n > 2 && !memcmp(t->name.s, "./", 2))
        memmove(t->name.s, t->name.s + 2, (t->name.n -= 2) + 1);
    const char *why = member_bad(t->name.s, t->name.n);
    if (why) {
        char *more = xasprintf("%s: '%.200s'", why, t->name.s);
        bad(t, more);
    }
}

/* After the end mark: zeros, to the block size of tapes. */
static void read_rest(Tar *t)
{
    const char *p;
    for (size_t k; (k = in_some(t->in, &p)) > 0; in_skip(t->in, k))
        for (size_t i = 0; i < k; i++)
            if (p[i]) die("%s: byte %" PRIu64 ": something follows the end of the archive", in_name(t->in),
                          in_offset(t->in) + i);
}

/* The file of header h: is it a regular one? */
static bool regular(Tar *t, const char *h)
{
    char type = h[156];
    uint64_t size;
    if (!number(h + 124, 12, &size)) bad(t, "a size that is no number");
    if (t->has_size) size = t->size;
    set_name(t, h);
    buf_clear(&t->long_name);
    t->has_size = false;
    if (type == 'S' || type == 'M') bad(t, "a sparse or split file, which is not supported");
    bool folder = type == '5' || t->name.s[t->name.n - 1] == '/';
    bool file = !folder && (type == '0' || type == 0 || type == '7');
    t->others += !folder && !file;
    t->left = type >= '1' && type <= '6' ? 0 : size;            /* links, devices: no bytes follow */
    t->padding = padding(t->left);
    return file;
}

/* A header that says something of the next one, or of all: L long name, K long link, x and g pax. */
static bool extension(Tar *t, const char *h)
{
    char type = h[156];
    uint64_t n;
    if (!memchr("LKxg", type, 4)) return false;
    if (!number(h + 124, 12, &n)) bad(t, "a size that is no number");
    read_into(t, type == 'L' ? &t->long_name : &t->pax, n, type == 'L' ? NAME_MOST : PAX_MOST);
    if (type == 'L') t->long_name.n = strlen(t->long_name.s);
    if (type == 'x') read_pax(t);
    return true;
}

Tar *tar_open(In *in)
{
    Tar *t = xcalloc(1, sizeof *t);
    t->in = in;
    return t;
}

bool tar_next(Tar *t, TarFile *f)
{
    char h[BLOCK];
    for (;;) {
        skip(t, t->left);
        skip(t, t->padding);
        t->left = t->padding = 0;
        next_block(t, h);
        if (all_zero(h)) break;
        if (!sum_right(h)) bad(t, "not a tar header, or damaged: wrong sum");
        if (!extension(t, h) && regular(t, h)) {
            *f = (TarFile){ t->name.s, t->left };
            return true;
        }
    }
    read_rest(t);
    return false;
}

static size_t pull(void *arg, void *p, size_t n)
{
    Tar *t = arg;
    if (n > t->left) n = (size_t)t->left;
    in_exact(t->in, p, n, "a file of the archive");
    t->left -= n;
    return n;
}

In *tar_read(Tar *t)
{
    free(t->full);
    t->full = xasprintf("%s:%s", in_name(t->in), t->name.s);
    return in_from(t->full, pull, t);
}

uint64_t tar_others(const Tar *t) { return t->others; }

void tar_close(Tar *t)
{
    in_close(t->in);
    buf_free(&t->name), buf_free(&t->long_name), buf_free(&t->pax);
    free(t->full);
    free(t);
}
