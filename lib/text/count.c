/* count.c -- see count.h.
 *
 * Each thread has a front: a small table in its L2 cache that takes the frequent pieces, nine in
 * ten of all. What it puts out goes in batches to the parts of the common table. Fronts and batches
 * hold counts that the table lacks: they are flushed at the end. */
#include "text/count.h"
#include "base/io.h"
#include "text/count_table.h"
#include "text/split.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 4096, WAYS = 3, LONGS = 2048, LONG_BYTES = 128 << 10, ENDS = 1024, SLACK = 16 };

typedef struct Set {                    /* one cache line */
    _Alignas(64) uint64_t k[WAYS][2];
    uint32_t n[WAYS];                   /* 0: empty */
} Set;

typedef struct Long { uint64_t hash; int64_t count; uint32_t at, len; } Long;   /* count 0: empty */

typedef struct Front {
    Table *table;
    Set *set;                           /* [SETS] */
    Entry (*batch)[BATCH]; uint8_t nbatch[PARTS];
    Long *slow; size_t nslow;           /* [LONGS] pieces of more than KEY_MAX bytes */
    Buf bytes;                          /* theirs */
    uint32_t ends[ENDS];
    SplitKind split;
} Front;

typedef struct Block {
    Buf text;                           /* texts one after another, SLACK readable bytes behind */
    size_t *end, n, cap;                /* where each ends */
    struct Block *next;
} Block;

struct Counter {
    Table table;
    size_t mem, block;
    int64_t given;                      /* bytes of counter_add()'s pieces, times counts */
    Front *front; int threads;          /* [threads], the first is the feeder's */
    pthread_t *id;                      /* [threads - 1] */
    Block *now;                         /* being filled */
    pthread_mutex_t lock;
    pthread_cond_t filled;
    Block *full, **full_end, *empty;    /* queues, under the lock */
    int nfull;
    bool closing;
};

/* ---- the front ------------------------------------------------------------------ */

static void front_init(Front *f, Table *t)
{
    f->table = t;
    f->set = aligned_alloc(64, SETS * sizeof *f->set);
    if (!f->set)
        die("out of memory");
    memset(f->set, 0, SETS * sizeof *f->set);
    f->batch = xcalloc(PARTS, sizeof *f->batch);
    f->slow = xcalloc(LONGS, sizeof *f->slow);
    buf_reserve(&f->bytes, LONG_BYTES);
}

static void put_out(Front *f, uint64_t k0, uint64_t k1, int64_t count)
{
    unsigned p = key_part(key_hash(k0, k1));
    f->batch[p][f->nbatch[p]++] = (Entry){ k0, k1, count };
    if (f->nbatch[p] == BATCH) {
        table_add(f->table, p, f->batch[p], BATCH);
        f->nbatch[p] = 0;
    }
}

static inline void add_short(Front *f, uint64_t k0, uint64_t k1)
{
    Set *s = &f->set[key_hash(k0, k1) % SETS];
    unsigned w = (unsigned)((s->k[1][0] == k0) & (s->k[1][1] == k1)) |
                 (unsigned)((s->k[2][0] == k0) & (s->k[2][1] == k1)) << 1;
    if (__builtin_expect(s->k[w][0] == k0 && s->k[w][1] == k1 && s->n[w] < UINT32_MAX, 1)) {
        s->n[w]++;
        return;
    }
    if (s->k[w][0] != k0 || s->k[w][1] != k1) {
        w = s->n[1] < s->n[0];
        w = s->n[2] < s->n[w] ? 2 : w;
    }
    if (s->n[w])
        put_out(f, s->k[w][0], s->k[w][1], s->n[w]);
    s->k[w][0] = k0, s->k[w][1] = k1, s->n[w] = 1;
}

static void flush_long(Front *f)
{
    for (size_t i = 0; i < LONGS; i++) {
        Long *x = &f->slow[i];
        if (x->count)
            table_add_long(f->table, x->hash, f->bytes.s + x->at, x->len, x->count);
        x->count = 0;
    }
    f->nslow = 0;
    buf_clear(&f->bytes);
}

static void add_long(Front *f, const char *s, size_t n, int64_t count)
{
    uint64_t hash = xxh3(s, n);
    if (n > LONG_BYTES / 16) {
        table_add_long(f->table, hash, s, n, count);
        return;
    }
    size_t i = hash % LONGS;
    Long *x;
    for (; (x = &f->slow[i])->count; i = (i + 1) % LONGS)
        if (x->hash == hash && x->len == n && !memcmp(f->bytes.s + x->at, s, n)) {
            x->count += count;
            return;
        }
    *x = (Long){ hash, count, (uint32_t)f->bytes.n, (uint32_t)n };
    buf_add(&f->bytes, s, n);
    if (++f->nslow == LONGS / 4 * 3 || f->bytes.n > LONG_BYTES - LONG_BYTES / 16)
        flush_long(f);
}

