/* enc.c -- encoding text with a tokenizer; see tok.h.
 *
 * A piece that is a token is that token. Otherwise the adjacent pair whose merge has the lowest id
 * is merged, the leftmost of equal ones, until no pair can be: by scanning for short pieces, with a
 * heap of (id, position) for long ones, where n bytes cost O(n log n) time and up to 20 n bytes.
 *
 * A long piece is an array of n cells. A token that covers cells p..e has its id in cells p and e;
 * cells between hold DEAD or anything that is not the id of a token that begins there. So the right
 * neighbour of p is at p + length(cell[p]), the left one at p - length(cell[p - 1]): no links. */
#include "text/split.h"
#include "text/tok.h"
#include "text/utf8.h"
#include <stdlib.h>
#include <string.h>

#define SHORT 64                /* bytes: up to here, scan */
#define NONE UINT32_MAX         /* no merge; greater than every id */
#define DEAD UINT32_MAX

struct TokEnc {
    const Tok *t;
    const int32_t *len;         /* bytes per id */
    const uint32_t (*pair)[2];
    Buf fixed;                  /* a repaired document */
    PieceRoom room;             /* for tokenizers that are not plain */
    uint32_t *cell; size_t cells;
    uint64_t *heap; size_t n, cap;      /* id << 32 | position; the smallest at 0 */
};

TokEnc *tokenc_new(const Tok *t)
{
    TokEnc *e = xcalloc(1, sizeof *e);
    e->t = t;
    e->len = tok_byte_lengths(t);
    tok_merges(t, &e->pair);
    return e;
}

void tokenc_free(TokEnc *e)
{
    if (!e)
        return;
    buf_free(&e->fixed);
    piece_free(&e->room);
    free(e->cell), free(e->heap), free(e);
}

static void ids_reserve(Ids *v, size_t more)
{
    if (more <= v->cap - v->n)
        return;
    size_t want = size_add(v->n, more), twice = v->cap < 32 ? 64 : size_mul(v->cap, 2);
    v->cap = want > twice ? want : twice;
    v->id = xreallocarray(v->id, v->cap, sizeof *v->id);
}

void ids_add(Ids *v, uint32_t id)
{
    ids_reserve(v, 1);
    v->id[v->n++] = id;
}

void ids_free(Ids *v)
{
    free(v->id);
    *v = (Ids){0};
}

static uint32_t merge_of(const TokEnc *e, uint32_t a, uint32_t b)
{
    return (uint32_t)tok_pair(e->t, a, b);              /* -1 is NONE */
}

/* ---- short pieces --------------------------------------------------------- */

static void encode_short(TokEnc *e, const char *s, size_t n, Ids *out)
{
    uint32_t id[SHORT], merge[SHORT];                   /* merge[i]: of id[i] and id[i + 1] */
    for (size_t i = 0; i < n; i++)
        id[i] = (unsigned char)s[i];
    for (size_t i = 0; i + 1 < n; i++)
        merge[i] = merge_of(e, id[i], id[i + 1]);
    while (n > 1) {
        size_t k = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (merge[i] < merge[k])
                k = i;
        if (merge[k] == NONE)
            break;
        id[k] = merge[k];
        n--;
        memmove(id + k + 1, id + k + 2, (n - k - 1) * sizeof *id);
        memmove(merge + k, merge + k + 1, (n - k - 1) * sizeof *merge);
        if (k)
            merge[k - 1] = merge_of(e, id[k - 1], id[k]);
        if (k + 1 < n)
            merge[k] = merge_of(e, id[k], id[k + 1]);
    }
    for (size_t i = 0; i < n; i++)
        ids_add(out, id[i]);
}

/* ---- long pieces ---------------------------------------------------------- */

static void sink(uint64_t *h, size_t n, size_t i)
{
    uint64_t x = h[i];
    for (size_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && h[k + 1] < h[k])
            k++;
        if (h[k] >= x)
            break;
        h[i] = h[k];
    }
    h[i] = x;
}

static void push(TokEnc *e, uint32_t merge, size_t at)
{
    if (e->n == e->cap) {
        e->cap = e->cap ? size_mul(e->cap, 2) : 1024;
        e->heap = xreallocarray(e->heap, e->cap, sizeof *e->heap);
    }
    uint64_t x = (uint64_t)merge << 32 | at, *h = e->heap;
    size_t i = e->n++;
    for (; i && h[(i - 1) / 2] > x; i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = x;
}

static uint64_t pop(TokEnc *e)
{
    uint64_t top = e->heap[0];
    e->heap[0] = e->heap[--e->n];
    if (e->n)
        sink(e->heap, e->n, 0);
    return top;
}

/* Every byte a token; the heap holds the pairs that can be merged. */
static void begin_long(TokEnc *e, const char *s, size_t n)
{
    if (n > e->cells) {
        e->cells = n;
        free(e->cell);
        e->cell = xreallocarray(NULL, n, sizeof *e->cell);
    }
    for (size_t i = 0; i < n; i++)
        e->cell[i] = (unsigned char)s[i];
    e->n = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        uint32_t m = merge_of(e, e->cell[i], e->cell[i + 1]);
        if (m != NONE) {
            if (e->n == e->cap) {
                e->cap = e->cap ? size_mul(e->cap, 2) : 1024;
                e->heap = xreallocarray(e->heap, e->cap, sizeof *e->heap);
            }
            e->heap[e->n++] = (uint64_t)m << 32 | i;
        }
    }
    for (size_t i = e->n / 2; i-- > 0; )
        sink(e->heap, e->n, i);
}

static void encode_long(TokEnc *e, const char *s, size_t n, Ids *out)
{
    if (n >= UINT32_MAX)
        die("a stretch of %zu bytes without a place to split it: less than 2^32 are possible", n);
    begin_long(e, s, n);
    uint32_t *cell = e->cell;
    while (e->n) {
        uint64_t top = pop(e);
        uint32_t z = (uint32_t)(top >> 32), a = e->pair[z - 256][0], b = e->pair[z - 256][1];
        size_t p = (uint32_t)top, q = p + (size_t)e->len[a];
        if (cell[p] != a || q >= n || cell[q] != b)
            continue;                                   /* one of the two has been merged since */
        size_t end = q + (size_t)e->len[b];
        cell[q - 1] = cell[q] = DEAD;
        cell[p] = cell[end - 1] = z;
        uint32_t m;
        if (p && (m = merge_of(e, cell[p - 1], z)) != NONE)
            push(e, m, p - (size_t)e->len[cell[p - 1]]);
        if (end < n && (m = merge_of(e, z, cell[end])) != NONE)
            push(e, m, end - (size_t)e->len[z]);
    }
    for (size_t i = 0; i < n; i += (size_t)e->len[cell[i]])
        ids_add(out, cell[i]);
}

uint64_t tok_encode(TokEnc *e, const char *s, size_t n, Ids *out)
{
    uint64_t bad = 0;
    if (utf8_valid(s, n) < n) {
        buf_clear(&e->fixed);
        bad = utf8_repair(&e->fixed, s, n);
        s = e->fixed.s, n = e->fixed.n;
    }
    for (size_t i = 0, next; i < n; i = next) {
        next = split_kind_next(tok_split(e->t), s, n, i);
        if (!tok_plain(e->t)) {
            tok_piece(e->t, &e->room, s + i, next - i, out);
            continue;
        }
        int id = tok_find(e->t, s + i, next - i);
        if (id >= 0)
            ids_add(out, (uint32_t)id);
        else if (next - i <= SHORT)
            encode_short(e, s + i, next - i, out);
        else
            encode_long(e, s + i, next - i, out);
    }
    return bad;
}
