/* pack.h against a plain list searched from end to end, and against its own promises. */
#include "tap.h"
#include "base/err.h"
#include "base/rng.h"
#include "text/pack.h"

typedef struct Doc { uint32_t *id; uint8_t *mask; size_t n; } Doc;

/* All rows made, one after another. */
typedef struct Rows { uint32_t *id; uint8_t *mask; size_t n, cap, len; bool masks; } Rows;

static void rows_add(Rows *r, const uint32_t *id, const uint8_t *mask)
{
    if (r->n + r->len > r->cap) {
        r->cap = 2 * r->cap + r->len;
        r->id = xreallocarray(r->id, r->cap, sizeof *r->id);
        r->mask = xrealloc(r->mask, r->cap);
    }
    memcpy(r->id + r->n, id, r->len * sizeof *id);
    if (mask) memcpy(r->mask + r->n, mask, r->len);
    else memset(r->mask + r->n, 0, r->len);
    r->n += r->len;
}

static void collect(void *arg, const uint32_t *id, const uint8_t *mask)
{
    rows_add(arg, id, mask);
}

/* The rule as pack.h states it, with a list from which documents are taken out. */
static void naive(const PackOpt *o, const Doc *doc, size_t ndocs, Rows *out)
{
    size_t len = (size_t)o->T + 1, n = 0, at = 0, next = 0;
    const Doc **list = xreallocarray(NULL, ndocs + 1, sizeof *list);
    uint32_t *id = xreallocarray(NULL, len, sizeof *id);
    uint8_t *mask = xcalloc(len, 1);
    out->len = len;
    for (;;) {
        for (; n < o->buffer && next < ndocs; next++) {
            bool drop = o->sft && o->drop_long && doc[next].n > len;
            if (doc[next].n > 0 && !drop) list[n++] = &doc[next];
        }
        if (n == 0) break;
        size_t left = len - at, best = n, longest = 0, shortest = 0;
        for (size_t i = 0; i < n; i++) {
            size_t k = o->sft && list[i]->n > len ? len : list[i]->n;
            if (k <= left && k > longest) {
                best = i;
                longest = k;
            }
            if (list[i]->n < list[shortest]->n) shortest = i;
        }
        if (best == n && o->sft) {
            for (; at < len; at++) id[at] = o->bos, mask[at] = 0;
        } else {
            size_t i = best < n ? best : shortest, k = list[i]->n < left ? list[i]->n : left;
            memcpy(id + at, list[i]->id, k * sizeof *id);
            if (o->masks) memcpy(mask + at, list[i]->mask, k);
            at += k;
            memmove(list + i, list + i + 1, (--n - i) * sizeof *list);
        }
        if (at == len) {
            rows_add(out, id, o->masks ? mask : NULL);
            at = 0;
        }
    }
    if (at > 0 && o->sft) {
        for (; at < len; at++) id[at] = o->bos, mask[at] = 0;
        rows_add(out, id, mask);
    }
    free(list); free(id); free(mask);
}

static Doc *docs_make(Rng *rng, size_t n, size_t max, bool equal)
{
    Doc *d = xcalloc(n + 1, sizeof *d);
    for (size_t i = 0; i < n; i++) {
        d[i].n = (size_t)rng_below(rng, max + 1);
        if (equal) d[i].n = d[i].n / (max / 3 + 1) * (max / 3 + 1) + 1;  /* three lengths */
        d[i].id = xreallocarray(NULL, d[i].n + 1, sizeof *d[i].id);
        d[i].mask = xmalloc(d[i].n + 1);
        for (size_t k = 0; k < d[i].n; k++) {
            d[i].id[k] = (uint32_t)(i * 10000 + k);
            d[i].mask[k] = rng_u64(rng) & 1;
        }
    }
    return d;
}

static void docs_drop(Doc *d, size_t n)
{
    for (size_t i = 0; i < n; i++) free(d[i].id), free(d[i].mask);
    free(d);
}

static uint64_t ones(const uint8_t *m, size_t n)
{
    uint64_t sum = 0;
    while (n-- > 0) sum += m[n];
    return sum;
}

static PackStat pack_all(const PackOpt *o, const Doc *d, size_t n, Rows *out)
{
    out->len = (size_t)o->T + 1;
    Pack *p = pack_new(o, collect, out);
    for (size_t i = 0; i < n; i++) {
        pack_add(p, d[i].id, o->masks ? d[i].mask : NULL, d[i].n);
        pack_run(p);
    }
    return pack_end(p);
}