static void flush(Front *f)
{
    for (size_t i = 0; i < SETS; i++)
        for (int w = 0; w < WAYS; w++)
            if (f->set[i].n[w]) {
                put_out(f, f->set[i].k[w][0], f->set[i].k[w][1], f->set[i].n[w]);
                f->set[i].n[w] = 0;
            }
    for (unsigned p = 0; p < PARTS; p++) {
        table_add(f->table, p, f->batch[p], f->nbatch[p]);
        f->nbatch[p] = 0;
    }
    flush_long(f);
}

static void front_free(Front *f)
{
    free(f->set), free(f->batch), free(f->slow);
    buf_free(&f->bytes);
}

/* ---- pieces of a text ------------------------------------------------------------ */

/* Masks of the bytes that belong to a key of n bytes, and its length where it goes. */
#define F(k) (~(uint64_t)0 >> (64 - 8 * (k)))
#define N(k) ((uint64_t)(k) << 56)
static const uint64_t keep[16][3] = {
    { 0, 0, 0 },            { F(1), 0, N(1) },      { F(2), 0, N(2) },      { F(3), 0, N(3) },
    { F(4), 0, N(4) },      { F(5), 0, N(5) },      { F(6), 0, N(6) },      { F(7), 0, N(7) },
    { F(8), 0, N(8) },      { F(8), F(1), N(9) },   { F(8), F(2), N(10) },  { F(8), F(3), N(11) },
    { F(8), F(4), N(12) },  { F(8), F(5), N(13) },  { F(8), F(6), N(14) },  { F(8), F(7), N(15) },
};
#undef F
#undef N

/* SLACK bytes can be read behind s[0..n). */
static inline void add_piece(Front *f, const char *s, size_t n)
{
    if (__builtin_expect(n <= KEY_MAX, 1))
        add_short(f, get_u64(s) & keep[n][0], (get_u64(s + 8) & keep[n][1]) | keep[n][2]);
    else
        add_long(f, s, n, 1);
}

static void count_otherwise(Front *f, const char *s, size_t n)
{
    for (size_t i = 0, end; i < n; i = end) {
        end = split_kind_next(f->split, s, n, i);
        if (end - i > UINT32_MAX)
            die("a stretch of %zu bytes without a place to split it: less than 2^32 are possible",
                end - i);
        add_piece(f, s + i, end - i);
    }
}

static void count_text(Front *f, const char *s, size_t n)
{
    if (f->split != SPLIT_NANOCHAT) {
        count_otherwise(f, s, n);
        return;
    }
    for (size_t i = 0; i < n; ) {
        size_t k = split_ends(s, n, i, f->ends, ENDS), from = 0;
        if (!k)
            die("a stretch of %zu bytes without a place to split it: less than 2^32 are possible",
                split_next(s, n, i) - i);
        for (size_t j = 0; j < k; j++) {
            add_piece(f, s + i + from, f->ends[j] - from);
            from = f->ends[j];
        }
        i += from;
    }
}

static void count_block(Front *f, const Block *b)
{
    for (size_t k = 0, at = 0; k < b->n; at = b->end[k++])
        count_text(f, b->text.s + at, b->end[k] - at);
}

/* ---- blocks and threads ------------------------------------------------------------ */

static void *work(void *arg)
{
    Front *f = arg;
    Counter *c = (Counter *)((char *)f->table - offsetof(Counter, table));
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->full && !c->closing)
            pthread_cond_wait(&c->filled, &c->lock);
        Block *b = c->full;
        if (!b)
            break;
        if (!(c->full = b->next))
            c->full_end = &c->full;
        c->nfull--;
        pthread_mutex_unlock(&c->lock);
        count_block(f, b);
        pthread_mutex_lock(&c->lock);
        b->next = c->empty;
        c->empty = b;
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

