/* bpe.c -- see bpe.h.
 *
 * All pieces of two bytes or more stand in one array of cells, END before, between and after them.
 * A token that covers cells p..e has its id in cells p and e; what stands between is never the id
 * of a token that begins there. So the right neighbour of p is at p + len(cell[p]), the left one at
 * p - len(cell[p - 1]), and "the pair (a, b) is at p" is two comparisons.
 *
 * Each pair has its count and the list of its positions, in rising order. Pairs arise only in the
 * step that makes their larger id, so the list is complete at the end of that step and only gets
 * stale: what has been merged since is passed over. Likewise counts only fall after that step, so
 * one heap entry per pair is enough: one that comes up with an old count goes back with the present
 * one.
 *
 * In one step each falling pair holds a or b, each new one the new id: the changes are first added
 * up in arrays indexed by the neighbour, and each pair is looked up once. */
#include "text/bpe.h"
#include "text/tok.h"
#include <stdlib.h>
#include <string.h>

#define END UINT32_MAX
#define DEAD (UINT32_MAX - 1)
#define BLOCK 64                /* cells per entry of Words.first */

typedef struct Words {          /* which piece a cell belongs to, and how often that occurs */
    uint32_t *start;            /* [n] first cell */
    int64_t *count;             /* [n] */
    uint32_t *first;            /* [cells / BLOCK + 1] the word that holds a block's first cell */
    size_t n;
} Words;

typedef struct Pair { uint32_t a, b; int64_t count; size_t at, n; } Pair;   /* pos[at .. at + n) */
typedef struct Top { int64_t count; uint32_t a, b; } Top;

/* Changes of one step to the pairs on one side of the new id, by neighbour. */
typedef struct Side {
    int64_t *fall;              /* [ids] how much (neighbour, a) or (b, neighbour) falls */
    int64_t *rise;              /* [ids] count of the new pair */
    size_t *seen;               /* [ids] positions found for it; then where the next one goes */
    uint32_t *fell, *rose; size_t nfell, nrose;     /* neighbours with anything in the above */
    uint32_t (*event)[2]; size_t n, cap;            /* neighbour, position of the pair */
} Side;

typedef struct Trainer {
    uint32_t *cell; size_t cells;
    Words w;
    int32_t *len;               /* bytes per id */
    size_t bytes;               /* of all ids */
    uint32_t *pos; size_t npos, pos_cap;
    Pair *pair; size_t npair, pair_cap;
    uint32_t *slot; size_t mask;            /* pair's index + 1 by (a, b); slots - 1 */
    Top *heap; size_t nheap, heap_cap;
    Side left, right;
} Trainer;

static void *grow(void *p, size_t n, size_t *cap, size_t size)
{
    if (n <= *cap)
        return p;
    size_t twice = *cap < 512 ? 1024 : size_mul(*cap, 2);
    *cap = n > twice ? n : twice;
    return xreallocarray(p, *cap, size);
}

/* ---- pairs ---------------------------------------------------------------- */

static size_t home(uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (size_t)(x ^ x >> 32);
}

static uint32_t *slot_of(const Trainer *t, uint32_t a, uint32_t b)
{
    size_t i = home(a, b) & t->mask;
    for (uint32_t k; (k = t->slot[i]); i = (i + 1) & t->mask)
        if (t->pair[k - 1].a == a && t->pair[k - 1].b == b)
            break;
    return &t->slot[i];
}

static Pair *find(const Trainer *t, uint32_t a, uint32_t b)     /* one that is there */
{
    return &t->pair[*slot_of(t, a, b) - 1];
}

static void rehash(Trainer *t)
{
    size_t slots = t->slot ? size_mul(t->mask + 1, 2) : 1 << 12;
    free(t->slot);
    t->slot = xcalloc(slots, sizeof *t->slot);
    t->mask = slots - 1;
    for (size_t k = 0; k < t->npair; k++)
        *slot_of(t, t->pair[k].a, t->pair[k].b) = (uint32_t)k + 1;
}

/* ---- the heap: highest count, smallest left id, smallest right id --------- */

static int before(Top x, Top y)
{
    if (x.count != y.count)
        return x.count > y.count;
    return x.a != y.a ? x.a < y.a : x.b < y.b;
}

static void heap_push(Trainer *t, Top x)
{
    t->heap = grow(t->heap, t->nheap + 1, &t->heap_cap, sizeof *t->heap);
    size_t i = t->nheap++;
    for (; i && before(x, t->heap[(i - 1) / 2]); i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = x;
}

/* Put x in place of the top. */
static void heap_replace(Trainer *t, Top x)
{
    Top *h = t->heap;
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < t->nheap; i = k) {
        if (k + 1 < t->nheap && before(h[k + 1], h[k]))
            k++;
        if (!before(h[k], x))
            break;
        h[i] = h[k];
    }
    h[i] = x;
}

static void heap_pop(Trainer *t)
{
    if (--t->nheap)
        heap_replace(t, t->heap[t->nheap]);
}

