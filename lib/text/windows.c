/* windows.c -- see windows.h.
 *
 * Tokens are the encoding of their bytes if and only if each two neighbours are that of theirs: the
 * merges of a stretch are made in the same order whatever stands beside it, up to the first one
 * across its border, and such a one would be made in the encoding of the two tokens beside that
 * border as well. So if the encodings of two stretches that overlap have one token in common, at
 * the same place, then those of the left up to it and those of the right from it on are the
 * encoding of both stretches together.
 *
 * Each window begins at a token some way before the end of what is encoded by now. If it has no
 * token in common with that, one of twice the size and from further back is tried; one that begins
 * where the piece does needs none. */
#include "text/windows.h"
#include <string.h>

enum { CALM = 8 };              /* windows that fit, after which half the size is tried again */

/* Ids from out->id[k] on and id[0..n) begin at the same place. Puts the first token that is in both
 * at the end of out, without itself; returns which of id it is, n: none. */
static size_t meet(const int32_t *len, Ids *out, size_t k, const uint32_t *id, size_t n)
{
    size_t a = 0, b = 0, j = 0;         /* bytes before out->id[k] and id[j] */
    while (k < out->n && j < n) {
        if (a == b && out->id[k] == id[j]) return out->n = k, j;
        if (a <= b) a += (size_t)len[out->id[k++]];
        else b += (size_t)len[id[j++]];
    }
    return n;
}

static void add(Ids *v, const uint32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++) ids_add(v, id[i]);
}

void windows_encode(const Windows *w, const char *s, size_t n, Ids *out)
{
    size_t start = out->n, size = w->first, calm = 0, got;
    for (size_t end = 0; end < n; ) {                   /* s[0..end) is encoded */
        size_t k = out->n, at = end;
        while (k > start && end - at < size / 8) at -= (size_t)w->len[out->id[--k]];
        size_t next = n - at < size ? n : at + size;
        if (next - end >= size / 4 || next == n) {
            const uint32_t *id = w->merge(w->arg, s + at, next - at, &got);
            size_t from = meet(w->len, out, k, id, got);
            if (k == start) out->n = start, from = 0;
            if (from < got) {
                add(out, id + from, got - from);
                end = next;
                if (++calm == CALM && size > w->first) size /= 2;
                if (calm == CALM) calm = 0;
                continue;
            }
        }
        calm = 0;
        size *= 2;
    }
}