Counter *counter_new(const CountOptions *o)
{
    Counter *c = aligned_alloc(64, (sizeof *c + 63) / 64 * 64);
    if (!c)
        die("out of memory");
    memset(c, 0, sizeof *c);
    size_t each = (size_t)o->threads * (3 << 20) + (12 << 20);
    /* Half of what is left: what trains on the pieces takes more than counting them. */
    size_t table = (o->mem > 2 * each ? o->mem - each : o->mem / 2) / 2;
    table_init(&c->table, o->table ? o->table : table, o->tmpdir);
    c->mem = o->mem;
    c->block = o->block ? o->block : 1 << 17;
    c->threads = o->threads;
    c->full_end = &c->full;
    c->front = xcalloc((size_t)c->threads, sizeof *c->front);
    c->id = xcalloc((size_t)c->threads, sizeof *c->id);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->filled, NULL);
    for (int k = 0; k < c->threads; k++)
        front_init(&c->front[k], &c->table), c->front[k].split = o->split;
    for (int k = 1; k < c->threads; k++)
        if (pthread_create(&c->id[k - 1], NULL, work, &c->front[k]))
            die("cannot start %d threads", c->threads);
    return c;
}

static void block_reset(Block *b)
{
    b->n = 0;
    buf_clear(&b->text);
}

/* Hand over the block that is being filled; count it here if the others have enough to do. */
static void submit(Counter *c)
{
    Block *b = c->now;
    pthread_mutex_lock(&c->lock);
    if (c->nfull < 2 * (c->threads - 1)) {
        b->next = NULL;
        *c->full_end = b;
        c->full_end = &b->next;
        c->nfull++;
        c->now = c->empty;
        if (c->now)
            c->empty = c->now->next;
        pthread_cond_signal(&c->filled);
        b = NULL;
    }
    pthread_mutex_unlock(&c->lock);
    if (b)
        count_block(&c->front[0], b);
    if (c->now)
        block_reset(c->now);
}

void counter_text(Counter *c, const char *s, size_t n)
{
    if (!n)
        return;
    if (!c->now)
        c->now = xcalloc(1, sizeof *c->now);
    Block *b = c->now;
    if (b->text.cap > 8 * c->block && b->text.cap > 8 * n)      /* after a long text */
        buf_free(&b->text);
    buf_reserve(&b->text, size_add(n, SLACK));
    buf_add(&b->text, s, n);
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 256;
        b->end = xreallocarray(b->end, b->cap, sizeof *b->end);
    }
    b->end[b->n++] = b->text.n;
    if (b->text.n >= c->block)
        submit(c);
}

bool counter_add(Counter *c, const char *s, size_t n, int64_t count)
{
    int64_t bytes;
    if (__builtin_mul_overflow(count, n, &bytes) ||
        __builtin_add_overflow(c->given, bytes, &bytes) || bytes > (int64_t)1 << 62)
        return false;
    c->given = bytes;
    if (n > KEY_MAX) {
        add_long(&c->front[0], s, n, count);
        return true;
    }
    char room[16] = {0};
    memcpy(room, s, n);
    put_out(&c->front[0], get_u64(room), get_u64(room + 8) | (uint64_t)n << 56, count);
    return true;
}

/* ---- the end ---------------------------------------------------------------------- */

static void block_free(Block *b)
{
    for (Block *next; b; b = next) {
        next = b->next;
        buf_free(&b->text);
        free(b->end), free(b);
    }
}

typedef struct Result { Pieces v; size_t mem; int64_t min; uint64_t total, distinct; } Result;

static void take(void *to, const char *s, size_t n, int64_t count)
{
    Result *r = to;
    r->total += (uint64_t)count;
    r->distinct++;
    if (count < r->min)
        return;
    pieces_add(&r->v, s, n, count);
    if (r->v.n % 4096 == 0 && r->v.n * sizeof(Piece) + r->v.bytes.n > r->mem)
        die("the distinct pieces pass %zu MB: more memory (--mem) or leaving out rare ones "
            "(--min-count, without --counts) is needed", r->mem >> 20);
}

Pieces counter_end(Counter *c, int64_t min_count, uint64_t *total, uint64_t *distinct)
{
    if (c->now)
        count_block(&c->front[0], c->now), c->now->next = NULL;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->filled);
    pthread_mutex_unlock(&c->lock);
    for (int k = 1; k < c->threads; k++)
        pthread_join(c->id[k - 1], NULL);
    block_free(c->now);
    block_free(c->empty);
    for (int k = 0; k < c->threads; k++) {
        flush(&c->front[k]);
        front_free(&c->front[k]);
    }
    Result r = { .mem = c->mem, .min = min_count };
    table_each(&c->table, take, &r);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->filled);
    free(c->front), free(c->id), free(c);
    *total = r.total, *distinct = r.distinct;
    return r.v;
}