/* A pair with its positions pos[at .. at + n), not yet known. */
static void new_pair(Trainer *t, uint32_t a, uint32_t b, int64_t count, size_t at, size_t n)
{
    if (t->npair >= t->mask / 4 * 3)
        rehash(t);
    if (t->npair >= UINT32_MAX - 1)
        die("more than %zu different pairs: use less text", t->npair);
    t->pair = grow(t->pair, t->npair + 1, &t->pair_cap, sizeof *t->pair);
    t->pair[t->npair++] = (Pair){ a, b, count, at, n };
    /* The slot is empty: looking for (a, b) compares only with pairs that are in the table. */
    *slot_of(t, a, b) = (uint32_t)t->npair;
    heap_push(t, (Top){ count, a, b });
}

static bool best(Trainer *t, Top *top)
{
    while (t->nheap) {
        *top = t->heap[0];
        int64_t now = find(t, top->a, top->b)->count;
        if (now == top->count)
            return true;
        if (now > 0)
            heap_replace(t, (Top){ now, top->a, top->b });
        else
            heap_pop(t);
    }
    return false;
}

/* ---- the start: pieces to cells, pairs of bytes --------------------------- */

static void lay_out(Trainer *t, const Pieces *v)
{
    size_t cells = 1, n = 0;
    for (size_t k = 0; k < v->n; k++)
        if (v->p[k].len > 1)
            cells = size_add(cells, (size_t)v->p[k].len + 1), n++;
    if (cells >= DEAD)
        die("the distinct pieces have %zu bytes: 2^32 are too many; use less text", cells);
    t->cells = cells;
    t->cell = xreallocarray(NULL, cells, sizeof *t->cell);
    t->w.start = xreallocarray(NULL, n + 1, sizeof *t->w.start);
    t->w.count = xreallocarray(NULL, n + 1, sizeof *t->w.count);
    t->w.first = xcalloc(cells / BLOCK + 1, sizeof *t->w.first);
    uint32_t *c = t->cell, w = 0;
    size_t at = 0;
    c[at++] = END;
    for (size_t k = 0; k < v->n; k++) {
        const Piece *p = &v->p[k];
        if (p->len < 2)
            continue;
        t->w.start[w] = (uint32_t)at, t->w.count[w] = p->count;
        for (size_t b = (at + BLOCK - 1) / BLOCK; b <= (at + p->len) / BLOCK; b++)
            t->w.first[b] = w;
        for (size_t i = 0; i < p->len; i++)
            c[at++] = (unsigned char)v->bytes.s[p->at + i];
        c[at++] = END;
        w++;
    }
    t->w.n = w;
}

/* How often the piece that holds cell p occurs. */
static int64_t weight(const Words *w, size_t p)
{
    size_t k = w->first[p / BLOCK];
    while (k + 1 < w->n && w->start[k + 1] <= p)
        k++;
    return w->count[k];
}

static void byte_pairs(Trainer *t)
{
    size_t *at = xcalloc(65536, sizeof *at);        /* positions of each pair; then where they go */
    int64_t *count = xcalloc(65536, sizeof *count);
    const uint32_t *c = t->cell;
    size_t w = 0;
    for (size_t p = 1; p + 1 < t->cells; p++) {
        if (c[p] == END) {
            w++;
        } else if (c[p + 1] != END) {
            at[c[p] << 8 | c[p + 1]]++;
            count[c[p] << 8 | c[p + 1]] += t->w.count[w];
        }
    }
    size_t sum = 0;
    for (uint32_t k = 0; k < 65536; k++) {
        size_t n = at[k];
        at[k] = sum;
        if (n)
            new_pair(t, k >> 8, k & 255, count[k], sum, n);
        sum += n;
    }
    t->pos = grow(NULL, t->npos = sum, &t->pos_cap, sizeof *t->pos);
    for (size_t p = 1; p + 1 < t->cells; p++)
        if (c[p] != END && c[p + 1] != END)
            t->pos[at[c[p] << 8 | c[p + 1]]++] = (uint32_t)p;
    free(at), free(count);
}

/* ---- one step ------------------------------------------------------------- */

static void falls(Side *s, uint32_t neighbour, int64_t by)
{
    if (!s->fall[neighbour])
        s->fell[s->nfell++] = neighbour;
    s->fall[neighbour] += by;
}

static void rises(Side *s, uint32_t neighbour, int64_t by, size_t at)
{
    if (!s->seen[neighbour]++)
        s->rose[s->nrose++] = neighbour;
    s->rise[neighbour] += by;
    s->event = grow(s->event, s->n + 1, &s->cap, sizeof *s->event);
    s->event[s->n][0] = neighbour, s->event[s->n++][1] = (uint32_t)at;
}

