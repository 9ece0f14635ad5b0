/* toks.h -- what the fuzz targets of tokenizer files share: seeds of all kinds, and what must hold
 * of every tokenizer that was accepted. */
#ifndef TOKS_H
#define TOKS_H
#include "base/io.h"
#include "guard.h"
#include "text/convert.h"
#include "text/tok_int.h"
#include <string.h>

static void must(bool x) { if (!x) abort(); }

/* Text that was encoded comes back, unless a word is unknown; every id is one of the tokenizer's. */
static void check_text(const Tok *t, const char *s, size_t n)
{
    PieceRoom r = {0};
    Ids v = {0};
    Buf back = {0};
    bool unknown = false;
    for (size_t i = 0, next; i < n; i = next) {
        next = split_kind_next(tok_split(t), s, n, i);
        must(next > i && next <= n);
        tok_piece(t, &r, s + i, next - i, &v);
    }
    for (size_t i = 0; i < v.n; i++) {
        size_t len;
        bool unk = tok_words(t) && v.id[i] == 1;
        must(v.id[i] < (uint32_t)tok_vocab(t) && (unk || !tok_is_special(t, (int)v.id[i])));
        unknown = unknown || unk;
        const char *b = tok_bytes(t, (int)v.id[i], &len);
        buf_add(&back, b, len);
    }
    must(unknown || (back.n == n && !memcmp(back.s, s, n)));
    piece_free(&r), ids_free(&v), buf_free(&back);
}

/* What is written as a .tok file reads back as the same tokenizer. */
static void check_tok(const Tok *t)
{
    Buf b = {0}, again = {0};
    tokfile_print(t, &b);
    buf_u64(&b, tok_hash(t));
    Tok *u = tokfile_parse("again", b.s, b.n);
    tokfile_print(u, &again);
    must(tok_hash(u) == tok_hash(t) && again.n == b.n - 8 && !memcmp(again.s, b.s, again.n));
    must(tok_plain(u) == tok_plain(t));
    must(tok_plain(t) || u->npairs == t->npairs);      /* a plain one makes them when asked */
    tok_free(u), buf_free(&b), buf_free(&again);
    check_text(t, "abab 'x's  abcabc\n\xc3\xa9\xff 1234aaaaaaa", 34);
}

static Tok *seed_words(void)
{
    Tok *t = tok_begin("seed", 6, 6);
    for (size_t k = 0; k < 3; k++) tok_put_special(t, k, word_specials[k], 5);
    tok_put(t, 3, " ", 1), tok_put(t, 4, "abab", 4), tok_put(t, 5, "  ", 2);
    tok_put_pattern(t, "\\s+|\\S+", 7, false);
    t->words = true;
    return tok_end(t);
}

/* Plain; bytes with other ids, gaps and specials between; by rank; other patterns; words. */
static Tok *seed_tok(int which)
{
    static const uint32_t merges[][2] = { {'a', 'b'}, {256, 'c'}, {' ', 256}, {'a', 'a'},
                                          {259, 259} };
    if (which == 0)
        return tok_from_merges(merges, 5);
    if (which == 6)
        return seed_words();
    Tok *t = tok_begin("seed", 300, 600);
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        tok_put(t, (uint64_t)(which == 1 ? b : 2 * ((b + 40) & 255) + 7), &c, 1);
    }
    tok_put(t, 520, "ab", 2), tok_put(t, 530, "aa", 2), tok_put(t, 540, "aaaa", 4);
    if (which == 3)
        tok_put(t, 525, "abcab", 5), tok_put(t, 535, "bca", 3), tok_put(t, 560, "aaa", 3);
    tok_put_special(t, 590, "<|bos|>", 7), tok_put_special(t, which == 1 ? 257 : 6, "<x>", 3);
    const char *pattern = split_kind_pattern((SplitKind)(which % SPLIT_KINDS));
    tok_put_pattern(t, pattern, strlen(pattern), false);
    if (which == 3) {
        tok_merge_by_rank(t);
    } else {
        uint32_t a = (uint32_t)t->byte_id['a'];
        tok_put_merge(t, a, (uint32_t)t->byte_id['b']);
        tok_put_merge(t, a, a);
        tok_put_merge(t, 530, 530);
    }
    t->nfc = which == 4;
    return tok_end(t);
}
enum { SEED_TOKS = 7 };

#endif
