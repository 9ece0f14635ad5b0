/* One pass, no recursion: a stack of open containers, 64 at most. Strings and number texts are
 * copied into one pool of n + 1 bytes: each is shorter than its source text, or as long for the
 * last number, so all of them with their NULs fit. */
#include "base/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, FEW = 16 };

typedef struct Parser {
    Arena *a;
    const char *p, *end;
    const char *err, *err_at;
    char *pool;
    Json *spare; size_t nspare, batch;  /* nodes come in batches: an arena rounds up to 64 bytes */
    Json *open[DEPTH], *last[DEPTH];        /* containers that are open, their newest child */
    int depth;
    const char *key; size_t key_len;        /* of the member that comes next */
} Parser;

static bool fail(Parser *j, const char *at, const char *err)
{
    if (!j->err) { j->err = err; j->err_at = at; }
    return false;
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* One character at p < end. Returns its length, or minus the length of the maximal ill-formed
 * subpart (Unicode 16, table 3-7 and the practice for replacing with U+FFFD). */
static int utf8_step(const unsigned char *p, const unsigned char *end)
{
    unsigned char c = *p, lo = 0x80, hi = 0xbf;
    int n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (n < 2) return n ? 1 : -1;
    if (c == 0xe0) lo = 0xa0;
    if (c == 0xed) hi = 0x9f;
    if (c == 0xf0) lo = 0x90;
    if (c == 0xf4) hi = 0x8f;
    for (int i = 1; i < n; i++, lo = 0x80, hi = 0xbf)
        if (p + i >= end || p[i] < lo || p[i] > hi) return -i;
    return n;
}

static char *utf8_put(char *o, uint32_t c)
{
    if (c < 0x80) { *o++ = (char)c; return o; }
    if (c < 0x800) *o++ = (char)(0xc0 | c >> 6);
    else {
        if (c < 0x10000) *o++ = (char)(0xe0 | c >> 12);
        else {
            *o++ = (char)(0xf0 | c >> 18);
            *o++ = (char)(0x80 | (c >> 12 & 63));
        }
        *o++ = (char)(0x80 | (c >> 6 & 63));
    }
    *o++ = (char)(0x80 | (c & 63));
    return o;
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* How many of the 8 bytes of x, from its lowest on, come before one that is '"', '\\', a control
 * character or not ASCII. */
static int plain_bytes(uint64_t x)
{
    const uint64_t one = 0x0101010101010101u, top = one << 7, q = x ^ one * '"', b = x ^ one * '\\';
    uint64_t m = (x | ((x - one * 32) & ~x) | ((q - one) & ~q) | ((b - one) & ~b)) & top;
    return m ? __builtin_ctzll(m) / 8 : 8;      /* a borrow disturbs higher bytes only */
}

/* The same, but what is not ASCII counts as plain. */
static int fine_bytes(uint64_t x)
{
    const uint64_t one = 0x0101010101010101u, top = one << 7, q = x ^ one * '"', b = x ^ one * '\\';
    uint64_t m = (((x - one * 32) & ~x) | ((q - one) & ~q) | ((b - one) & ~b)) & top;
    return m ? __builtin_ctzll(m) / 8 : 8;
}

/* First byte from p on that is '"', '\\', a control character or not ASCII; eight at a time. */
static const char *plain(const char *p, const char *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        if (plain_bytes(x) < 8) break;
    }
    for (; p < end; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\' || c < 32 || c >= 128) break;
    }
    return p;
}

int json_hex4(const char *p, const char *end)
{
    int x = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) return -1;
        x = x << 4 | d;
    }
    return x;
}

static char *escape(Parser *j, char *o)                 /* p is past the backslash; NULL if bad */
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = j->p - 1, *f = j->p < j->end && *j->p ? strchr(from, *j->p) : NULL;
    if (f) { j->p++; *o++ = to[f - from]; return o; }
    int c = j->p < j->end && *j->p == 'u' ? json_hex4(j->p + 1, j->end) : -1;
    if (c < 0) { fail(j, at, "bad escape in a string"); return NULL; }
    j->p += 5;
    if (c >= 0xd800 && c < 0xdc00 && j->end - j->p >= 6 && j->p[0] == '\\' && j->p[1] == 'u') {
        int d = json_hex4(j->p + 2, j->end);
        if (d >= 0xdc00 && d < 0xe000) {
            j->p += 6;
            return utf8_put(o, 0x10000u + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)(d - 0xdc00));
        }
    }
    return utf8_put(o, c >= 0xd800 && c < 0xe000 ? 0xfffd : (uint32_t)c);
}

