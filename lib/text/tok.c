/* tok.c -- a tokenizer's tables; see tok.h and tok_int.h. Encoding is in enc.c and piece.c. */
#include "text/tok_int.h"
#include "base/io.h"
#include "base/map.h"
#include "text/split.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const char *const special_names[SP_COUNT] = {
    "<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>",
    "<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>",
};

const char *const word_specials[3] = { "<pad>", "<unk>", "<eos>" };

/* ---- pairs of tokens ------------------------------------------------------ */

static size_t slots_for(size_t n)                       /* at least a third of them stay empty */
{
    size_t k = 1024;
    while (k < n + n / 2)
        k *= 2;
    return k;
}

static size_t pair_home(const Tok *t, uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return (x ^ x >> 32) & t->pair_mask;
}

static PairSlot *find_pair(const Tok *t, PairSlot *pairs, uint32_t a, uint32_t b)
{
    size_t i = pair_home(t, a, b);
    while (pairs[i].id1 && (pairs[i].a != a || pairs[i].b != b))
        i = (i + 1) & t->pair_mask;
    return &pairs[i];
}

/* The pairs of tok_put_plain(), when they are asked for: encoding has a better table of them. */
static __attribute__((noinline)) PairSlot *make_pairs(const Tok *shared)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    Tok *t = (Tok *)(uintptr_t)shared;
    pthread_mutex_lock(&lock);
    PairSlot *pairs = atomic_load_explicit(&t->pairs, memory_order_relaxed);
    if (!pairs) {
        t->pair_mask = slots_for(t->merges) - 1;
        pairs = xcalloc(t->pair_mask + 1, sizeof *pairs);
        for (uint32_t k = 0; k < t->merges; k++) {
            uint32_t a = t->pair[k][0], b = t->pair[k][1];
            *find_pair(t, pairs, a, b) = (PairSlot){ a, b, 256 + k + 1, k };
        }
        t->npairs = t->merges;
        atomic_store_explicit(&t->pairs, pairs, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return pairs;
}

PairSlot *tok_slot(const Tok *t, uint32_t a, uint32_t b)
{
    PairSlot *pairs = atomic_load_explicit(&t->pairs, memory_order_acquire);
    if (!pairs)
        pairs = make_pairs(t);
    return find_pair(t, pairs, a, b);
}

static uint32_t *id_slot(const Tok *t, size_t home, const char *s, size_t n)
{
    size_t i = home & t->id_mask;
    for (uint32_t id; (id = t->ids[i]); i = (i + 1) & t->id_mask)
        if (t->span[id - 1].n == n && !memcmp(t->bytes.s + t->span[id - 1].at, s, n))
            break;
    return &t->ids[i];
}

int tok_pair(const Tok *t, uint32_t a, uint32_t b)
{
    return (int)tok_slot(t, a, b)->id1 - 1;
}

int tok_find(const Tok *t, const char *s, size_t n)
{
    if (n == 0 || n > (size_t)t->max_len)
        return -1;
    return (int)*id_slot(t, xxh3(s, n), s, n) - 1;
}

/* ---- making --------------------------------------------------------------- */

/* Memory follows the number of tokens: that is why ids may not be scattered at will. */
Tok *tok_begin(const char *name, size_t tokens, uint64_t vocab)
{
    if (tokens > TOK_MAX_MERGES + 256 + TOK_MAX_SPECIALS)
        die("%s: %zu tokens: at most %d are possible", name, tokens,
            TOK_MAX_MERGES + 256 + TOK_MAX_SPECIALS);
    if (vocab > 2 * (uint64_t)tokens + 65536)
        die("%s: ids reach %" PRIu64 ", but there are %zu tokens: too many gaps", name, vocab - 1,
            tokens);
    Tok *t = xcalloc(1, sizeof *t);
    t->name = name;
    t->vocab = (int)vocab;
    t->span = xcalloc(vocab + 1, sizeof *t->span);
    t->len = xcalloc(vocab + 1, sizeof *t->len);
    t->id_mask = slots_for(tokens) - 1;
    t->ids = xcalloc(t->id_mask + 1, sizeof *t->ids);
    for (int b = 0; b < 256; b++)
        t->byte_id[b] = -1;
    for (int k = 0; k < SP_COUNT; k++)
        t->special[k] = -1;
    return t;
}

static void put_bytes(Tok *t, uint64_t id, const char *s, size_t n)
{
    if (id >= (uint64_t)t->vocab)
        die("%s: token %" PRIu64 ": ids end at %d", t->name, id, t->vocab - 1);
    if (t->span[id].n)
        die("%s: two tokens have the id %" PRIu64, t->name, id);
    t->span[id] = (Span){ (uint32_t)t->bytes.n, (uint32_t)n };
    buf_add(&t->bytes, s, n);
}

void tok_put(Tok *t, uint64_t id, const char *s, size_t n)
{
    if (n == 0 || n > TOK_MAX_LEN)
        die("%s: token %" PRIu64 " has %zu bytes; at most %d are possible", t->name, id, n,
            TOK_MAX_LEN);
    if (t->bytes.n + n > TOK_MAX_BYTES)
        die("%s: the first %zu tokens have more than %d bytes in all", t->name, t->ordinary + 1,
            TOK_MAX_BYTES);
    uint32_t *slot = id_slot(t, xxh3(s, n), s, n);
    if (*slot)
        die("%s: tokens %" PRIu32 " and %" PRIu64 " have the same bytes", t->name, *slot - 1, id);
    put_bytes(t, id, s, n);
    *slot = (uint32_t)id + 1;
    t->len[id] = (int32_t)n;
    if ((int)n > t->max_len)
        t->max_len = (int)n;
    if (n == 1)
        t->byte_id[(unsigned char)*s] = (int)id;
    t->ordinary++;
}

enum { STEP = 16 };             /* bytes that are there after the end of t->bytes while it is made */

static inline char *copy_steps(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i += STEP) {
        char part[STEP];        /* it may reach into `to` */
        memcpy(part, from + i, STEP);
        memcpy(to + i, part, STEP);
    }
    return to + n;
}

