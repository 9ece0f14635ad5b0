/* count_file.c -- see count_file.h. */
#include "text/count_file.h"
#include "text/split.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

static const char magic[8] = "PGCNT\r\n\x1a";      /* CR LF: a text-mode copy breaks it */
enum { FORMAT = 1, CHUNK = 64 << 10 };

/* ---- writing ------------------------------------------------------------------ */

typedef struct Writer { Out *o; Buf b; XXH3_state_t *hash; } Writer;

static void flush(Writer *w)
{
    out_write(w->o, w->b.s, w->b.n);
    XXH3_64bits_update(w->hash, w->b.s, w->b.n);
    buf_clear(&w->b);
}

static void put_number(Buf *b, uint64_t x)
{
    for (; x >= 128; x >>= 7)
        buf_char(b, (char)(x | 128));
    buf_char(b, (char)x);
}

static XXH3_state_t *hash_new(void)
{
    XXH3_state_t *h = XXH3_createState();
    if (!h)
        die("out of memory");
    XXH3_64bits_reset(h);
    return h;
}

void counts_write(Out *o, const Pieces *v, const CountInfo *info)
{
    Writer w = { .o = o, .hash = hash_new() };
    buf_add(&w.b, magic, sizeof magic);
    buf_u32(&w.b, FORMAT);
    buf_u32(&w.b, (uint32_t)strlen(split_pattern));
    buf_str(&w.b, split_pattern);
    buf_u32(&w.b, (uint32_t)strlen(SPLIT_UNICODE));
    buf_str(&w.b, SPLIT_UNICODE);
    buf_u64(&w.b, info->docs);
    buf_u64(&w.b, info->chars);
    buf_u64(&w.b, info->bytes);
    buf_u64(&w.b, v->total);
    buf_u64(&w.b, v->n);
    for (size_t k = 0; k < v->n; k++) {
        put_number(&w.b, v->p[k].len);
        put_number(&w.b, (uint64_t)v->p[k].count);
        buf_add(&w.b, v->bytes.s + v->p[k].at, v->p[k].len);
        if (w.b.n >= CHUNK)
            flush(&w);
    }
    flush(&w);
    buf_u64(&w.b, XXH3_64bits_digest(w.hash));
    out_write(o, w.b.s, w.b.n);
    buf_free(&w.b);
    XXH3_freeState(w.hash);
}

/* ---- reading ------------------------------------------------------------------- */

typedef struct Reader { In *in; XXH3_state_t *hash; uint64_t k; } Reader;

static void get(Reader *r, void *p, size_t n)
{
    in_exact(r->in, p, n, "a table of counts");
    XXH3_64bits_update(r->hash, p, n);
}

static uint32_t get32(Reader *r)
{
    char b[4];
    get(r, b, 4);
    return get_u32(b);
}

static uint64_t get64(Reader *r)
{
    char b[8];
    get(r, b, 8);
    return get_u64(b);
}

_Noreturn static void bad(const Reader *r, const char *why)
{
    die("%s: byte %" PRIu64 ": piece %" PRIu64 ": %s", in_name(r->in), in_offset(r->in), r->k + 1,
        why);
}

/* At most 63 bits, in the shortest form. */
static uint64_t get_number(Reader *r)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        unsigned char c;
        get(r, &c, 1);
        x |= (uint64_t)(c & 127) << shift;
        if (c < 128) {
            if (!c && shift)
                break;
            return x;
        }
    }
    bad(r, "a number that is not well-formed");
}

/* n may be anything: memory grows with what is really there. */
static void get_bytes(Reader *r, Buf *b, uint64_t n)
{
    buf_clear(b);
    while (n) {
        size_t k = n < CHUNK ? (size_t)n : CHUNK;
        buf_reserve(b, k);
        get(r, b->s + b->n, k);
        b->n += k;
        n -= k;
    }
}

static void expect(Reader *r, const char *what, const char *ours, Buf *b)
{
    uint32_t n = get32(r);
    if (n != strlen(ours))
        die("%s: counted with another %s", in_name(r->in), what);
    get_bytes(r, b, n);
    if (memcmp(b->s, ours, n))
        die("%s: counted with another %s", in_name(r->in), what);
}

bool counts_begin(In *in)
{
    const char *p;
    return in_some(in, &p) >= sizeof magic && !memcmp(p, magic, sizeof magic);
}

void counts_read(In *in, Counter *c, CountInfo *info)
{
    Reader r = { .in = in, .hash = hash_new() };
    Buf b[2] = {0};             /* this piece and the one before */
    char head[8];
    get(&r, head, sizeof head);
    uint32_t version = get32(&r);
    if (version != FORMAT)
        die("%s: version %" PRIu32 " of tables of counts; this program knows %d", in_name(in),
            version, FORMAT);
    expect(&r, "pattern", split_pattern, &b[0]);
    expect(&r, "version of Unicode", SPLIT_UNICODE, &b[0]);
    buf_clear(&b[0]);
    uint64_t *const sum_of[] = { &info->docs, &info->chars, &info->bytes };
    for (int k = 0; k < 3; k++)
        if (__builtin_add_overflow(*sum_of[k], get64(&r), sum_of[k]) || *sum_of[k] > INT64_MAX)
            die("%s: byte %" PRIu64 ": more than 2^63 %s in all", in_name(in), in_offset(in),
                (const char *const[]){ "documents", "characters", "bytes" }[k]);
    uint64_t total = get64(&r), n = get64(&r), sum = 0;
    for (r.k = 0; r.k < n; r.k++) {
        Buf *now = &b[r.k & 1], *last = &b[~r.k & 1];
        uint64_t len = get_number(&r), count = get_number(&r);
        if (!len || len > UINT32_MAX)
            bad(&r, "a length of 0, or of 2^32 or more");
        if (!count || count > total - sum)
            bad(&r, "a count of 0, or more than there are in all");
        sum += count;
        get_bytes(&r, now, len);
        size_t m = now->n < last->n ? now->n : last->n;
        int order = m ? memcmp(last->s, now->s, m) : 0;
        if (order > 0 || (order == 0 && last->n >= now->n))
            bad(&r, "not in order");
        if (utf8_valid(now->s, now->n) != now->n || split_next(now->s, now->n, 0) != now->n)
            bad(&r, "not a piece of text");
        if (!counter_add(c, now->s, now->n, (int64_t)count))
            bad(&r, "the counts are too large: more than 2^62 bytes of text in all");
    }
    if (sum != total)
        die("%s: the counts are %" PRIu64 " in all, not %" PRIu64, in_name(in), sum, total);
    uint64_t want = XXH3_64bits_digest(r.hash);
    char trailer[8], more;
    in_exact(in, trailer, 8, "a table of counts");
    if (get_u64(trailer) != want)
        die("%s: the checksum is wrong", in_name(in));
    if (in_read(in, &more, 1))
        die("%s: byte %" PRIu64 ": bytes after the end", in_name(in), in_offset(in) - 1);
    XXH3_freeState(r.hash);
    buf_free(&b[0]);
    buf_free(&b[1]);
}
