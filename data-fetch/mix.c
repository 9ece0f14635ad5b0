/* mix.c -- see mix.h. */
#include "mix.h"
#include "base/io.h"
#include "data/order.h"
#include "text/spill.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Set {
    uint64_t id;                /* xxh3 of the name */
    double times;
    uint64_t from, to, n;       /* n: rows seen */
    uint64_t taken;             /* MIX_HASH: of them those in [from, to) */
    uint64_t first;             /* MIX_NANOCHAT: its first row in Mix.at */
    uint64_t left;              /* MIX_HASH: rows of the last, partial epoch still to be put out */
} Set;

/* A row in memory, sorted by key, then by where it lies. Its bytes begin with its HEAD. */
typedef struct Item { uint64_t key; size_t at, n; } Item;
enum { HEAD = 24 };             /* key, set, epoch, row: big-endian, so that bytes sort as numbers */

struct Mix {
    MixKind kind;
    uint64_t seed;
    Set *set; int n, cap;
    MixEach *each; void *arg; bool stop;
    /* MIX_HASH */
    size_t mem;
    Buf rows;
    Item *item; size_t nitem, item_cap;
    Spill spill;
    Runs runs;
    /* MIX_NANOCHAT */
    const char *dir;
    FILE *file;
    uint64_t *at; size_t nat, at_cap;           /* where rows begin; one more: the end */
};

Mix *mix_new(MixKind kind, uint64_t seed, size_t mem, const char *dir)
{
    Mix *m = xcalloc(1, sizeof *m);
    *m = (Mix){ .kind = kind, .seed = seed, .mem = mem / 2, .dir = dir };    /* arrays double */
    spill_init(&m->spill, dir);
    return m;
}

void mix_free(Mix *m)
{
    if (!m) return;
    spill_free(&m->spill);
    buf_free(&m->rows);
    if (m->file) fclose(m->file);
    free(m->set), free(m->item), free(m->runs.r), free(m->at);
    free(m);
}

void mix_source(Mix *m, const char *name, double times, uint64_t from, uint64_t to)
{
    if (m->n == m->cap)
        m->set = xreallocarray(m->set, (size_t)(m->cap = m->cap ? 2 * m->cap : 8), sizeof *m->set);
    m->set[m->n++] = (Set){ .id = xxh3(name, strlen(name)), .times = times, .from = from, .to = to,
                            .first = m->nat ? m->nat - 1 : 0 };
}

/* ---- by hash */

static void put_be(char *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) p[i] = (char)(x >> (8 * (bytes - 1 - i)));
}

static uint64_t get_be(const char *p, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x = x << 8 | (unsigned char)p[i];
    return x;
}

static int by_key(const void *a, const void *b)
{
    const Item *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->at > y->at) - (x->at < y->at);
}

static void spill_all(Mix *m)
{
    qsort(m->item, m->nitem, sizeof *m->item, by_key);
    spill_begin(&m->spill, &m->runs);
    for (size_t i = 0; i < m->nitem; i++)
        spill_put(&m->spill, m->rows.s + m->item[i].at, m->item[i].n, 1);
    spill_end(&m->spill, &m->runs);
    buf_clear(&m->rows);
    m->nitem = 0;
}

static void add_epoch(Mix *m, uint64_t epoch, uint64_t row, const char *s, size_t n)
{
    uint64_t of[4] = { m->seed, m->set[m->n - 1].id, epoch, row };
    char head[HEAD];
    Item it = { xxh3(of, sizeof of), m->rows.n, size_add(HEAD, n) };
    if (m->nitem && size_add(m->rows.n, it.n) + (m->nitem + 1) * sizeof it > m->mem) {
        spill_all(m);
        it.at = 0;
    }
    put_be(head, it.key, 8);
    put_be(head + 8, (uint64_t)(m->n - 1), 4);
    put_be(head + 12, epoch, 4);
    put_be(head + 16, row, 8);
    buf_add(&m->rows, head, HEAD);
    buf_add(&m->rows, s, n);
    if (m->nitem == m->item_cap)
        m->item = xreallocarray(m->item, m->item_cap = m->item_cap ? 2 * m->item_cap : 1024,
                                sizeof *m->item);
    m->item[m->nitem++] = it;
}

static void hash_row(void *arg, const char *s, size_t n, int64_t count)
{
    Mix *m = arg;
    Set *set = &m->set[get_be(s + 8, 4)];
    (void)count;
    if (m->stop) return;
    if ((double)get_be(s + 12, 4) + 1 > set->times) {           /* of the partial epoch */
        if (!set->left) return;
        set->left--;
    }
    m->stop = !m->each(m->arg, (int)get_be(s + 8, 4), get_be(s + 16, 8), s + HEAD, n - HEAD);
}