/* The bytes of all ids, whose lengths are known. */
static void join_all(Tok *t)
{
    char *to = t->bytes.s;
    for (uint32_t id = 0, at = 0; id < t->ordinary; id++) {
        uint32_t n = (uint32_t)t->len[id];
        t->span[id] = (Span){ at, n };
        if (id < 256) {
            to[at] = (char)id;
        } else {
            const uint32_t *pair = t->pair[id - 256];
            const Span *a = &t->span[pair[0]], *b = &t->span[pair[1]];
            copy_steps(copy_steps(to + at, to + a->at, a->n), to + b->at, b->n);
        }
        at += n;
        if ((int)n > t->max_len)
            t->max_len = (int)n;
    }
}

/* Ids by their bytes; slots are asked for some tokens before they are looked at. */
static void index_all(Tok *t)
{
    enum { AHEAD = 16 };
    size_t home[AHEAD];
    const char *s = t->bytes.s;
    for (size_t next = 0, id = 0; id < t->ordinary; id++) {
        for (; next < t->ordinary && next < id + AHEAD; next++) {
            home[next % AHEAD] = xxh3(s + t->span[next].at, t->span[next].n);
            __builtin_prefetch(&t->ids[home[next % AHEAD] & t->id_mask]);
        }
        uint32_t *slot = id_slot(t, home[id % AHEAD], s + t->span[id].at, t->span[id].n);
        if (*slot)
            die("%s: tokens %" PRIu32 " and %zu have the same bytes", t->name, *slot - 1, id);
        *slot = (uint32_t)id + 1;
    }
}

/* Lengths first: merges can double, so a small file may ask for more than there is room for. */
static size_t measure(Tok *t)
{
    size_t sum = 256;
    for (int b = 0; b < 256; b++)
        t->len[b] = 1;
    for (uint32_t id = 256; id < t->ordinary; id++) {
        uint32_t a = t->pair[id - 256][0], b = t->pair[id - 256][1];
        if (a >= id || b >= id)
            die("%s: token %" PRIu32 " is made of %" PRIu32 " and %" PRIu32
                ", and not both are older", t->name, id, a, b);
        t->len[id] = t->len[a] + t->len[b];
        if (t->len[id] > TOK_MAX_LEN)
            die("%s: token %" PRIu32 " has %" PRId32 " bytes; at most %d are possible", t->name, id,
                t->len[id], TOK_MAX_LEN);
        sum += (size_t)t->len[id];
        if (sum > TOK_MAX_BYTES)
            die("%s: the first %" PRIu32 " tokens have more than %d bytes in all", t->name, id + 1,
                TOK_MAX_BYTES);
    }
    return sum;
}

