/* jsonl.c -- see jsonl.h.
 *
 * Strings are copied to the output while they are searched, 32 or 64 bytes at a time, for the bytes
 * that need a look: quote, backslash, control characters, not ASCII. Strings that are not the text go
 * there too and are taken back. Nothing here says what is wrong: on anything unusual it gives
 * up. */
#include "text/jsonl.h"
#include "text/jsonl_int.h"
#include "base/cpu.h"
#include "base/json.h"
#include "text/utf8.h"
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { DEPTH = 64, FEW = 16, KEYS = 256 };

typedef struct Key { const char *s; size_t n; } Key;

typedef struct Scan {
    const char *p, *end;
    char *o;                            /* where the next string goes */
    Key key[KEYS]; int keys;            /* of the objects that are open */
    int base[DEPTH], depth;             /* their first keys; -1: an array */
    const char *text; size_t len;       /* NULL until it comes */
} Scan;

/* ---- strings ---------------------------------------------------------------- */

Copied jsonl_copy_base(char *o, const char *p, const char *end)
{
    const uint64_t one = 0x0101010101010101u, top = one << 7;
    for (; p < end; p += 8, o += 8) {
        uint64_t x, q, b;
        memcpy(&x, p, 8);
        memcpy(o, &x, 8);
        q = x ^ one * '"';
        b = x ^ one * '\\';
        if ((x | ((x - one * 32) & ~x) | ((q - one) & ~q) | ((b - one) & ~b)) & top) break;
    }
    for (; p < end; p++) {              /* fewer than 8, or the borrow of a byte below was wrong */
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\' || c < 32 || c >= 128) break;
        *o++ = *p;
    }
    return (Copied){ o, p };
}

#ifdef __x86_64__
__attribute__((target("avx2")))
Copied jsonl_copy_avx2(char *o, const char *p, const char *end)
{
    const __m256i quote = _mm256_set1_epi8('"'), back = _mm256_set1_epi8('\\'),
                  low = _mm256_set1_epi8(32);
    for (; p < end; p += 32, o += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)p);
        _mm256_storeu_si256((__m256i *)o, x);
        __m256i bad = _mm256_or_si256(_mm256_cmpgt_epi8(low, x),    /* signed: not ASCII as well */
                      _mm256_or_si256(_mm256_cmpeq_epi8(x, quote), _mm256_cmpeq_epi8(x, back)));
        uint32_t m = (uint32_t)_mm256_movemask_epi8(bad);
        if (m) return (Copied){ o + __builtin_ctz(m), p + __builtin_ctz(m) };
    }
    return (Copied){ o, p };
}
#endif

JsonlCopy *jsonl_copy = jsonl_copy_base;

bool jsonl_copy_runs(JsonlCopy *copy)
{
#ifdef __x86_64__
    if (copy == jsonl_copy_avx2) return cpu_allows("avx2");
    if (copy == jsonl_copy_avx512) return cpu_allows_vbmi2();
#endif
    return copy == jsonl_copy_base;
}

__attribute__((constructor))            /* before there are threads */
static void copy_pick(void)
{
#ifdef __x86_64__
    if (jsonl_copy_runs(jsonl_copy_avx2)) jsonl_copy = jsonl_copy_avx2;
    if (jsonl_copy_runs(jsonl_copy_avx512)) jsonl_copy = jsonl_copy_avx512;
#endif
}

/* p is past "\u". A pair of surrogates joins, each lone half is U+FFFD. */
static bool escape_u(Scan *j)
{
    int c = json_hex4(j->p, j->end), d;
    if (c < 0) return false;
    j->p += 4;
    uint32_t cp = (uint32_t)c;
    if (c >= 0xd800 && c < 0xe000) {
        cp = 0xfffd;
        if (c < 0xdc00 && j->end - j->p >= 6 && j->p[0] == '\\' && j->p[1] == 'u' &&
            (d = json_hex4(j->p + 2, j->end)) >= 0xdc00 && d < 0xe000) {
            cp = 0x10000u + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(d - 0xdc00);
            j->p += 6;
        }
    }
    j->o += utf8_put(j->o, cp);
    return true;
}