static void run_hash(Mix *m)
{
    for (int i = 0; i < m->n; i++) {
        Set *set = &m->set[i];
        set->left = (uint64_t)floor((set->times - floor(set->times)) * (double)set->taken + 1e-9);
    }
    if (m->runs.n) {
        spill_all(m);
        spill_merge(&m->spill, &m->runs, hash_row, m);
        return;
    }
    qsort(m->item, m->nitem, sizeof *m->item, by_key);
    for (size_t i = 0; i < m->nitem && !m->stop; i++)
        hash_row(m, m->rows.s + m->item[i].at, m->item[i].n, 1);
}

/* ---- as nanochat */

static FILE *unlinked(const char *dir)
{
    char *name = xasprintf("%s/data-fetch-XXXXXX", dir);
    int fd = mkstemp(name);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w+b");
    if (!f) die("%s:", name);
    unlink(name);
    free(name);
    return f;
}

static void add_at(Mix *m, uint64_t at)
{
    if (m->nat == m->at_cap)
        m->at = xreallocarray(m->at, m->at_cap = m->at_cap ? 2 * m->at_cap : 1024, sizeof *m->at);
    m->at[m->nat++] = at;
}

static void spool(Mix *m, const char *s, size_t n)
{
    if (!m->file) {
        m->file = unlinked(m->dir);
        add_at(m, 0);
    }
    if (fwrite(s, 1, n, m->file) != n) die("a temporary file in %s:", m->dir);
    add_at(m, m->at[m->nat - 1] + n);
}

static void put_out(Mix *m, int set, uint64_t index, uint64_t row, Buf *b)
{
    uint64_t at = m->at[row], n = m->at[row + 1] - at;
    buf_clear(b);
    buf_reserve(b, n + 1);
    for (uint64_t k = 0; k < n;) {
        ssize_t got = pread(fileno(m->file), b->s + k, n - k, (off_t)(at + k));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) die("a temporary file in %s:", m->dir);
        if (got == 0) die("a temporary file in %s has become shorter", m->dir);
        k += (uint64_t)got;
    }
    m->stop = !m->each(m->arg, set, index, b->s, n);
}

typedef struct Pick { uint32_t set; uint64_t index; } Pick;

/* The list of pairs, set after set; each as often as it is taken, permuted and cut. */
static Pick *pairs(const Mix *m, size_t *count)
{
    Pick *p = NULL;
    size_t n = 0;
    for (int i = 0; i < m->n; i++) {
        const Set *set = &m->set[i];
        uint64_t to = set->to < set->n ? set->to : set->n, from = set->from < to ? set->from : to;
        size_t times = (size_t)set->times, rows = (size_t)(to - from);
        uint64_t *v = xreallocarray(NULL, (size_t)set->n + 1, sizeof *v);
        order_numpy(m->seed, v, (size_t)set->n);
        p = xreallocarray(p, size_add(n, size_mul(times, rows)) + 1, sizeof *p);
        for (size_t k = 0; k < times; k++)
            for (size_t j = 0; j < rows; j++) p[n++] = (Pick){ (uint32_t)i, v[from + j] };
        free(v);
    }
    *count = n;
    return p;
}

static void run_nanochat(Mix *m)
{
    size_t n;
    Buf b = {0};
    Pick *p = pairs(m, &n);
    uint64_t *order = xreallocarray(NULL, n + 1, sizeof *order);
    for (size_t i = 0; i < n; i++) order[i] = i;
    order_python(m->seed, order, n);
    if (m->file && fflush(m->file)) die("a temporary file in %s:", m->dir);
    for (size_t i = 0; i < n && !m->stop; i++) {
        const Pick *x = &p[order[i]];
        put_out(m, (int)x->set, x->index, m->set[x->set].first + x->index, &b);
    }
    free(p), free(order);
    buf_free(&b);
}

void mix_add(Mix *m, const char *s, size_t n)
{
    Set *set = &m->set[m->n - 1];
    uint64_t row = set->n;
    if (m->kind == MIX_NANOCHAT) {
        spool(m, s, n);
        set->n++;
        return;
    }
    set->n++;
    if (row < set->from || row >= set->to) return;
    for (uint64_t e = 0; (double)e < set->times; e++) add_epoch(m, e, row, s, n);
    set->taken++;
}

void mix_run(Mix *m, MixEach *each, void *arg)
{
    m->each = each, m->arg = arg;
    if (m->kind == MIX_HASH) run_hash(m);
    else run_nanochat(m);
}