void tok_put_plain(Tok *t, const char *m, size_t merges)
{
    t->merges = merges;
    t->ordinary = 256 + merges;
    t->pair = xreallocarray(NULL, merges, sizeof *t->pair);
    for (size_t k = 0; k < merges; k++)
        t->pair[k][0] = get_u32(m + 8 * k), t->pair[k][1] = get_u32(m + 8 * k + 4);
    for (int b = 0; b < 256; b++)
        t->byte_id[b] = b;
    size_t n = measure(t);
    buf_reserve(&t->bytes, n + STEP);
    memset(t->bytes.s, 0, STEP);
    t->bytes.n = n;
    join_all(t);
    t->bytes.s[n] = 0;
    index_all(t);
    t->whole = true;
}

void tok_put_special(Tok *t, uint64_t id, const char *s, size_t n)
{
    if (n == 0 || n > TOK_MAX_NAME || utf8_valid(s, n) < n)
        die("%s: special token %" PRIu64 " has no valid name", t->name, id);
    if (t->specials == TOK_MAX_SPECIALS)
        die("%s: more than %d special tokens", t->name, TOK_MAX_SPECIALS);
    put_bytes(t, id, s, n);
    for (int k = 0; k < SP_COUNT; k++)
        if (n == strlen(special_names[k]) && !memcmp(s, special_names[k], n))
            t->special[k] = (int)id;
    t->specials++;
}

void tok_put_pattern(Tok *t, const char *s, size_t n, bool portable)
{
    int kind = split_kind_of(s, n, portable);
    if (kind < 0)
        die("%s: splits text by a pattern that is not known here: %.*s", t->name,
            n > 400 ? 400 : (int)n, s);
    t->kind = (SplitKind)kind;
    free(t->pattern);
    t->pattern = xmalloc(n + 1);
    memcpy(t->pattern, s, n);
    t->pattern[n] = 0;
}

static void more_pairs(Tok *t)
{
    PairSlot *old = t->pairs;
    size_t n = t->pair_mask + 1;
    t->pair_mask = 2 * n - 1;
    t->pairs = xcalloc(2 * n, sizeof *old);
    for (size_t i = 0; i < n; i++)
        if (old[i].id1)
            *tok_slot(t, old[i].a, old[i].b) = old[i];
    free(old);
}

static void put_pair(Tok *t, uint32_t a, uint32_t b, uint32_t id, uint32_t rank)
{
    PairSlot *p = tok_slot(t, a, b);
    if (2 * t->npairs > t->pair_mask)
        more_pairs(t), p = tok_slot(t, a, b);
    if (p->id1)
        die("%s: merges %" PRIu32 " and %" PRIu32 " are of the same two tokens, %" PRIu32 " and %"
            PRIu32, t->name, p->rank, rank, a, b);
    *p = (PairSlot){ a, b, id + 1, rank };
    t->npairs++;
}

void tok_put_merge(Tok *t, uint32_t a, uint32_t b)
{
    if (a >= (uint32_t)t->vocab || b >= (uint32_t)t->vocab || !t->len[a] || !t->len[b])
        die("%s: merge %zu is of %" PRIu32 " and %" PRIu32 ", and not both are ordinary tokens",
            t->name, t->merges, a, b);
    if (t->merges >= TOK_MAX_MERGES)
        die("%s: more than %d merges", t->name, TOK_MAX_MERGES);
    size_t n = (size_t)t->len[a] + (size_t)t->len[b];
    int id = -1;
    if (n <= (size_t)t->max_len) {
        buf_reserve(&t->bytes, n);                      /* room after the end: scratch */
        char *s = t->bytes.s + t->bytes.n;
        memcpy(s, t->bytes.s + t->span[a].at, (size_t)t->len[a]);
        memcpy(s + t->len[a], t->bytes.s + t->span[b].at, (size_t)t->len[b]);
        id = tok_find(t, s, n);
    }
    if (id < 0)
        die("%s: merge %zu, of %" PRIu32 " and %" PRIu32 ", makes no token", t->name, t->merges, a,
            b);
    if (t->merges == t->pair_cap) {
        t->pair_cap = t->pair_cap ? 2 * t->pair_cap : 1024;
        t->pair = xreallocarray(t->pair, t->pair_cap, sizeof *t->pair);
    }
    put_pair(t, a, b, (uint32_t)id, (uint32_t)t->merges);
    t->out_of_order = t->out_of_order || (size_t)id != 256 + t->merges || a >= (uint32_t)id ||
                      b >= (uint32_t)id;
    t->pair[t->merges][0] = a, t->pair[t->merges++][1] = b;
}

