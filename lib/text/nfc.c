/* nfc.c -- see nfc.h.
 *
 * Text is cut before every character that starts anew: it has combining class 0, is unchanged in
 * NFC and never joins what stands before. A stretch of one such character is copied; a longer one
 * is decomposed, its marks are sorted by class, and neighbours are composed (Unicode 16, 3.11). */
#include "text/nfc.h"
#include "text/utf8.h"
#include <stdlib.h>

enum { S = 0xac00, L = 0x1100, V = 0x1161, T = 0x11a7,            /* Hangul: 3.12 */
       LN = 19, VN = 21, TN = 28, SN = LN * VN * TN };
enum { NEW = 1 << 8 };          /* beside a combining class: starts anew */

typedef struct Mark { uint32_t c; uint32_t class; size_t at; } Mark;

static uint32_t class_of(uint32_t c)
{
    int lo = 0, hi = nfc_loose_n;
    if (c < 0x300)
        return NEW;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (c > nfc_loose[mid][1])
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < nfc_loose_n && c >= nfc_loose[lo][0] ? nfc_loose[lo][2] : NEW;
}

static const uint32_t *pair_of(uint32_t c)
{
    int lo = 0, hi = NFC_PAIRS;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (nfc_pair[mid][0] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < NFC_PAIRS && nfc_pair[lo][0] == c ? nfc_pair[lo] : NULL;
}

static uint32_t join(uint32_t a, uint32_t b)            /* 0: they stay apart */
{
    if (a >= L && a < L + LN && b >= V && b < V + VN)
        return S + ((a - L) * VN + (b - V)) * TN;
    if (a >= S && a < S + SN && (a - S) % TN == 0 && b > T && b < T + TN)
        return a + (b - T);
    int lo = 0, hi = NFC_JOINS;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        const uint32_t *p = nfc_pair[nfc_join[mid]];
        if (p[1] == a && p[2] == b)
            return p[0];
        if (p[1] < a || (p[1] == a && p[2] < b))
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

/* ---- one stretch ---------------------------------------------------------- */

typedef struct Stretch { Mark *m; size_t n, cap; } Stretch;

static void add(Stretch *v, uint32_t c)
{
    if (v->n == v->cap) {
        v->cap = v->cap ? size_mul(v->cap, 2) : 64;
        v->m = xreallocarray(v->m, v->cap, sizeof *v->m);
    }
    v->m[v->n] = (Mark){ c, class_of(c) & 255, v->n };
    v->n++;
}

static void decompose(Stretch *v, uint32_t c)           /* decompositions nest four deep at most */
{
    if (c >= S && c < S + SN) {
        add(v, L + (c - S) / (VN * TN));
        add(v, V + (c - S) / TN % VN);
        if ((c - S) % TN)
            add(v, T + (c - S) % TN);
        return;
    }
    const uint32_t *p = pair_of(c);
    if (!p) {
        add(v, c);
        return;
    }
    decompose(v, p[1]);
    if (p[2])
        decompose(v, p[2]);
}

static int by_class(const void *x, const void *y)
{
    const Mark *a = x, *b = y;
    return a->class != b->class ? (a->class > b->class) - (a->class < b->class)
                                : (a->at > b->at) - (a->at < b->at);
}

static void sort_marks(Stretch *v)
{
    for (size_t i = 0, e; i < v->n; i = e) {
        e = i + 1;
        if (!v->m[i].class)
            continue;
        while (e < v->n && v->m[e].class)
            e++;
        if (e - i > 1)
            qsort(v->m + i, e - i, sizeof *v->m, by_class);
    }
}

static void compose(Stretch *v)
{
    size_t n = 0, start = SIZE_MAX;                     /* kept so far; the last of class 0 */
    for (size_t i = 0; i < v->n; i++) {
        Mark x = v->m[i];
        /* Blocked by what was kept between: it has no lower class (or class 0). */
        bool near = start != SIZE_MAX && (n - 1 == start || (v->m[n - 1].class < x.class));
        uint32_t c = near ? join(v->m[start].c, x.c) : 0;
        if (c) {
            v->m[start].c = c;
            continue;
        }
        if (!x.class)
            start = n;
        v->m[n++] = x;
    }
    v->n = n;
}

static void put(Buf *b, Stretch *v)
{
    sort_marks(v);
    compose(v);
    for (size_t i = 0; i < v->n; i++) {
        char c[4];
        buf_add(b, c, (size_t)utf8_put(c, v->m[i].c));
    }
    v->n = 0;
}

/* ---- a text --------------------------------------------------------------- */

/* How far s is certainly NFC: up to a character that starts anew. */
static size_t certain(const char *s, size_t n)
{
    size_t last = 0, i = 0;
    while (i < n) {
        if ((unsigned char)s[i] < 0xcc) {               /* below U+0300, whole characters */
            last = i;
            i += (unsigned char)s[i] < 0x80 ? 1 : 2;
            continue;
        }
        uint32_t c;
        int k = utf8_next(s + i, n - i, &c);
        if (class_of(c) != NEW)
            return last;
        last = i;
        i += (size_t)k;
    }
    return n;
}

const char *nfc(Buf *b, const char *s, size_t n, size_t *m)
{
    Stretch v = {0};
    size_t i = certain(s, n);
    *m = n;
    if (i == n)
        return s;
    buf_clear(b);
    while (i < n || b->n == 0) {
        size_t from = b->n ? i : 0, good = b->n ? certain(s + i, n - i) : i;
        buf_add(b, s + from, good);
        i = from + good;
        uint32_t c;
        for (bool first = true; i < n; first = false) {  /* one stretch */
            int k = utf8_next(s + i, n - i, &c);
            if (!first && class_of(c) == NEW)
                break;
            decompose(&v, c);
            i += (size_t)k;
        }
        put(b, &v);
        if (i == n)
            break;
    }
    free(v.m);
    *m = b->n;
    return b->s;
}
