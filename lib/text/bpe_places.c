/* bpe_places.c -- the text that is trained on, and where pairs stand in it; see bpe_int.h.
 *
 * Short pieces are words (bpe_words.h). Long ones stand in one array of cells, END before, between
 * and after them. A token that covers cells p..e has its id in cells p and e; what stands between
 * is never the id of a token that begins there. So the right neighbour of p is at p + len(cell[p]),
 * the left one at p - len(cell[p - 1]), and "the pair (a, b) is at p" is two comparisons, whatever
 * the piece's length. */
#include "text/bpe_int.h"
#include <stdlib.h>
#include <string.h>

#define END UINT32_MAX
#define DEAD (UINT32_MAX - 1)
enum { BLOCK = 64 };            /* cells per entry of Trainer.block */

/* Pair.n counts up to the slice's length again as it is filled. */
static inline void put_ref(Trainer *t, uint32_t a, uint32_t b, uint32_t ref)
{
    Pair *p = find(t, a, b);
    if (p && p->at != NOWHERE)
        t->ref[p->at + p->n++] = ref;
}

static int64_t word_big(const Trainer *t, uint32_t r)
{
    size_t lo = 0, hi = t->nbig;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->big[mid].ref <= r) lo = mid;
        else hi = mid;
    }
    return t->big[lo].count;
}

static inline int64_t word_count(const Trainer *t, uint32_t r)
{
    return t->unit[r] != BIG_COUNT ? t->unit[r] : word_big(t, r);
}

static inline void room(Side *s, size_t n)      /* for events, if they are kept */
{
    if (s->cap - s->n < n)
        s->event = bpe_grow(s->event, s->n + n, &s->cap, sizeof *s->event);
}

#define SYM uint16_t
#define W(name) name##_16
#include "text/bpe_words.h"
#undef SYM
#undef W
#define SYM uint32_t
#define W(name) name##_32
#include "text/bpe_words.h"

static void cells_scan(Trainer *t, Tally *tally)
{
    const uint32_t *c = t->cell;
    size_t w = 0;
    for (size_t p = 1, q; p + 1 < t->cells; p = q) {
        if (c[p] == END) {
            q = p + 1;
            w++;
            continue;
        }
        q = p + (size_t)t->len[c[p]];
        if (c[q] == END)
            continue;
        if (tally)
            tally_add(tally, c[p], c[q], t->count[w]);
        else
            put_ref(t, c[p], c[q], (uint32_t)(t->units + p));
    }
}

void places_scan(Trainer *t, Tally *tally)
{
    if (t->wide)
        words_scan_32(t, tally);
    else
        words_scan_16(t, tally);
    cells_scan(t, tally);
}

/* ---- the start: pieces to words and cells ------------------------------------- */

/* Before the first step a piece is its bytes, or what earlier merges make of these. */
static void word_add(Trainer *t, const Tok *old, PieceRoom *pr, const char *s, const Piece *p,
                     Ids *v)
{
    v->n = 0;
    if (old)
        tok_piece(old, pr, s, p->len, v);
    else
        for (size_t i = 0; i < p->len; i++)
            ids_add(v, (unsigned char)s[i]);
    if (v->n > 1)
        (t->wide ? word_add_32 : word_add_16)(t, v->id, v->n, p->count);
}

static void long_add(Trainer *t, const Tok *old, PieceRoom *pr, const char *s, const Piece *piece,
                     Ids *v)
{
    uint32_t *c = t->cell, w = (uint32_t)t->nlong++;
    size_t first = t->filled, p = first;
    v->n = 0;
    if (old)
        tok_piece(old, pr, s, piece->len, v);
    for (size_t i = 0, n = old ? v->n : piece->len; i < n; i++) {
        uint32_t id = old ? v->id[i] : (unsigned char)s[i];
        size_t len = (size_t)t->len[id];
        for (size_t j = 1; j + 1 < len; j++)
            c[p + j] = DEAD;
        c[p] = c[p + len - 1] = id;
        p += len;
    }
    t->start[w] = (uint32_t)first, t->count[w] = piece->count;
    for (size_t b = (first + BLOCK - 1) / BLOCK; b <= p / BLOCK; b++)
        t->block[b] = w;
    c[p] = END;
    t->filled = p + 1;
}

/* What a piece of n bytes takes. Words take whatever has few symbols: by bytes, as the symbols of
 * earlier merges are not yet known, so a long piece stays in cells. */
static size_t piece_units(const Trainer *t, size_t n)
{
    return n < 2 || n > t->max_word ? 0 : t->wide ? word_units_32(n) : word_units_16(n);
}

static size_t piece_cells(const Trainer *t, size_t n)
{
    return n > t->max_word ? n + 1 : 0;
}

size_t places_bytes(const Trainer *t, size_t n)
{
    size_t cells = piece_cells(t, n);
    return 4 * (piece_units(t, n) + cells + cells / BLOCK) + (cells ? 12 : 0);
}