/* Sums that must hold, recomputed from the documents and the rows alone. */
static int sums(const PackOpt *o, const PackStat *s, const Doc *d, size_t n, const Rows *r)
{
    uint64_t in = 0, mask_in = 0, padding = 0, idle = 0;
    for (size_t i = 0; i < n; i++) in += d[i].n, mask_in += ones(d[i].mask, d[i].n);
    for (size_t i = 0; i < r->n; i++) padding += r->id[i] == o->bos;
    for (size_t i = 0; i < r->n && o->masks; i += r->len)
        idle += ones(r->mask + i + 1, r->len - 1) == 0;
    return s->docs == n && s->in == in && s->rows == r->n / r->len && s->out == r->n - padding &&
           s->padding == padding && s->idle_rows == idle &&
           s->in == s->out + s->cropped + s->dropped &&
           (!o->masks || (s->mask_in == mask_in && s->mask_out == ones(r->mask, r->n)));
}

static int equal_rows(const Rows *a, const Rows *b)
{
    return a->n == b->n && (a->n == 0 || (!memcmp(a->id, b->id, a->n * sizeof *a->id) &&
                                          !memcmp(a->mask, b->mask, a->n)));
}

/* Many small cases of one kind; says how many were wrong. */
static void against_naive(bool sft, bool drop, const char *what)
{
    Rng rng;
    rng_init(&rng, 3, sft + 2 * drop);
    int wrong = 0, wrong_sums = 0, cases = 400;
    for (int c = 0; c < cases; c++) {
        PackOpt o = { .T = 1 + (uint32_t)rng_below(&rng, c % 4 ? 40 : 300), .bos = UINT32_MAX,
                      .sft = sft, .buffer = 1 + (uint32_t)rng_below(&rng, 30), .drop_long = drop,
                      .masks = sft || c % 2 };
        size_t n = (size_t)rng_below(&rng, 200);
        if (c % 50 == 0) o.T = 100000, n %= 20;
        size_t max = 1 + (size_t)rng_below(&rng, 2 * (uint64_t)o.T);
        Doc *d = docs_make(&rng, n, max, c % 3 == 0);
        Rows want = {0}, got = {0};
        naive(&o, d, n, &want);
        PackStat s = pack_all(&o, d, n, &got);
        wrong += !equal_rows(&want, &got);
        wrong_sums += !sums(&o, &s, d, n, &got);
        free(want.id); free(want.mask); free(got.id); free(got.mask);
        docs_drop(d, n);
    }
    ok(wrong == 0, "%s: %d of %d cases differ from the plain list", what, wrong, cases);
    ok(wrong_sums == 0, "%s: what came in is what went out, was cropped or was dropped", what);
}

/* Documents of the given lengths into rows of len tokens. */
static PackStat lengths(bool sft, bool drop, uint32_t len, const size_t *n, size_t docs, Rows *out)
{
    PackOpt o = { .T = len - 1, .bos = UINT32_MAX, .buffer = 1000, .sft = sft, .drop_long = drop,
                  .masks = sft };
    Doc *d = xcalloc(docs + 1, sizeof *d);
    for (size_t i = 0; i < docs; i++) {
        d[i].n = n[i];
        d[i].id = xcalloc(n[i] + 1, sizeof *d[i].id);
        d[i].mask = xcalloc(n[i] + 1, 1);
        for (size_t k = 0; k < n[i]; k++) {
            d[i].id[k] = (uint32_t)(1000 * i + k);
            d[i].mask[k] = k > 0;
        }
    }
    *out = (Rows){0};
    PackStat s = pack_all(&o, d, docs, out);
    docs_drop(d, docs);
    return s;
}

static void few_tokens(void)
{
    static const size_t n[] = { 0, 1, 16, 17, 18 };
    Rows r;
    PackStat s = lengths(false, false, 17, NULL, 0, &r);
    ok(s.rows == 0 && s.in == 0, "no document");
    for (int i = 0; i < 5; i++) {
        s = lengths(false, false, 17, &n[i], 1, &r);
        ok(s.rows == (n[i] >= 17) && s.cropped == (n[i] == 18) &&
           s.dropped == (n[i] < 17 ? n[i] : 0) && s.in == n[i], "%zu tokens and rows of 17", n[i]);
        free(r.id); free(r.mask);
    }
    static const size_t tails[] = { 10, 10, 10, 40 };
    s = lengths(false, false, 16, tails, 4, &r);
    /* 10 + 6 of a 10; 10 + 6 of the 40 */
    ok(s.rows == 2 && s.out == 32 && s.cropped == 4 + 34 && s.dropped == 0 && s.cut_docs == 2,
       "10, 10, 10, 40 into rows of 16: every token accounted for");
    ok(r.id[0] == 0 && r.id[10] == 1000 && r.id[16] == 2000 && r.id[26] == 3000,
       "10, 10, 10, 40: who stands where");
    free(r.id); free(r.mask);
}

