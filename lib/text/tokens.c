/* tokens.c -- see tokens.h and pipegpt-tokens(5).
 *
 * stream  = (head block* end)+
 * head    = "PGTOKENS" u32 version, flags, vocab, bos  u64 tok_hash  u64 xxh3 of those 32 bytes
 * block   = "DATA" u32 flags, pieces, tokens;  pieces * u32 length;  tokens * id;
 *           (tokens+7)/8 mask bytes if the stream has masks;  u64 xxh3 of all of the block before
 * end     = "END\n" u32 0  u64 documents, tokens, blocks;  u64 xxh3 of these 32 bytes and the chain
 *
 * The chain is the head's hash, then for each block xxh3(chain, hash of the block): it finds blocks
 * lost, doubled or out of order. A document longer than what is left in its block goes on as the
 * first piece of the next one (flag MORE). The limits on a block bound what a reader must hold
 * before it can check the hash, whatever the counts say. */
#include "text/tokens.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC   "PGTOKENS"
#define VERSION_ 1u
enum { HEAD = 40, TAG = 16, END = 40, HASH = 8, F_MASKS = 1, B_MORE = 1 };
enum { BLOCK_TOKENS = 1 << 19, BLOCK_PIECES = 1 << 16 };

typedef unsigned long long ull;

/* ---- shared by the two formats -------------------------------------------- */

int token_width(uint32_t vocab)
{
    return vocab <= 65536 ? 2 : 4;
}

void token_put(uint8_t *to, const uint32_t *id, size_t n, int width)
{
    if (width == 2) {
        for (size_t i = 0; i < n; i++) {
            to[2 * i] = (uint8_t)id[i];
            to[2 * i + 1] = (uint8_t)(id[i] >> 8);
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        to[4 * i] = (uint8_t)id[i];
        to[4 * i + 1] = (uint8_t)(id[i] >> 8);
        to[4 * i + 2] = (uint8_t)(id[i] >> 16);
        to[4 * i + 3] = (uint8_t)(id[i] >> 24);
    }
}

/* From integers of this machine to little-endian ones, of 2 and of 4 bytes. */
static void put16(uint8_t *to, const char *from, size_t n)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        memcpy(to, from, 2 * n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, from + 2 * i, 2);
        to[2 * i] = (uint8_t)x;
        to[2 * i + 1] = (uint8_t)(x >> 8);
    }
}

static void put32(uint8_t *to, const char *from, size_t n)
{
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        memcpy(to, from, 4 * n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t x;
        memcpy(&x, from + 4 * i, 4);
        token_put(to + 4 * i, &x, 1, 4);
    }
}

uint32_t token_get(uint32_t *id, const uint8_t *from, size_t n, int width)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = from + i * (size_t)width;
        id[i] = (uint32_t)p[0] | (uint32_t)p[1] << 8;
        if (width == 4) id[i] |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        max = id[i] > max ? id[i] : max;
    }
    return max;
}

void mask_put(uint8_t *to, size_t bit, const uint8_t *mask, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[(bit + i) / 8] |= (uint8_t)((mask[i] != 0) << (bit + i) % 8);
}

void mask_get(uint8_t *mask, const uint8_t *from, size_t bit, size_t n)
{
    for (size_t i = 0; i < n; i++) mask[i] = from[(bit + i) / 8] >> (bit + i) % 8 & 1;
}

void tokens_same(const char *name, const TokenHead *h, const char *first, const TokenHead *want)
{
    if (h->tok_hash != want->tok_hash)
        die("%s: made with tokenizer %016llx, but %s with %016llx", name, (ull)h->tok_hash, first,
            (ull)want->tok_hash);
    if (h->vocab != want->vocab)
        die("%s: vocabulary of %u, but %s has %u", name, h->vocab, first, want->vocab);
    if (h->bos != want->bos)
        die("%s: <|bos|> is token %u, but in %s it is %u", name, h->bos, first, want->bos);
    if (h->masks != want->masks)
        die("%s: has %s, but %s has %s", name, h->masks ? "loss masks" : "no loss masks", first,
            want->masks ? "some" : "none");
}

static void head_put(Buf *b, const TokenHead *h)
{
    buf_add(b, MAGIC, 8);
    buf_u32(b, VERSION_);
    buf_u32(b, h->masks ? F_MASKS : 0);
    buf_u32(b, h->vocab);
    buf_u32(b, h->bos);
    buf_u64(b, h->tok_hash);
    buf_u64(b, xxh3(b->s, b->n));
}

