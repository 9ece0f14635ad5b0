#include "base/map.h"
#include "base/err.h"
#include "base/io.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE = 8 << 10 };

/* The slot of the key, or the free one where it would be. */
static size_t find(const Map *m, const void *key, size_t len, uint64_t hash)
{
    size_t mask = m->nslot - 1, i = hash & mask;
    for (; m->slot[i]; i = (i + 1) & mask) {
        const MapEntry *e = &m->e[m->slot[i] - 1];
        if (e->hash == hash && e->len == len && (len == 0 || !memcmp(e->key, key, len))) break;
    }
    return i;
}

static void grow_slots(Map *m)          /* at most half of the slots are taken */
{
    m->nslot = m->nslot ? size_mul(m->nslot, 2) : 64;
    free(m->slot);
    m->slot = xcalloc(m->nslot, sizeof *m->slot);
    for (size_t k = 0; k < m->n; k++) {
        size_t i = m->e[k].hash & (m->nslot - 1);
        while (m->slot[i]) i = (i + 1) & (m->nslot - 1);
        m->slot[i] = (uint32_t)(k + 1);
    }
}

static const char *copy_key(Map *m, const void *key, size_t len)
{
    if (len >= PIECE / 4) return arena_strndup(&m->keys, key, len);
    if (len >= m->nroom) m->room = arena_alloc(&m->keys, m->nroom = PIECE);
    char *p = m->room;
    if (len) memcpy(p, key, len);
    p[len] = 0;
    m->room += len + 1;
    m->nroom -= len + 1;
    return p;
}

int64_t *map_get(const Map *m, const void *key, size_t len)
{
    if (m->n == 0) return NULL;
    size_t i = find(m, key, len, xxh3(key, len));
    return m->slot[i] ? &m->e[m->slot[i] - 1].val : NULL;
}

int64_t *map_put(Map *m, const void *key, size_t len)
{
    uint64_t hash = xxh3(key, len);
    if (m->n >= m->nslot / 2) grow_slots(m);
    size_t i = find(m, key, len, hash);
    if (m->slot[i]) return &m->e[m->slot[i] - 1].val;
    if (m->n == UINT32_MAX) die("a table of more than 2^32 - 1 keys");
    if (m->n == m->cap) {
        m->cap = m->cap ? size_mul(m->cap, 2) : 32;
        m->e = xreallocarray(m->e, m->cap, sizeof *m->e);
    }
    m->e[m->n] = (MapEntry){ copy_key(m, key, len), len, hash, 0 };
    m->slot[i] = (uint32_t)++m->n;
    return &m->e[m->n - 1].val;
}

void map_free(Map *m)
{
    free(m->e);
    free(m->slot);
    arena_free(&m->keys);
    *m = (Map){0};
}