static bool string(Parser *j, const char **s, size_t *len)      /* p is at the opening quote */
{
    char *o = j->pool;
    const char *quote = j->p++;
    *s = o;
    for (;;) {
        const char *run = j->p;
        int k = 1;
        while ((j->p = plain(j->p, j->end)) < j->end && (unsigned char)*j->p >= 128) {
            k = utf8_step((const unsigned char *)j->p, (const unsigned char *)j->end);
            if (k < 0) break;
            j->p += k;
        }
        memcpy(o, run, (size_t)(j->p - run));
        o += j->p - run;
        if (j->p == j->end) return fail(j, quote, "string without its closing quote");
        if (k < 0) return fail(j, j->p, "malformed UTF-8 in a string");
        if (*j->p == '"') break;
        if (*j->p++ != '\\') return fail(j, j->p - 1, "control character in a string");
        if (!(o = escape(j, o))) return false;
    }
    j->p++;
    *len = (size_t)(o - j->pool);
    *o++ = 0;
    j->pool = o;
    return true;
}

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p;
}

static bool number(Parser *j, Json *v)
{
    const char *p = j->p, *q, *end = j->end;
    if (p < end && *p == '-') p++;
    q = digits(p, end);
    if (q == p || (*p == '0' && q > p + 1)) return fail(j, j->p, "not a JSON number");
    if (q < end && *q == '.') {
        p = q + 1;
        if ((q = digits(p, end)) == p) return fail(j, j->p, "not a JSON number");
    }
    if (q < end && (*q == 'e' || *q == 'E')) {
        p = q + 1;
        if (p < end && (*p == '+' || *p == '-')) p++;
        if ((q = digits(p, end)) == p) return fail(j, j->p, "not a JSON number");
    }
    v->kind = J_NUM;
    v->s = j->pool;
    v->len = (size_t)(q - j->p);
    memcpy(j->pool, j->p, v->len);
    j->pool[v->len] = 0;
    j->pool += v->len + 1;
    v->num = strtod(v->s, NULL);
    j->p = q;
    return true;
}

static bool word(Parser *j, Json *v)
{
    static const struct { const char *text; size_t n; JsonKind kind; bool b; } words[] = {
        { "null", 4, J_NULL, false }, { "true", 4, J_BOOL, true }, { "false", 5, J_BOOL, false }
    };
    for (int i = 0; i < 3; i++) {
        if ((size_t)(j->end - j->p) < words[i].n) continue;
        if (memcmp(j->p, words[i].text, words[i].n)) continue;
        v->kind = words[i].kind;
        v->b = words[i].b;
        j->p += words[i].n;
        return true;
    }
    return fail(j, j->p, "a value was expected");
}

/* ---- containers ------------------------------------------------------------------------------ */

static int by_key(const void *x, const void *y)
{
    const Json *a = *(Json *const *)x, *b = *(Json *const *)y;
    if (a->key_len != b->key_len) return a->key_len < b->key_len ? -1 : 1;
    int c = memcmp(a->key, b->key, a->key_len);
    return c ? c : (a->src > b->src) - (a->src < b->src);
}

static bool same_key(const Json *a, const Json *b)
{
    return a->key_len == b->key_len && !memcmp(a->key, b->key, a->key_len);
}

/* Is no key there twice? Sorted when there are many, so that no input is quadratic. */
static bool unique_keys(Parser *j, const Json *obj)
{
    const Json *bad = NULL;
    if (obj->n <= FEW) {
        for (const Json *m = obj->child; m; m = m->next)
            for (const Json *k = obj->child; k != m && !bad; k = k->next)
                if (same_key(k, m)) bad = m;
    } else {
        const Json **all = xreallocarray(NULL, (size_t)obj->n, sizeof *all);
        size_t n = 0;
        for (const Json *m = obj->child; m; m = m->next) all[n++] = m;
        qsort(all, n, sizeof *all, by_key);
        for (size_t i = 1; i < n; i++)
            if (same_key(all[i - 1], all[i]) && (!bad || all[i]->src < bad->src)) bad = all[i];
        free(all);
    }
    return bad ? fail(j, bad->src, "an object has this key twice") : true;
}