/* xxh3 of two numbers: one link of the chain */
static uint64_t link_hash(uint64_t chain, uint64_t hash)
{
    Buf b = {0};
    buf_u64(&b, chain);
    buf_u64(&b, hash);
    uint64_t x = xxh3(b.s, b.n);
    buf_free(&b);
    return x;
}

/* ---- writing ---------------------------------------------------------------- */

struct TokenWriter {
    Out *out;
    TokenHead head;
    int width;
    Buf block, lens, ids, bits;         /* the block being filled: head, pieces, ids, mask bits */
    XXH3_state_t *hash;                 /* of a block */
    size_t pieces, tokens;              /* in it */
    uint64_t all_docs, all_tokens, blocks, chain;
};

TokenWriter *tokens_create(const char *path, const TokenHead *h)
{
    assert(h->vocab > 0 && h->vocab <= INT32_MAX && (h->bos < h->vocab || h->bos == UINT32_MAX));
    TokenWriter *w = xcalloc(1, sizeof *w);
    w->out = out_open(path, OUT_BINARY);
    w->hash = XXH3_createState();
    if (!w->hash) die("out of memory");
    w->head = *h;
    w->width = token_width(h->vocab);
    head_put(&w->block, h);
    w->chain = get_u64(w->block.s + HEAD - HASH);
    out_write(w->out, w->block.s, w->block.n);
    out_flush(w->out);          /* a reader can tell "died at once" from "was never there" */
    return w;
}

static void block_put(TokenWriter *w, Buf *part)
{
    XXH3_64bits_update(w->hash, part->s, part->n);
    out_write(w->out, part->s, part->n);
    buf_clear(part);
}

static void block_flush(TokenWriter *w, bool more)
{
    Buf *b = &w->block;
    buf_clear(b);
    buf_add(b, "DATA", 4);
    buf_u32(b, more ? B_MORE : 0);
    buf_u32(b, (uint32_t)w->pieces);
    buf_u32(b, (uint32_t)w->tokens);
    XXH3_64bits_reset(w->hash);
    block_put(w, b);
    block_put(w, &w->lens);
    block_put(w, &w->ids);
    block_put(w, &w->bits);
    uint64_t hash = XXH3_64bits_digest(w->hash);
    buf_u64(b, hash);
    out_write(w->out, b->s, b->n);
    w->chain = link_hash(w->chain, hash);
    w->blocks++;
    w->pieces = w->tokens = 0;
}

/* Lengthen b by n zero bytes; returns where they begin. */
static uint8_t *grow(Buf *b, size_t n)
{
    buf_reserve(b, n);
    uint8_t *p = (uint8_t *)b->s + b->n;
    memset(p, 0, n + 1);        /* with the NUL that buf.h promises */
    b->n += n;
    return p;
}

/* A document begins. A full block is kept until it is known whether its last document goes on. */
static void doc_begin(TokenWriter *w)
{
    if (w->tokens == BLOCK_TOKENS || w->pieces == BLOCK_PIECES) block_flush(w, false);
    buf_u32(&w->lens, 0);
    w->pieces++;
    w->all_docs++;
}

/* Room for the next k <= n tokens of the document; *k is set. */
static uint8_t *doc_room(TokenWriter *w, size_t n, size_t *k)
{
    if (w->tokens == BLOCK_TOKENS) {
        block_flush(w, true);
        buf_u32(&w->lens, 0);
        w->pieces++;
    }
    size_t room = BLOCK_TOKENS - w->tokens, bytes;
    *k = n < room ? n : room;
    bytes = *k * (size_t)w->width;
    buf_reserve(&w->ids, bytes);
    char *last = w->lens.s + w->lens.n - 4;
    uint32_t len = get_u32(last) + (uint32_t)*k;
    for (int i = 0; i < 4; i++) last[i] = (char)(len >> 8 * i);
    w->ids.n += bytes;
    w->tokens += *k;
    w->all_tokens += *k;
    return (uint8_t *)w->ids.s + w->ids.n - bytes;
}

void tokens_write(TokenWriter *w, const uint32_t *id, const uint8_t *mask, size_t n)
{
    assert((mask != NULL) == w->head.masks || n == 0);
    for (size_t i = 0; i < n; i++) assert(id[i] < w->head.vocab);
    doc_begin(w);
    for (size_t at = 0, k; at < n; at += k) {
        uint8_t *to = doc_room(w, n - at, &k);
        token_put(to, id + at, k, w->width);
        if (!w->head.masks) continue;
        grow(&w->bits, (w->tokens + 7) / 8 - w->bits.n);
        mask_put((uint8_t *)w->bits.s, w->tokens - k, mask + at, k);
    }
}