void tok_merge_by_rank(Tok *t)
{
    free(t->pairs);
    t->pairs = NULL;
    t->merges = t->npairs = 0;
    t->by_rank = t->whole = true;
    if (t->max_len > TOK_MAX_UNREACHED)
        die("%s: has a token of %d bytes, and tokens that merging cannot reach: then at most %d are"
            " possible", t->name, t->max_len, TOK_MAX_UNREACHED);
    for (int id = 0; id < t->vocab; id++) {
        const char *s = t->bytes.s + t->span[id].at;
        for (size_t n = (size_t)t->len[id], k = 1; k < n; k++) {
            int a = tok_find(t, s, k), b = a < 0 ? -1 : tok_find(t, s + k, n - k);
            if (b >= 0)
                put_pair(t, (uint32_t)a, (uint32_t)b, (uint32_t)id, (uint32_t)id);
        }
        if (t->npairs > TOK_MAX_MERGES)
            die("%s: the first %d tokens can be split into two others in more than %d ways",
                t->name, id + 1, TOK_MAX_MERGES);
    }
}

/* ---- the whole ------------------------------------------------------------ */

static void check_names(const Tok *t)
{
    Map m = {0};
    for (int id = 0; id < t->vocab; id++) {
        if (!tok_is_special(t, id))
            continue;
        int64_t *v = map_put(&m, t->bytes.s + t->span[id].at, t->span[id].n);
        if ((*v)++)
            die("%s: two special tokens are named %.*s", t->name, (int)t->span[id].n,
                t->bytes.s + t->span[id].at);
    }
    map_free(&m);
}

bool tok_all_reached(const Tok *t)
{
    PieceRoom r = {0};
    Ids v = {0};
    bool yes = t->merges + 256 >= t->ordinary;
    if (yes && t->renumbered) return merges_reach_all(t->renumbered);
    for (int id = 0; yes && id < t->vocab; id++) {
        if (t->len[id] < 2)
            continue;
        v.n = 0;
        tok_merge_piece(t, &r, t->bytes.s + t->span[id].at, (size_t)t->len[id], &v);
        yes = v.n == 1;
    }
    piece_free(&r), ids_free(&v);
    return yes;
}

static bool is_plain(const Tok *t)
{
    if (t->words || t->by_rank || !t->whole || t->out_of_order || t->ordinary != 256 + t->merges)
        return false;
    for (int b = 0; b < 256; b++)
        if (t->byte_id[b] != b)
            return false;
    return true;
}

static void renumber(Tok *t)
{
    size_t n = 256 + t->merges;
    if (t->by_rank || !t->merges) return;
    uint32_t *to = xreallocarray(NULL, n, sizeof *to);
    uint32_t *from = xcalloc((size_t)t->vocab, sizeof *from);   /* plus 1; 0: not made yet */
    Buf b = {0};
    for (uint32_t c = 0; c < 256; c++) {
        to[c] = (uint32_t)t->byte_id[c];
        from[to[c]] = c + 1;
    }
    bool good = true;
    for (uint32_t k = 0; k < t->merges && good; k++) {
        uint32_t x = from[t->pair[k][0]], y = from[t->pair[k][1]];
        uint32_t id = tok_slot(t, t->pair[k][0], t->pair[k][1])->id1 - 1;
        good = x && y && !from[id];
        if (!good) break;
        to[256 + k] = id;
        from[id] = 256 + k + 1;
        buf_u32(&b, x - 1), buf_u32(&b, y - 1);
    }
    if (good) {
        t->renumbered = tok_of_pairs("merges", b.s, t->merges, 0);
        t->renumbered->plain = true;
        t->renumbered_ids = to;
    } else {
        free(to);
    }
    free(from), buf_free(&b);
}

static void drop_renumbered(Tok *t)
{
    tok_free(t->renumbered), free(t->renumbered_ids);
    t->renumbered = NULL, t->renumbered_ids = NULL;
}

static void end_words(Tok *t)
{
    for (int k = 0; k < 3; k++)
        if (tok_named(t, word_specials[k]) != k)
            die("%s: words, but the special token %d is not %s", t->name, k, word_specials[k]);
    if (t->merges || t->by_rank || t->kind != SPLIT_WORDS)
        die("%s: words, and merges or another way to split text too", t->name);
    t->whole = true;
    t->special[SP_BOS] = 2;
}

