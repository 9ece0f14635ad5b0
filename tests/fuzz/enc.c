/* The encoder against the rule, on any bytes: a tokenizer from the first of them, a text from the
 * rest. The text as one piece, too, in windows of a size that the first byte says as well. */
#include "fuzz.h"
#include "../enc_rule.h"
#include "text/enc.h"
#include "text/enc_int.h"
#include "text/utf8.h"
#include <stdlib.h>
#include <string.h>

static const uint32_t merges[][2] = {
    {'a', 'b'}, {'a', 'a'}, {256, 'c'}, {257, 257}, {' ', 256}, {'b', 'c'}, {0xc3, 0xa9},
    {0xef, 0xbf}, {263, 0xbd}, {'\n', '\n'}, {' ', ' '}, {266, 266}, {'b', 'b'}, {259, 256},
    {268, 'a'}, {'1', '1'} };
/* Tokens that begin each other, as of runs in a rank file, and what competes for their ends. */
static const uint32_t chain[][2] = {
    {'a', 'a'}, {256, 'a'}, {256, 256}, {256, 257}, {258, 256}, {258, 257}, {258, 258}, {258, 259},
    {262, 262}, {264, 258}, {'b', 256}, {'b', 'b'}, {257, 'b'}, {267, 266}, {264, 264}, {'c', 'a'} };
enum { MERGES = sizeof merges / sizeof *merges, CHAIN = sizeof chain / sizeof *chain, TOKS = 4 };

static void need(const Ids *want, const uint32_t *id, size_t n)
{
    if (!same(id, n, want)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static Tok *tok[TOKS];
    static TokEnc *enc[TOKS], *small[TOKS];
    static EncModel *model[TOKS];
    static PieceRoom room;
    if (n < 1) return 0;
    int k = data[0] % TOKS;
    if (!tok[k]) {
        tok[k] = k == 3 ? tok_from_merges(chain, CHAIN)
                        : tok_from_merges(merges, k == 0 ? 0 : k == 1 ? MERGES / 2 : MERGES);
        enc[k] = tokenc_new(tok[k]);
        small[k] = tokenc_sized(tok[k], 10);
        model[k] = encmodel_new(tok[k]);
    }
    char *s = malloc(n);                        /* of its own, so that a sanitizer sees its end */
    if (!s) abort();
    memcpy(s, data + 1, n - 1);
    Buf fixed = {0};
    buf_str(&fixed, "");
    uint64_t bad = utf8_repair(&fixed, s, n - 1);
    Ids want = {0}, got = {0};
    by_pieces(tok[k], fixed.s, fixed.n, &want);
    if (tok_encode(enc[k], s, n - 1, &got) != bad) abort();
    need(&want, got.id, got.n);
    TokOut out = { .width = 2 };
    tok_encode_valid(small[k], fixed.s, fixed.n, &out);
    got.n = 0;
    for (size_t i = 0; i < out.n; i++) ids_add(&got, ((uint16_t *)out.id)[i]);
    need(&want, got.id, got.n);
    size_t most = fixed.n < 1000 ? fixed.n : 1000;      /* the rule takes the square of it */
    want.n = got.n = 0;
    naive(tok[k], fixed.s, most, &want);
    enc_long(model[k], &room, fixed.s, most, 1 + data[0], &got);
    need(&want, got.id, got.n);
    free(s), buf_free(&fixed), ids_free(&want), ids_free(&got), tokout_free(&out);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const s[] = {
        "2abc ab aabb\n\nabcabc\xc3\xa9", "1\xef\xbf\xbd\xff\xc3 11111'll  x",
        "3aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabaaaaaaaaaaaaacaaaaaaaaaaaabbaaaaaaaaaaaaaaaaaaa",
        "2aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
        "0\xe6\x97\xa5 <|bos|>\r\n  \t" };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) put(s[i], strlen(s[i]));
}