void tokens_part(TokenWriter *w, const void *id, size_t n, bool first)
{
    assert(!w->head.masks);
    if (first) doc_begin(w);
    const char *from = id;
    for (size_t at = 0, k; at < n; at += k) {
        uint8_t *to = doc_room(w, n - at, &k);
        if (w->width == 2) put16(to, from + 2 * at, k);
        else put32(to, from + 4 * at, k);
    }
}

void tokens_close(TokenWriter *w)
{
    if (w->pieces > 0) block_flush(w, false);
    Buf *b = &w->block;
    buf_clear(b);
    buf_add(b, "END\n", 4);
    buf_u32(b, 0);
    buf_u64(b, w->all_docs);
    buf_u64(b, w->all_tokens);
    buf_u64(b, w->blocks);
    buf_u64(b, w->chain);               /* hashed, not written */
    uint64_t hash = xxh3(b->s, b->n);
    b->n -= 8;
    buf_u64(b, hash);
    out_write(w->out, b->s, b->n);
    out_close(w->out);
    XXH3_freeState(w->hash);
    buf_free(b);
    buf_free(&w->lens);
    buf_free(&w->ids);
    buf_free(&w->bits);
    free(w);
}

/* ---- reading ---------------------------------------------------------------- */

struct TokenReader {
    In *in;
    TokenHead head;
    int width;
    Buf block;                  /* the block being read, checked */
    size_t pieces, tokens;      /* in it */
    size_t piece, token;        /* how many of them were given out */
    bool more;                  /* its last piece goes on in the next block */
    bool ended;
    uint64_t docs, all_tokens, blocks, chain;   /* since the last header */
    uint64_t total_docs;        /* in all of the file, for messages */
    uint32_t *id;               /* the document given out */
    uint8_t *mask;
    size_t n, cap;
};

const char *tokens_name(const TokenReader *r)
{
    return in_name(r->in);
}

uint64_t tokens_offset(const TokenReader *r)
{
    return in_offset(r->in);
}

_Noreturn static void bad(const TokenReader *r, uint64_t at, const char *why)
{
    die("%s: byte %llu: %s", in_name(r->in), (ull)at, why);
}

/* The rest of a header, of which TAG bytes are in b. */
static void head_get(TokenReader *r, Buf *b, uint64_t at, TokenHead *h)
{
    if (memcmp(b->s, MAGIC, 8) != 0)
        bad(r, at, at ? "neither a block, a trailer nor a header" : "not a token stream");
    if (get_u32(b->s + 8) != VERSION_)
        die("%s: byte %llu: version %u of the token stream is not known here", in_name(r->in),
            (ull)at, get_u32(b->s + 8));
    in_exact(r->in, grow(b, HEAD - TAG), HEAD - TAG, "a header");
    uint64_t hash = get_u64(b->s + HEAD - HASH);
    if (xxh3(b->s, HEAD - HASH) != hash) bad(r, at, "the header is damaged (its hash differs)");
    uint32_t flags = get_u32(b->s + 12);
    *h = (TokenHead){ .vocab = get_u32(b->s + 16), .bos = get_u32(b->s + 20),
                      .masks = flags & F_MASKS, .tok_hash = get_u64(b->s + 24) };
    if (flags & ~(uint32_t)F_MASKS) bad(r, at, "flags that are not known here");
    if (h->vocab == 0 || h->vocab > INT32_MAX) bad(r, at, "no valid vocabulary size");
    if (h->bos >= h->vocab && h->bos != UINT32_MAX) bad(r, at, "<|bos|> is outside the vocabulary");
    r->chain = hash;
    r->docs = r->all_tokens = r->blocks = 0;
}

/* The rest of a block, of which TAG bytes are in r->block. */
static void block_get(TokenReader *r, uint64_t at)
{
    Buf *b = &r->block;
    uint32_t flags = get_u32(b->s + 4);
    size_t pieces = get_u32(b->s + 8), tokens = get_u32(b->s + 12);
    if (flags & ~(uint32_t)B_MORE || pieces == 0 || pieces > BLOCK_PIECES || tokens > BLOCK_TOKENS)
        bad(r, at, "impossible counts in a block");
    size_t rest = pieces * 4 + tokens * (size_t)r->width;
    if (r->head.masks) rest += (tokens + 7) / 8;
    in_exact(r->in, grow(b, rest + HASH), rest + HASH, "a block");
    uint64_t hash = get_u64(b->s + TAG + rest);
    if (xxh3(b->s, TAG + rest) != hash) bad(r, at, "the block is damaged (its hash differs)");
    uint64_t sum = 0;
    for (size_t i = 0; i < pieces; i++) sum += get_u32(b->s + TAG + 4 * i);
    if (sum != tokens) bad(r, at, "lengths of a block that do not add up");
    r->chain = link_hash(r->chain, hash);
    r->blocks++;
    r->pieces = pieces;
    r->tokens = tokens;
    r->piece = r->token = 0;
    r->more = flags & B_MORE;
}