static void make_places(Trainer *t, const Pieces *v)
{
    size_t units = 0, cells = 1, nlong = 0;
    for (size_t k = 0; k < v->n; k++) {
        size_t n = v->p[k].len, c = piece_cells(t, n);
        units += piece_units(t, n);
        cells = size_add(cells, c);
        nlong += c > 0;
        t->windows += n > 1 ? n - 1 : 0;
    }
    if (size_add(units, cells) >= DEAD)
        die("the distinct pieces, %zu bytes, are too many: use less text", v->bytes.n);
    t->unit = xreallocarray(NULL, units + 1, sizeof *t->unit);
    t->cells = cells;
    t->cell = xreallocarray(NULL, cells, sizeof *t->cell);
    t->start = xreallocarray(NULL, nlong + 1, sizeof *t->start);
    t->count = xreallocarray(NULL, nlong + 1, sizeof *t->count);
    t->block = xcalloc(cells / BLOCK + 1, sizeof *t->block);
    t->cell[0] = END;
}

/* From the last piece to the first, so that `consume` can shrink meanwhile. */
void places_lay_out(Trainer *t, const Pieces *v, const Tok *old, Pieces *consume)
{
    Ids ids = {0};
    PieceRoom pr = {0};
    make_places(t, v);
    t->filled = 1;
    for (size_t k = v->n; k-- > 0; ) {
        const Piece *p = &v->p[k];
        const char *s = v->bytes.s + p->at;
        if (p->len > t->max_word)
            long_add(t, old, &pr, s, p, &ids);
        else if (p->len > 1)
            word_add(t, old, &pr, s, p, &ids);
        if (consume && k % LAY_OUT == 0)
            pieces_cut(consume, k);
    }
    ids_free(&ids);
    piece_free(&pr);
}

/* How often the long piece that holds cell p occurs. */
static int64_t weight(const Trainer *t, size_t p)
{
    size_t k = t->block[p / BLOCK];
    while (k + 1 < t->nlong && t->start[k + 1] <= p)
        k++;
    return t->count[k];
}

/* ---- merging --------------------------------------------------------------- */

/* Merge the pair at cell p, whose right half is at q. */
static void cell_merge(Trainer *t, size_t p, size_t q)
{
    uint32_t *cell = t->cell, z = t->z;
    size_t end = q + (size_t)t->len[t->b];
    uint32_t x = cell[p - 1], y = cell[end];
    int64_t by = weight(t, p);
    room(&t->left, 1);
    room(&t->right, 1);
    if (x != END) {
        if (x == z)             /* as in bpe_words.h */
            t->lost += by;
        touch(&t->left, x, by, (uint32_t)(t->units + p - (size_t)t->len[x]));
    }
    if (y != END)
        touch(&t->right, y, by, (uint32_t)(t->units + p));
    cell[q - 1] = cell[q] = DEAD;
    cell[p] = cell[end - 1] = z;
}

static bool cell_try(Trainer *t, size_t p)
{
    size_t q = p + (size_t)t->len[t->a];
    if (t->cell[p] != t->a || t->cell[q] != t->b)
        return false;
    cell_merge(t, p, q);
    return true;
}

/* The first cell from p on where a token begins. */
static size_t cell_next(const Trainer *t, size_t p)
{
    while (p < t->cells && t->cell[p] == END)
        p++;
    return p;
}

size_t places_merge(Trainer *t, uint32_t *ref, size_t n)
{
    size_t k, kept;
    if (!ref) {
        (t->wide ? words_merge_all_32 : words_merge_all_16)(t);
        for (size_t p = 0; (p = cell_next(t, p)) < t->cells; p += (size_t)t->len[t->cell[p]])
            cell_try(t, p);
        return 0;
    }
    kept = (t->wide ? words_merge_32 : words_merge_16)(t, ref, n, &k);
    for (; k < n; k++)
        if (cell_try(t, ref[k] - t->units))
            ref[kept++] = ref[k];
    return kept;
}

/* Refs to the pairs of the z that begins at cell p. */
static void cell_find(Trainer *t, size_t p)
{
    uint32_t x = t->cell[p - 1], y = t->cell[p + (size_t)t->len[t->z]];
    if (x != END)
        put_new(t, &t->left, x, (uint32_t)(t->units + p - (size_t)t->len[x]));
    if (y != END && y != t->z)                  /* (z, z) is on the left side */
        put_new(t, &t->right, y, (uint32_t)(t->units + p));
}

void places_find(Trainer *t, const uint32_t *ref, size_t n)
{
    if (!ref) {
        (t->wide ? words_find_all_32 : words_find_all_16)(t);
        for (size_t p = 0; (p = cell_next(t, p)) < t->cells; p += (size_t)t->len[t->cell[p]])
            if (t->cell[p] == t->z)
                cell_find(t, p);
        return;
    }
    size_t k = (t->wide ? words_find_32 : words_find_16)(t, ref, n);
    for (; k < n; k++)
        cell_find(t, ref[k] - t->units);
}
