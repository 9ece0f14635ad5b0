/* words.c -- see words.h. */
#include "text/words.h"
#include "text/tok_int.h"
#include <stdlib.h>
#include <string.h>

static const char *bytes;           /* of the pieces being compared */

static int by_count(const void *a, const void *b)
{
    const Piece *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    int c = memcmp(bytes + x->at, bytes + y->at, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* A special token's name is not a word too; nor is what no tokenizer file may hold. */
static bool may_be(const char *s, size_t n)
{
    for (int k = 0; k < 3; k++)
        if (n == strlen(word_specials[k]) && !memcmp(s, word_specials[k], n)) return false;
    return n <= TOK_MAX_LEN;
}

Tok *words_train(Pieces *v, int vocab, uint64_t *known)
{
    static const char pattern[] = "\\s+|\\S+";
    size_t *keep = xreallocarray(NULL, (size_t)vocab, sizeof *keep), n = 0, all = 0;
    pieces_sort(v);                     /* equal pieces become one */
    bytes = v->bytes.s;
    qsort(v->p, v->n, sizeof *v->p, by_count);
    *known = 0;
    for (size_t i = 0; i < v->n && n + 3 < (size_t)vocab; i++) {
        const Piece *p = &v->p[i];
        if (!may_be(bytes + p->at, p->len) || all + p->len > TOK_MAX_BYTES) continue;
        all += p->len;
        *known += (uint64_t)p->count;
        keep[n++] = i;
    }
    Tok *t = tok_begin("words", n + 3, n + 3);
    for (size_t k = 0; k < 3; k++)
        tok_put_special(t, k, word_specials[k], strlen(word_specials[k]));
    for (size_t k = 0; k < n; k++)
        tok_put(t, 3 + k, bytes + v->p[keep[k]].at, v->p[keep[k]].len);
    tok_put_pattern(t, pattern, strlen(pattern), false);
    t->words = true;
    free(keep);
    return tok_end(t);
}