static bool escape(Scan *j)             /* p is past the backslash */
{
    static const char to[128] = { ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b',
                                  ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t' };
    if (j->p >= j->end) return false;
    unsigned char c = (unsigned char)*j->p++;
    if (c == 'u') return escape_u(j);
    if (c > 127 || !to[c]) return false;
    *j->o++ = to[c];
    return true;
}

/* Length of the character at p, whose first four bytes are x (the first one lowest); 0: neither a
 * well-formed one of two bytes nor one of three. */
static inline size_t short_char(uint32_t x)
{
    if ((x & 0xc0c0f0) == 0x8080e0) {
        uint32_t cp = (x & 0xf) << 12 | (x >> 8 & 0x3f) << 6 | (x >> 16 & 0x3f);
        return cp >= 0x800 && cp - 0xd800 >= 0x800 ? 3 : 0;
    }
    return (x & 0xc0e0) == 0x80c0 && (x & 0xff) >= 0xc2 ? 2 : 0;
}

/* The characters from p on that are not ASCII; false if they are malformed. */
static bool wide(Scan *j)
{
    const char *p = j->p;
    char *o = j->o;
    do {
        uint32_t cp, x;
        memcpy(&x, p, 4);               /* readable: JSONL_PAD */
        memcpy(o, &x, 4);
        size_t k = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? short_char(x) : 0;
        if (!k) {
            int len = utf8_next(p, (size_t)(j->end - p), &cp);
            if (len < 0) return false;
            k = (size_t)len;
        }
        p += k, o += k;
    } while (p < j->end && (unsigned char)*p >= 128);
    if (p > j->end) return false;       /* it ran into the padding */
    j->p = p, j->o = o;
    return true;
}

/* p is at the opening quote. What has escapes becomes shorter. */
static bool string(Scan *j)
{
    j->p++;
    for (;;) {
        Copied to = jsonl_copy(j->o, j->p, j->end);
        j->o = to.o, j->p = to.p;
        if (j->p >= j->end) return false;
        unsigned char c = (unsigned char)*j->p;
        if (c == '"') break;
        if (c >= 128) {
            if (!wide(j)) return false;
        } else if (c == '\\') {
            j->p++;
            if (!escape(j)) return false;
        } else {
            return false;               /* a control character */
        }
    }
    j->p++;
    return true;
}

/* ---- the other values --------------------------------------------------------- */

static bool digits(Scan *j)
{
    const char *p = j->p;
    while (j->p < j->end && *j->p >= '0' && *j->p <= '9') j->p++;
    return j->p > p;
}

static bool here(Scan *j, char c)
{
    if (j->p == j->end || *j->p != c) return false;
    j->p++;
    return true;
}

static bool number(Scan *j)
{
    here(j, '-');
    const char *p = j->p;
    if (!digits(j) || (*p == '0' && j->p > p + 1)) return false;
    if (here(j, '.') && !digits(j)) return false;
    if (here(j, 'e') || here(j, 'E')) {
        if (!here(j, '+')) here(j, '-');
        if (!digits(j)) return false;
    }
    return true;
}

static bool word(Scan *j, const char *s, size_t n)
{
    if ((size_t)(j->end - j->p) < n || memcmp(j->p, s, n)) return false;
    j->p += n;
    return true;
}

static void blanks(Scan *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r'))
        j->p++;
}

static bool open(Scan *j, bool object)
{
    if (j->depth == DEPTH) return false;
    j->base[j->depth++] = object ? j->keys : -1;
    j->p++;
    return true;
}

static bool value(Scan *j)
{
    blanks(j);
    if (j->p == j->end) return false;
    char *o = j->o;
    switch (*j->p) {
    case '{': return open(j, true);
    case '[': return open(j, false);
    case '"':
        if (!string(j)) return false;
        j->o = o;
        return true;
    case 'n': return word(j, "null", 4);
    case 't': return word(j, "true", 4);
    case 'f': return word(j, "false", 5);
    default:  return number(j);
    }
}

static bool is(const Key *k, const char *s)
{
    size_t n = strlen(s);
    return k->n == n && !memcmp(k->s, s, n);
}

/* A key and its colon; false also if the object has that key already, or many. */
static bool member(Scan *j)
{
    int first = j->base[j->depth - 1];
    blanks(j);
    if (j->p == j->end || *j->p != '"') return false;
    Key k = { j->p + 1, 0 };
    char *o = j->o;
    if (!string(j)) return false;
    k.n = (size_t)(j->o - o);
    if (k.n != (size_t)(j->p - 1 - k.s)) return false;          /* it has an escape */
    j->o = o;
    if (j->keys == KEYS || j->keys - first == FEW) return false;
    for (int i = first; i < j->keys; i++)
        if (j->key[i].n == k.n && !memcmp(j->key[i].s, k.s, k.n)) return false;
    j->key[j->keys++] = k;
    blanks(j);
    return here(j, ':');
}

/* The value of the member just read, at the top: the text is kept. */
static bool top_value(Scan *j)
{
    const Key *k = &j->key[j->keys - 1];
    if (is(k, "messages")) return false;
    if (!is(k, "text")) return value(j);
    blanks(j);
    if (j->p == j->end || *j->p != '"') return false;
    j->text = j->o;
    if (!string(j)) return false;
    j->len = (size_t)(j->o - j->text);
    return true;
}

/* After an opening bracket (fresh) or a value: closes what closes, and goes on to the next
 * value. */
static bool next(Scan *j, bool fresh)
{
    while (j->depth) {
        bool object = j->base[j->depth - 1] >= 0;
        blanks(j);
        if (here(j, object ? '}' : ']')) {
            if (object) j->keys = j->base[j->depth - 1];
            j->depth--;
            fresh = false;
            continue;
        }
        if (!fresh && !here(j, ',')) return false;
        return !object || member(j);
    }
    return true;
}

bool jsonl_text(Buf *out, const char *s, size_t n)
{
    if (n >= INT32_MAX) return false;
    buf_clear(out);
    buf_reserve(out, n + JSONL_PAD);    /* a text is never longer than its row */
    Scan j;
    j.p = s, j.end = s + n, j.o = out->s, j.keys = j.depth = 0, j.text = NULL;
    blanks(&j);
    if (j.p == j.end || *j.p != '{' || !open(&j, true)) return false;
    for (bool fresh = true; ; ) {
        if (!next(&j, fresh)) return false;
        if (!j.depth) break;
        int depth = j.depth;
        if (!(depth == 1 ? top_value : value)(&j)) return false;
        fresh = j.depth > depth;
    }
    blanks(&j);
    if (j.p < j.end || !j.text) return false;
    out->n = j.len;                     /* it is at out->s: strings before it were taken back */
    memset(out->s + j.len, 0, JSONL_PAD);
    return true;
}