static void long_conversations(void)
{
    static const size_t n[] = { 65, 100, 133, 171, 200, 250, 300, 333, 366, 400 };
    uint64_t in = 0;
    for (int i = 0; i < 10; i++) in += n[i];
    Rows r;
    PackStat s = lengths(true, false, 64, n, 10, &r);
    ok(s.rows == 10 && s.cut_docs == 10 && s.cropped == in - 640 && s.padding == 0 &&
       s.mask_out == 630,
       "ten conversations longer than a row are cut to it, each once");
    free(r.id); free(r.mask);
    s = lengths(true, true, 64, n, 10, &r);
    ok(s.rows == 0 && s.dropped_docs == 10 && s.dropped == in && s.mask_in == in - 10,
       "or all dropped: no row of padding");
    free(r.id); free(r.mask);
    static const size_t two[] = { 40, 30 };
    s = lengths(true, false, 64, two, 2, &r);
    ok(s.rows == 2 && s.padding == 58 && s.out == 70 && r.id[40] == UINT32_MAX && r.mask[40] == 0 &&
       r.mask[39] == 1 && r.id[64] == 1000,
       "what does not fit is padded, mask 0; the last row too");
    free(r.id); free(r.mask);
}

/* Every token of every document stands in the rows once, but for a last row that is not full, and
 * each stretch of a document follows a bos (its own first token is one here). */
static void kept_tails(void)
{
    enum { BOS = 4000000 };
    Rng rng;
    rng_init(&rng, 5, 0);
    int lost = 0, broken = 0, sum = 0, cases = 300;
    for (int c = 0; c < cases; c++) {
        PackOpt o = { .T = 1 + (uint32_t)rng_below(&rng, 50), .bos = BOS, .keep_tails = true,
                      .buffer = 1 + (uint32_t)rng_below(&rng, 20), .masks = c % 2 };
        size_t n = 1 + (size_t)rng_below(&rng, 60);
        Doc *d = docs_make(&rng, n, 1 + (size_t)rng_below(&rng, c % 3 ? 60 : 400), false);
        for (size_t i = 0; i < n; i++)
            if (d[i].n) d[i].id[0] = BOS, d[i].mask[0] = 0;
        Rows r = {0};
        PackStat s = pack_all(&o, d, n, &r);
        uint64_t ordinary = 0, found = 0, mask_found = 0;
        uint8_t *seen = xcalloc(60 * 10000, 1);
        for (size_t i = 0; i < n; i++) ordinary += d[i].n ? d[i].n - 1 : 0;
        for (size_t i = 0; i < r.n; i++) {
            uint32_t id = r.id[i];
            if (id == BOS) continue;
            found += !seen[id]++;
            if (o.masks) mask_found += r.mask[i] == d[id / 10000].mask[id % 10000];
            broken += i % r.len == 0 || (r.id[i - 1] != BOS && r.id[i - 1] != id - 1);
        }
        lost += ordinary - found > s.dropped || s.cropped != 0 || (o.masks && mask_found != found);
        sum += s.in + s.added != s.out + s.dropped || s.dropped > o.T;
        free(seen); free(r.id); free(r.mask);
        docs_drop(d, n);
    }
    ok(lost == 0, "kept tails: no token is lost or doubled, masks go with them");
    ok(broken == 0, "kept tails: each stretch follows a bos");
    ok(sum == 0, "kept tails: in + added = out + dropped, less than a row dropped");
}

static void count_rows(void *arg, const uint32_t *id, const uint8_t *mask)
{
    (void)id; (void)mask;
    ++*(uint64_t *)arg;
}

/* A list searched from end to end would take 10^10 steps here. */
static void large_buffer(void)
{
    static uint32_t id[5000];
    PackOpt o = { .T = 2048, .buffer = 100000 };
    Rng rng;
    uint64_t rows = 0;
    rng_init(&rng, 4, 0);
    Pack *p = pack_new(&o, count_rows, &rows);
    for (int i = 0; i < 200000; i++) {
        pack_add(p, id, NULL, 1 + (size_t)rng_below(&rng, i % 100 ? 300 : 4999));
        pack_run(p);
    }
    PackStat s = pack_end(p);
    ok(rows == s.rows && s.out == rows * 2049, "200,000 documents through a buffer of 100,000");
}

int main(void)
{
    against_naive(false, false, "pretraining");
    against_naive(true, false, "sft, long ones cut");
    against_naive(true, true, "sft, long ones dropped");
    few_tokens();
    long_conversations();
    kept_tails();
    large_buffer();
    return done();
}
