/* count_table.c -- see count_table.h. */
#include "text/count_table.h"
#include "base/io.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 128 };

static inline uint64_t entry_hash(const Entry *e)
{
    return e->k1 >= KEY_LONG ? e->k0 : key_hash(e->k0, e->k1);
}

static Entry *slots_new(Table *t, size_t n)
{
    atomic_fetch_add(&t->used, n * sizeof(Entry));
    return xcalloc(n, sizeof(Entry));
}

static void slots_free(Table *t, Part *p)
{
    atomic_fetch_sub(&t->used, (p->mask + 1) * sizeof(Entry));
    free(p->e);
    p->e = NULL;
}

void table_init(Table *t, size_t limit, const char *tmpdir)
{
    *t = (Table){ .limit = limit };
    pthread_mutex_init(&t->spilling, NULL);
    spill_init(&t->spill, tmpdir);
    for (int k = 0; k < PARTS; k++) {
        Part *p = &t->part[k];
        pthread_mutex_init(&p->lock, NULL);
        p->mask = FIRST_SLOTS - 1;
        p->e = slots_new(t, FIRST_SLOTS);
    }
}

/* ---- sorting and spilling ------------------------------------------------------ */

static uint64_t little(uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

/* The bytes of e; room holds them if they are in the key. */
static const char *entry_bytes(const Part *p, const Entry *e, char room[16], size_t *n)
{
    if (e->k1 >= KEY_LONG) {
        const char *s = p->bytes.s + (e->k1 - KEY_LONG);
        *n = get_u32(s);
        return s + 4;
    }
    uint64_t k[2] = { little(e->k0), little(e->k1) };
    memcpy(room, k, 16);
    *n = (size_t)(e->k1 >> 56);
    return room;
}

static int by_bytes(const void *x, const void *y, void *part)
{
    char room[2][16];
    size_t n, m;
    const char *s = entry_bytes(part, x, room[0], &n), *u = entry_bytes(part, y, room[1], &m);
    int c = memcmp(s, u, n < m ? n : m);
    return c ? c : (n > m) - (n < m);
}

/* The table becomes a sorted run and is empty. */
static void spill(Table *t, Part *p)
{
    if (!p->n)
        return;
    size_t n = 0;
    for (size_t i = 0; i <= p->mask; i++)
        if (p->e[i].k1)
            p->e[n++] = p->e[i];
    qsort_r(p->e, n, sizeof *p->e, by_bytes, p);
    pthread_mutex_lock(&t->spilling);
    spill_begin(&t->spill, &p->runs);
    for (size_t i = 0; i < n; i++) {
        char room[16];
        size_t len;
        const char *s = entry_bytes(p, &p->e[i], room, &len);
        spill_put(&t->spill, s, len, p->e[i].count);
    }
    spill_end(&t->spill, &p->runs);
    t->spills++;
    pthread_mutex_unlock(&t->spilling);
    memset(p->e, 0, (p->mask + 1) * sizeof *p->e);
    p->n = 0;
    atomic_fetch_sub(&t->used, p->bytes.cap);
    buf_free(&p->bytes);
}

/* ---- adding ------------------------------------------------------------------- */

/* Room for n more entries and their bytes: twice the table, or an empty one. */
static void make_room(Table *t, Part *p, size_t n, size_t bytes)
{
    size_t slots = p->mask + 1, cap = p->bytes.cap;
    bool grow = p->n + n > slots / 4 * 3;
    size_t want = grow ? 2 * slots * sizeof(Entry) : 0;
    want += p->bytes.n + bytes > cap ? cap + bytes : 0;
    if (!want)
        return;
    if (p->n && atomic_load(&t->used) + want > t->limit) {
        spill(t, p);
        grow = false;
    }
    if (grow) {
        Part old = *p;
        p->e = slots_new(t, 2 * slots);
        p->mask = 2 * slots - 1;
        for (size_t i = 0; i < slots; i++) {
            if (!old.e[i].k1)
                continue;
            size_t k = (size_t)entry_hash(&old.e[i]) & p->mask;
            while (p->e[k].k1)
                k = (k + 1) & p->mask;
            p->e[k] = old.e[i];
        }
        slots_free(t, &old);
    }
    if (bytes) {
        size_t before = p->bytes.cap;
        buf_reserve(&p->bytes, bytes);
        atomic_fetch_add(&t->used, p->bytes.cap - before);
    }
}

void table_add(Table *t, unsigned part, const Entry *e, size_t n)
{
    Part *p = &t->part[part];
    uint64_t hash[BATCH];
    pthread_mutex_lock(&p->lock);
    make_room(t, p, n, 0);
    for (size_t k = 0; k < n; k++) {
        hash[k] = key_hash(e[k].k0, e[k].k1);
        __builtin_prefetch(&p->e[hash[k] & p->mask], 1);
    }
    for (size_t k = 0; k < n; k++) {
        size_t i = (size_t)hash[k] & p->mask;
        while (p->e[i].k1 && (p->e[i].k0 != e[k].k0 || p->e[i].k1 != e[k].k1))
            i = (i + 1) & p->mask;
        if (!p->e[i].k1) {
            p->e[i].k0 = e[k].k0, p->e[i].k1 = e[k].k1;
            p->n++;
        }
        p->e[i].count += e[k].count;
    }
    pthread_mutex_unlock(&p->lock);
}

void table_add_long(Table *t, uint64_t hash, const char *s, size_t n, int64_t count)
{
    Part *p = &t->part[key_part(hash)];
    pthread_mutex_lock(&p->lock);
    make_room(t, p, 1, size_add(n, 4));
    size_t i = (size_t)hash & p->mask;
    for (; p->e[i].k1; i = (i + 1) & p->mask) {
        if (p->e[i].k1 < KEY_LONG || p->e[i].k0 != hash)
            continue;
        const char *at = p->bytes.s + (p->e[i].k1 - KEY_LONG);
        if (get_u32(at) == n && !memcmp(at + 4, s, n))
            break;
    }
    if (!p->e[i].k1) {
        p->e[i].k0 = hash, p->e[i].k1 = KEY_LONG + p->bytes.n;
        buf_u32(&p->bytes, (uint32_t)n);
        buf_add(&p->bytes, s, n);
        p->n++;
    }
    p->e[i].count += count;
    pthread_mutex_unlock(&p->lock);
}

/* ---- the end ------------------------------------------------------------------ */

void table_each(Table *t, SpillEach *each, void *to)
{
    for (int k = 0; k < PARTS; k++) {
        Part *p = &t->part[k];
        if (p->runs.n)
            spill(t, p);
        for (size_t i = 0; i <= p->mask; i++) {
            char room[16];
            size_t n;
            if (!p->e[i].k1)
                continue;
            const char *s = entry_bytes(p, &p->e[i], room, &n);
            each(to, s, n, p->e[i].count);
        }
        slots_free(t, p);
        buf_free(&p->bytes);
        if (p->runs.n)
            spill_merge(&t->spill, &p->runs, each, to);
        pthread_mutex_destroy(&p->lock);
    }
    spill_free(&t->spill);
    pthread_mutex_destroy(&t->spilling);
}