Tok *tok_end(Tok *t)
{
    if (t->words)
        end_words(t);
    for (int b = 0; b < 256 && !t->words; b++)
        if (t->byte_id[b] < 0)
            die("%s: has no token for the byte %02x", t->name, (unsigned)b);
    check_names(t);
    if (!is_plain(t))                                   /* or it is not known yet */
        renumber(t);
    if (!t->whole)
        t->whole = tok_all_reached(t);
    t->plain = is_plain(t);
    if (t->plain)
        drop_renumbered(t);
    t->version1 = t->plain && (size_t)t->vocab == t->ordinary + t->specials && !t->nfc &&
                  t->specials <= 1024 && !strcmp(t->pattern, split_pattern);
    for (int id = (int)t->ordinary; t->version1 && id < t->vocab; id++)
        t->version1 = tok_is_special(t, id);
    if (!t->hash) {
        Buf b = {0};
        tokfile_print(t, &b);
        t->hash = xxh3(b.s, b.n);
        buf_free(&b);
    }
    t->name = NULL;
    return t;
}

static Tok *begin_merges(const uint32_t (*pair)[2], size_t n, size_t specials)
{
    Buf b = {0};
    if (n > TOK_MAX_MERGES)
        die("a tokenizer of %zu merges: at most %d are possible", n, TOK_MAX_MERGES);
    for (size_t i = 0; i < n; i++)
        buf_u32(&b, pair[i][0]), buf_u32(&b, pair[i][1]);
    Tok *t = tok_of_pairs("merges", b.n ? b.s : "", n, specials);
    buf_free(&b);
    return t;
}

Tok *tok_from_merges(const uint32_t (*pair)[2], size_t n)
{
    Tok *t = begin_merges(pair, n, SP_COUNT);
    for (int k = 0; k < SP_COUNT; k++)
        tok_put_special(t, 256 + n + (size_t)k, special_names[k], strlen(special_names[k]));
    return tok_end(t);
}

Tok *tok_from_merges_like(const uint32_t (*pair)[2], size_t n, const Tok *like)
{
    Tok *t = begin_merges(pair, n, like->specials);
    for (size_t k = 0; k < like->specials; k++) {
        const Span *name = &like->span[like->ordinary + k];
        tok_put_special(t, 256 + n + k, like->bytes.s + name->at, name->n);
    }
    return tok_end(t);
}

void tok_free(Tok *t)
{
    if (!t)
        return;
    drop_renumbered(t);
    buf_free(&t->bytes);
    free(t->span), free(t->len), free(t->pair), free(t->pairs), free(t->ids), free(t->pattern);
    free(t);
}

/* ---- asking --------------------------------------------------------------- */

int tok_vocab(const Tok *t) { return t->vocab; }
uint64_t tok_hash(const Tok *t) { return t->hash; }
int tok_special(const Tok *t, int which) { return t->special[which]; }
bool tok_is_special(const Tok *t, int id) { return t->span[id].n && !t->len[id]; }

int tok_named(const Tok *t, const char *name)
{
    size_t n = strlen(name);
    for (int id = 0; id < t->vocab; id++)
        if (t->span[id].n == n && tok_is_special(t, id) && !memcmp(tok_bytes(t, id, &n), name, n))
            return id;
    return -1;
}

const int32_t *tok_byte_lengths(const Tok *t) { return t->len; }
int tok_max_length(const Tok *t) { return t->max_len; }
bool tok_simple(const Tok *t) { return t->version1; }
bool tok_plain(const Tok *t) { return t->plain; }
bool tok_words(const Tok *t) { return t->words; }

const Tok *tok_renumbered(const Tok *t, const uint32_t **ids)
{
    *ids = t->renumbered_ids;
    return t->renumbered;
}

bool tok_whole(const Tok *t) { return t->whole; }
SplitKind tok_split(const Tok *t) { return t->kind; }
const char *tok_pattern(const Tok *t) { return t->pattern; }
bool tok_nfc(const Tok *t) { return t->nfc; }
int tok_byte_id(const Tok *t, unsigned char b) { return t->byte_id[b]; }

const char *tok_bytes(const Tok *t, int id, size_t *len)
{
    *len = t->span[id].n;
    return t->bytes.s + t->span[id].at;
}

size_t tok_merges(const Tok *t, const uint32_t (**pair)[2])
{
    *pair = (const uint32_t (*)[2])t->pair;
    return t->plain ? t->merges : 0;
}