static void blanks(Parser *j)
{
    const char *p = j->p;
    while (p < j->end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
    j->p = p;
}

static Json *node(Parser *j)
{
    if (j->nspare == 0) {
        j->batch = j->batch == 0 ? 8 : j->batch < 512 ? 2 * j->batch : j->batch;
        j->spare = arena_alloc(j->a, j->batch * sizeof(Json));
        j->nspare = j->batch;
    }
    j->nspare--;
    return j->spare++;
}

static bool member_key(Parser *j)
{
    blanks(j);
    if (j->p == j->end || *j->p != '"') return fail(j, j->p, "a key in quotes was expected");
    if (!string(j, &j->key, &j->key_len)) return false;
    blanks(j);
    if (j->p == j->end || *j->p != ':') return fail(j, j->p, "':' was expected after a key");
    j->p++;
    return true;
}

/* One value; a container is only opened. Returns NULL on an error. */
static Json *value(Parser *j)
{
    blanks(j);
    Json *v = node(j);
    v->src = j->p;
    if (j->depth) {
        int d = j->depth - 1;
        Json *up = j->open[d];
        if (up->kind == J_OBJ) { v->key = j->key; v->key_len = j->key_len; }
        if (j->last[d]) j->last[d]->next = v; else up->child = v;
        j->last[d] = v;
        if (up->n == INT32_MAX) { fail(j, j->p, "too many values in an array"); return NULL; }
        up->n++;
    }
    if (j->p == j->end) { fail(j, j->p, "ends where a value was expected"); return NULL; }
    char c = *j->p;
    if (c == '[' || c == '{') {
        if (j->depth == DEPTH) { fail(j, j->p, "nested deeper than 64"); return NULL; }
        v->kind = c == '[' ? J_ARR : J_OBJ;
        j->p++;
        j->open[j->depth] = v;
        j->last[j->depth++] = NULL;
        return v;
    }
    bool good;
    if (c == '"') { v->kind = J_STR; good = string(j, &v->s, &v->len); }
    else if (c == '-' || (c >= '0' && c <= '9')) good = number(j, v);
    else good = word(j, v);
    v->src_len = (size_t)(j->p - v->src);
    return good ? v : NULL;
}

/* Inside a container: after an opening bracket or a value. Closes what closes; true if a value is
 * to be read next (its key is read), false if all is closed or wrong. */
static bool between(Parser *j)
{
    static const char *const inside[] = { "ends inside an array", "ends inside an object" };
    static const char *const comma[] = { "',' or ']' was expected", "',' or '}' was expected" };
    while (j->depth) {
        Json *up = j->open[j->depth - 1];
        bool obj = up->kind == J_OBJ;
        blanks(j);
        if (j->p == j->end) return fail(j, j->p, inside[obj]);
        if (*j->p == (obj ? '}' : ']')) {
            j->p++;
            up->src_len = (size_t)(j->p - up->src);
            j->depth--;
            if (obj && !unique_keys(j, up)) return false;
            continue;
        }
        if (up->n) {
            if (*j->p != ',') return fail(j, j->p, comma[obj]);
            j->p++;
        }
        return obj ? member_key(j) : true;
    }
    return false;
}

Json *json_parse(Arena *a, const char *s, size_t n, const char **err, size_t *at)
{
    Parser j = { .a = a, .p = s, .end = n ? s + n : s };
    j.pool = arena_alloc(a, size_add(n, 1));
    Json *root = value(&j);
    while (!j.err && between(&j)) value(&j);
    blanks(&j);
    if (!j.err && j.p < j.end) fail(&j, j.p, "something follows the value");
    if (!j.err) return root;
    if (err) *err = j.err;
    if (at) *at = (size_t)(j.err_at - s);
    return NULL;
}

/* ---- reading the tree ------------------------------------------------------------------------ */

const Json *json_get(const Json *obj, const char *key)
{
    size_t n = strlen(key);
    if (!obj || obj->kind != J_OBJ) return NULL;
    for (const Json *m = obj->child; m; m = m->next)
        if (m->key_len == n && !memcmp(m->key, key, n)) return m;
    return NULL;
}

bool json_int(const Json *j, int64_t *x)
{
    if (!j || j->kind != J_NUM) return false;
    bool neg = j->s[0] == '-';
    const char *p = j->s + neg;
    uint64_t u = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(u, 10u, &u)) return false;
        if (__builtin_add_overflow(u, (uint64_t)(*p - '0'), &u)) return false;
    }
    if (*p) {                               /* 1.0, 2e3: exact as far as doubles are */
        if (!(fabs(j->num) <= 9007199254740992.0) || j->num != floor(j->num)) return false;
        *x = (int64_t)j->num;
        return true;
    }
    if (u > (uint64_t)INT64_MAX + neg) return false;
    *x = neg ? (int64_t)(0 - u) : (int64_t)u;
    return true;
}