/* Merge the pair at p, whose right half is at q. */
static void merge_at(Trainer *t, uint32_t a, uint32_t b, uint32_t z, size_t p, size_t q)
{
    uint32_t *cell = t->cell;
    size_t end = q + (size_t)t->len[b];
    uint32_t x = cell[p - 1], y = cell[end];
    int64_t by = weight(&t->w, p);
    if (x != END) {
        /* x is what stands there now: if it was made in this step, (x, a) is one of the new pairs,
         * counted when y was a. Its position then is stale already. */
        if (x == z)
            t->right.rise[a] -= by;
        else
            falls(&t->left, x, by);
        rises(&t->left, x, by, p - (size_t)t->len[x]);
    }
    if (y != END) {
        falls(&t->right, y, by);
        rises(&t->right, y, by, p);
    }
    cell[q - 1] = cell[q] = DEAD;
    cell[p] = cell[end - 1] = z;
}

/* The falling pairs of one side, but for (a, b) itself, which is gone. */
static void apply_falls(Trainer *t, Side *s, bool left, uint32_t a, uint32_t b)
{
    for (size_t k = 0; k < s->nfell; k++) {
        uint32_t o = s->fell[k], l = left ? o : b, r = left ? a : o;
        if (l != a || r != b)
            find(t, l, r)->count -= s->fall[o];
        s->fall[o] = 0;
    }
    s->nfell = 0;
}

/* The new pairs of one side, with their positions: a counting sort of the events by neighbour. */
static void apply_rises(Trainer *t, Side *s, bool left, uint32_t z)
{
    t->pos = grow(t->pos, t->npos + s->n, &t->pos_cap, sizeof *t->pos);
    for (size_t k = 0; k < s->nrose; k++) {
        uint32_t o = s->rose[k];
        size_t n = s->seen[o];
        s->seen[o] = t->npos;
        if (s->rise[o] > 0) {
            new_pair(t, left ? o : z, left ? z : o, s->rise[o], t->npos, n);
            t->npos += n;
        }
    }
    for (size_t k = 0; k < s->n; k++)
        if (s->rise[s->event[k][0]] > 0)
            t->pos[s->seen[s->event[k][0]]++] = s->event[k][1];
    for (size_t k = 0; k < s->nrose; k++)
        s->rise[s->rose[k]] = 0, s->seen[s->rose[k]] = 0;
    s->nrose = s->n = 0;
}

static void step(Trainer *t, uint32_t a, uint32_t b, uint32_t z)
{
    Pair *pair = find(t, a, b);
    size_t at = pair->at, n = pair->n;
    pair->count = 0;
    for (size_t k = at; k < at + n; k++) {
        size_t p = t->pos[k], q = p + (size_t)t->len[a];
        if (t->cell[p] == a && t->cell[q] == b)
            merge_at(t, a, b, z, p, q);
    }
    apply_falls(t, &t->left, true, a, b);
    apply_falls(t, &t->right, false, a, b);
    apply_rises(t, &t->left, true, z);
    apply_rises(t, &t->right, false, z);
}

static void side_init(Side *s, size_t ids)
{
    s->fall = xcalloc(ids, sizeof *s->fall);
    s->rise = xcalloc(ids, sizeof *s->rise);
    s->seen = xcalloc(ids, sizeof *s->seen);
    s->fell = xcalloc(ids, sizeof *s->fell);
    s->rose = xcalloc(ids, sizeof *s->rose);
}

static void side_free(Side *s)
{
    free(s->fall), free(s->rise), free(s->seen), free(s->fell), free(s->rose), free(s->event);
}

Bpe bpe_train(const Pieces *pieces, size_t want, Progress *progress_line)
{
    Trainer t = {0};
    if (want > TOK_MAX_MERGES)
        die("%zu merges: at most %d are possible", want, TOK_MAX_MERGES);
    size_t ids = 256 + want;
    t.len = xcalloc(ids, sizeof *t.len);
    for (int i = 0; i < 256; i++)
        t.len[i] = 1;
    t.bytes = 256;
    side_init(&t.left, ids);
    side_init(&t.right, ids);
    rehash(&t);
    lay_out(&t, pieces);
    byte_pairs(&t);

    Bpe r = {0};
    r.pair = xcalloc(want + 1, sizeof *r.pair);
    r.count = xcalloc(want + 1, sizeof *r.count);
    Top top;
    for (r.end = BPE_ALL; r.n < want; r.n++) {
        uint32_t z = 256 + (uint32_t)r.n;
        if (!best(&t, &top)) {
            r.end = BPE_NO_PAIRS;
            break;
        }
        t.len[z] = t.len[top.a] + t.len[top.b];
        t.bytes += (size_t)t.len[z];
        if (t.len[z] > TOK_MAX_LEN || t.bytes > TOK_MAX_BYTES) {
            r.end = BPE_TOO_LONG;
            break;
        }
        heap_pop(&t);
        r.pair[r.n][0] = top.a, r.pair[r.n][1] = top.b, r.count[r.n] = top.count;
        step(&t, top.a, top.b, z);
        if (progress_line)
            progress(progress_line, r.n + 1);
    }
    free(t.cell), free(t.w.start), free(t.w.count), free(t.w.first), free(t.len), free(t.pos);
    free(t.pair), free(t.slot), free(t.heap);
    side_free(&t.left);
    side_free(&t.right);
    return r;
}

void bpe_free(Bpe *b)
{
    free(b->pair), free(b->count);
    *b = (Bpe){0};
}