/* The rest of a trailer, of which TAG bytes are in b. */
static void end_get(TokenReader *r, Buf *b, uint64_t at)
{
    in_exact(r->in, grow(b, END - TAG), END - TAG, "the trailer");
    uint64_t hash = get_u64(b->s + END - HASH);
    b->n -= HASH;
    buf_u64(b, r->chain);
    if (xxh3(b->s, b->n) != hash || get_u32(b->s + 4) != 0)
        bad(r, at, "the trailer does not agree with what came before it");
    if (r->more) bad(r, at, "the trailer comes inside a document");
    if (get_u64(b->s + 8) != r->docs || get_u64(b->s + 16) != r->all_tokens ||
        get_u64(b->s + 24) != r->blocks)
        bad(r, at, "the trailer's counts differ from what came before it");
}

static bool at_end(TokenReader *r)
{
    const char *p;
    return in_some(r->in, &p) == 0;
}

static void tag_get(TokenReader *r, const char *what)
{
    buf_clear(&r->block);
    in_exact(r->in, grow(&r->block, TAG), TAG, what);
}

TokenReader *tokens_open(const char *path, TokenHead *h)
{
    TokenReader *r = xcalloc(1, sizeof *r);
    r->in = in_open(path);
    if (at_end(r))
        die("%s: empty; a token stream was expected (did the program before this one fail?)",
            in_name(r->in));
    tag_get(r, "the header");
    head_get(r, &r->block, 0, &r->head);
    r->width = token_width(r->head.vocab);
    *h = r->head;
    return r;
}

/* Load the next block; false at the end of the last stream. */
static bool block_next(TokenReader *r)
{
    for (;;) {
        uint64_t at = in_offset(r->in);
        if (at_end(r))
            bad(r, at, "ends without a trailer: the program that wrote it did not finish");
        tag_get(r, "a token stream");
        if (memcmp(r->block.s, "DATA", 4) == 0) return block_get(r, at), true;
        if (memcmp(r->block.s, "END\n", 4) != 0) bad(r, at, "neither a block nor a trailer");
        end_get(r, &r->block, at);
        if (at_end(r)) return r->ended = true, false;
        at = in_offset(r->in);
        TokenHead h;
        tag_get(r, "a header");
        head_get(r, &r->block, at, &h);
        char *name = xasprintf("%s: byte %llu", in_name(r->in), (ull)at);
        tokens_same(name, &h, "what came before", &r->head);
        free(name);
    }
}

/* Append the next piece of the block to the document. */
static void piece_next(TokenReader *r)
{
    const uint8_t *base = (const uint8_t *)r->block.s + TAG;
    const uint8_t *ids = base + 4 * r->pieces, *bits = ids + r->tokens * (size_t)r->width;
    size_t n = get_u32(base + 4 * r->piece), need = size_add(r->n, n);
    if (need > r->cap || !r->id) {
        r->cap = need > 2 * r->cap ? need : 2 * r->cap;
        r->cap = r->cap < 1024 ? 1024 : r->cap;
        r->id = xreallocarray(r->id, r->cap, sizeof *r->id);
        if (r->head.masks) r->mask = xrealloc(r->mask, r->cap);
    }
    uint32_t max = token_get(r->id + r->n, ids + r->token * (size_t)r->width, n, r->width);
    if (max >= r->head.vocab)
        die("%s: document %llu has token %u, but the vocabulary ends at %u", in_name(r->in),
            (ull)r->total_docs + 1, max, r->head.vocab - 1);
    if (r->head.masks) mask_get(r->mask + r->n, bits, r->token, n);
    r->n = need;
    r->token += n;
    r->piece++;
    r->all_tokens += n;
}

bool tokens_next(TokenReader *r, const uint32_t **id, const uint8_t **mask, size_t *n)
{
    r->n = 0;
    if (r->ended || (r->piece == r->pieces && !block_next(r))) return false;
    piece_next(r);
    while (r->piece == r->pieces && r->more) {
        block_next(r);          /* cannot be the end: end_get() refuses one inside a document */
        piece_next(r);
    }
    r->docs++;
    r->total_docs++;
    *id = r->id;
    *mask = r->mask;
    *n = r->n;
    return true;
}

void tokens_finish(TokenReader *r)
{
    if (!r) return;
    in_close(r->in);
    buf_free(&r->block);
    free(r->id);
    free(r->mask);
    free(r);
}