bool json_is_str(const Json *j, const char *s)
{
    size_t n = strlen(s);
    return j && j->kind == J_STR && j->len == n && !memcmp(j->s, s, n);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* c < 128 escaped, or as it is; past what was written. */
static char *put_ascii(char *o, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *f = c && (c < 32 || c == '"' || c == '\\') ? strchr(from, c) : NULL;
    if (f) {
        *o++ = '\\';
        *o++ = to[f - from];
    } else if (c < 32) {
        memcpy(o, "\\u00", 4);
        o[4] = (char)('0' + (c >> 4));
        o[5] = "0123456789abcdef"[c & 15];
        o += 6;
    } else {
        *o++ = (char)c;
    }
    return o;
}

/* One character of *p, or what is not one, to o, which has room for 6 bytes; past what was
 * written. */
static char *put_char(char *o, const char **p, const char *end)
{
    if ((unsigned char)**p < 128) return put_ascii(o, (unsigned char)*(*p)++);
    int k = utf8_step((const unsigned char *)*p, (const unsigned char *)end);
    if (k < 0) {
        memcpy(o, "\xef\xbf\xbd", 3);
        *p -= k;
        return o + 3;
    }
    memcpy(o, *p, (size_t)k);
    *p += k;
    return o + k;
}

static inline void quote(Buf *b, const char *s, size_t n, bool valid)
{
    enum { ROOM = 16 };                         /* for one round: 8 bytes and a character */
    const char *p = s, *end = n ? s + n : s;
    char *o = NULL, *last = NULL;
    buf_char(b, '"');
    while (p < end) {
        if (o >= last) {
            if (o) b->n = (size_t)(o - b->s);
            buf_reserve(b, size_add((size_t)(end - p), 2 * ROOM));
            o = b->s + b->n;
            last = b->s + b->cap - ROOM;
        }
        if (end - p >= 8) {
            uint64_t x;
            memcpy(&x, p, 8);
            memcpy(o, p, 8);
            int k = valid ? fine_bytes(x) : plain_bytes(x);
            p += k, o += k;
            if (k == 8) continue;
        }
        if (valid && (unsigned char)*p >= 128) *o++ = *p++;
        else o = put_char(o, &p, end);
    }
    if (o) b->n = (size_t)(o - b->s);
    buf_char(b, '"');
}

void json_str(Buf *b, const char *s, size_t n) { quote(b, s, n, false); }
void json_str_valid(Buf *b, const char *s, size_t n) { quote(b, s, n, true); }

void json_num(Buf *b, double x)
{
    char t[40];
    if (!isfinite(x)) { buf_str(b, "null"); return; }
    if (x == floor(x) && fabs(x) <= 9007199254740992.0) { buf_printf(b, "%.0f", x); return; }
    for (int digit = 15; digit <= 17; digit++) {
        snprintf(t, sizeof t, "%.*g", digit, x);
        if (strtod(t, NULL) == x) break;
    }
    buf_str(b, t);
}
