/* The encoder where it is most easily wrong: at the ends of memory, of its tables' sizes and of
 * what each of its ways takes; and where the table of merges cannot be made. Each on every tier. */
#include "tap.h"
#include "enc_rule.h"
#include "base/cpu.h"
#include "base/io.h"
#include "text/enc_int.h"
#include <sys/mman.h>

/* ---- texts --------------------------------------------------------------------------- */

static void put_letters(Buf *b, size_t n, const char *letters)
{
    while (n--) buf_char(b, letters[below(strlen(letters))]);
}

static bool equal(const TokOut *out, const Ids *want)
{
    if (out->n != want->n) return false;
    for (size_t i = 0; i < out->n; i++) {
        const void *id = out->id;
        uint32_t x = out->width == 2 ? ((const uint16_t *)id)[i] : ((const uint32_t *)id)[i];
        if (x != want->id[i]) return false;
    }
    return true;
}

/* In each width that there is. */
static int text_wrong(TokEnc *e, const Tok *t, const char *s, size_t n, const Ids *want)
{
    int wrong = 0;
    for (int width = tok_vocab(t) <= 65536 ? 2 : 4; width <= 4; width += 2) {
        TokOut out = { .width = width };
        tok_encode_valid(e, s, n, &out);
        wrong += !equal(&out, want);
        tokout_free(&out);
    }
    return wrong;
}

/* ---- the ends of memory -------------------------------------------------------------- */

enum { ROOM = 1 << 16 };

/* ROOM bytes between pages that nobody may touch. */
static char *fenced(void)
{
    char *p = mmap(NULL, 3 * ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + ROOM, ROOM, PROT_READ | PROT_WRITE)) die("no pages");
    return p + ROOM;
}

/* Texts that end, or begin, where memory does, and so do the ids, with the room they may need. */
static void fences(void)
{
    char *text = fenced(), *ids = fenced();
    int wrong = 0, texts = 0;
    Tok *t[] = { wild(5, 200, 12), wild(2, 20, 12) };
    for (int k = 0; k < 2; k++) {
        TokEnc *e = tokenc_sized(t[k], 8);
        for (int i = 0; i < 2000; i++, texts++) {
            Buf b = {0};
            size_t n = below(i % 4 ? 40 : 1000);
            while (b.n < n) {
                put_letters(&b, 1 + below(i % 3 ? 6 : 20), "abcde1 ");
                buf_str(&b, below(3) ? " " : "\xe6\x97\xa5");
            }
            if (i % 2 && b.n) b.n--, b.n -= (b.s[b.n] & 0xc0) == 0x80 ? 2 : 0;
            char *s = i % 5 ? text + ROOM - b.n : text;
            if (b.n) memcpy(s, b.s, b.n);
            Ids want = {0};
            naive_text(t[k], s, b.n, &want);
            for (int width = 2; width <= 4; width += 2) {
                TokOut out = { .width = width, .cap = b.n + 8 };
                out.id = ids + ROOM - out.cap * (size_t)width;
                void *given = out.id;
                tok_encode_valid(e, s, b.n, &out);
                wrong += !equal(&out, &want) || out.id != given;
            }
            ids_free(&want), buf_free(&b);
        }
        tokenc_free(e), tok_free(t[k]);
    }
    ok(!wrong, "%d texts at the ends of memory (%d wrong)", texts, wrong);
    munmap(text - ROOM, 3 * ROOM), munmap(ids - ROOM, 3 * ROOM);
}

/* ---- how many merges ------------------------------------------------------------------ */

/* Each merge is in the table, and no other pair. */
static int table_wrong(const Tok *t, const EncModel *m)
{
    const PairTable *p = encmodel_pairs(m);
    const Merge *pair;
    size_t merges = tok_merges(t, &pair), ids = 256 + merges;
    int wrong = 0;
    for (size_t k = 0; k < merges; k++)
        wrong += pair_get(p, pair[k][0], pair[k][1]) != 256 + k;
    for (int k = 0; k < 200000; k++) {
        uint32_t a = (uint32_t)below(ids), b = (uint32_t)below(k % 2 ? ids : 256);
        wrong += pair_get(p, a, b) != (uint32_t)tok_pair(t, a, b);
        if (p->slot || p->wide)
            wrong += pair_get(p, a, NO_ID) != NO_ID || pair_get(p, NO_ID, a) != NO_ID;
    }
    return wrong + (pair_get(p, 0, 0) != (uint32_t)tok_pair(t, 0, 0));
}

/* Symbols wherever the next call has its room: what it does not set itself is likely to matter. */
static __attribute__((noinline)) void litter(const char *letters)
{
    uint16_t room[8192];
    for (size_t i = 0; i < 8192; i++) room[i] = (uint16_t)letters[i % strlen(letters)];
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* A piece by each of the ways that take it, and FEW of them at once. */
static int ways_wrong(const Tok *t, EncModel *m, const char *letters)
{
    Buf b[FEW] = {0};
    Few few[FEW], *p[FEW];
    Ids want[FEW] = {0};
    PieceRoom room = {0};
    uint32_t out[FEW_SYMBOLS];
    int wrong = 0;
    for (int k = 0; k < FEW; k++) {
        put_letters(&b[k], k % 3 ? 1 + below(FEW_SYMBOLS) : FEW_SYMBOLS, letters);
        naive(t, b[k].s, b[k].n, &want[k]);
        few_bytes(p[k] = &few[k], b[k].s, b[k].n);
        wrong += !same(out, enc_scan(m, b[k].s, b[k].n, out), &want[k]);
        Ids v = {0};
        enc_long(m, &room, b[k].s, b[k].n, 8, &v);
        wrong += !same(v.id, v.n, &want[k]);
        ids_free(&v);
    }
    litter(letters);
    enc_scan_few(m, p, FEW);
    for (int k = 0; k < FEW; k++) {
        wrong += !same(few[k].id, few[k].n, &want[k]);
        buf_free(&b[k]), ids_free(&want[k]);
    }
    piece_free(&room);
    return wrong;
}

/* Pairs of bytes in any order, those of the letters a to f among the first and the last, and at the
 * end some of a pair and a letter, the last one of the id before it: the highest there is. */
static Tok *of_merges(uint32_t merges)
{
    uint32_t *order = shuffled(65536);
    Merge *m = xreallocarray(NULL, merges + 1, sizeof *m);
    uint32_t pairs = merges > 300 ? merges - 20 : merges;
    for (uint32_t k = 0; k < 36 && k < pairs; k++) {
        uint32_t x = ('a' + k / 6) << 8 | ('a' + k % 6), from = 0;
        uint32_t to = k % 2 && pairs > 100 ? pairs - 1 - k : k;
        while (order[from] != x) from++;
        order[from] = order[to], order[to] = x;
    }
    for (uint32_t k = 0; k < merges; k++) {
        uint32_t before = k == pairs ? 0
                          : k % 2 || k + 1 == merges ? k - 1 : pairs - k % 36;
        m[k][0] = k < pairs ? order[k] >> 8 : 256 + before;
        m[k][1] = k < pairs ? order[k] & 255 : 'a' + k % 6;
    }
    Tok *t = tok_from_merges((const Merge *)m, merges);
    free(order), free(m);
    return t;
}

static void sizes(void)
{
    static const uint32_t merges[] = { 0, 1, 2, 255, 256, 512, 513, 65270, 65278, 65279, 65280,
                                       65400 };
    for (size_t k = 0; k < sizeof merges / sizeof *merges; k++) {
        Tok *t = of_merges(merges[k]);
        EncModel *m = encmodel_new(t);
        const PairTable *p = encmodel_pairs(m);
        const bool table = !p->slot == (merges[k] == 0 || 256 + merges[k] > 0xffff) &&
                           !p->wide == (256 + merges[k] <= 0xffff);
        int wrong = table_wrong(t, m);
        for (int i = 0; i < 20; i++) wrong += ways_wrong(t, m, "abcdef");
        TokEnc *e = tokenc_sized(t, 6);
        Buf b = {0};
        for (int i = 0; i < 500; i++) put_letters(&b, 1 + below(40), "abcdef"), buf_char(&b, '\n');
        Ids want = {0};
        naive_text(t, b.s, b.n, &want);
        wrong += text_wrong(e, t, b.s, b.n, &want);
        ok(table && !wrong, "%u merges (%d wrong)", merges[k], wrong);
        ids_free(&want), buf_free(&b), tokenc_free(e), encmodel_free(m), tok_free(t);
    }
}

/* For each bijection two pairs that no pilot keeps apart: there is no table. */
static void no_table(void)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    enum { L = sizeof letters - 1 };
    PairTable p = { .bits = 10, .last = 127 };
    Merge m[2 * PAIR_MULS];
    size_t n = 0;
    bool there[L * L] = { false };
    uint16_t *seen = xreallocarray(NULL, 1 << 17, sizeof *seen);        /* pair + 1 */
    for (uint32_t i = 0; i < PAIR_MULS; i++) {
        p.mul = pair_mul(i);
        memset(seen, 0, sizeof *seen << 17);
        for (uint16_t x = 0; x < L * L; x++) {
            uint32_t y = pair_mix(&p, (uint32_t)letters[x / L], (uint32_t)letters[x % L]);
            uint16_t *at = &seen[(y & 127) << 10 | y >> 22], two[2] = { (uint16_t)(*at - 1), x };
            *at = x + 1;
            if (two[0] == UINT16_MAX) continue;
            for (int k = 0; k < 2; k++) {
                if (there[two[k]]) continue;
                there[two[k]] = true;
                m[n][0] = (uint32_t)letters[two[k] / L], m[n][1] = (uint32_t)letters[two[k] % L];
                n++;
            }
            break;
        }
    }
    free(seen);
    Tok *t = tok_from_merges((const Merge *)m, n);
    EncModel *model = encmodel_new(t);
    const PairTable *got = encmodel_pairs(model);
    int wrong = table_wrong(t, model);
    for (int i = 0; i < 50; i++) wrong += ways_wrong(t, model, letters);
    TokEnc *e = tokenc_new(t);
    Buf b = {0};
    Ids want = {0};
    for (int i = 0; i < 500; i++) put_letters(&b, 1 + below(90), letters), buf_char(&b, '\n');
    naive_text(t, b.s, b.n, &want);
    wrong += text_wrong(e, t, b.s, b.n, &want);
    ok(!got->slot && !got->wide && !wrong, "%zu merges of which no table can be made (%d wrong)", n,
       wrong);
    ids_free(&want), buf_free(&b), tokenc_free(e), encmodel_free(model), tok_free(t);
}

/* ---- pieces --------------------------------------------------------------------------- */

/* Tokens as pieces, also such as merging does not reach, with a table that holds few of them. */
static void tokens(void)
{
    int wrong = 0, ways = 0, other = 0;
    int unreached[3] = {0};                             /* of up to 15, up to 32, more bytes */
    for (int k = 0; k < 40; k++) {
        Tok *t = wild(3, 300, 40);
        EncModel *m = encmodel_new(t);
        for (int i = 0; i < 20; i++) ways += ways_wrong(t, m, "abc");
        size_t merges = tok_merges(t, &(const Merge *){NULL}), n;
        uint32_t *new_id = shuffled((uint32_t)(256 + merges));
        Tok *u = other_ids(t, new_id, false, true);
        TokEnc *e = tokenc_sized(t, 4), *usual = tokenc_new(t), *f = tokenc_sized(u, 4);
        Buf b = {0};
        Ids want = {0}, theirs = {0};
        for (int i = 0; i < 900; i++) {
            int id = 256 + (int)below(merges);
            const char *s = tok_bytes(t, id, &n);
            buf_add(&b, s, n);
            buf_char(&b, '\n');
            Ids ids = {0};
            naive(t, s, n, &ids);
            if (ids.n > 1) unreached[(n > 15) + (n > 32)]++;
            ids_free(&ids);
        }
        naive_text(t, b.s, b.n, &want), by_pieces(u, b.s, b.n, &theirs);
        wrong += text_wrong(e, t, b.s, b.n, &want) + text_wrong(usual, t, b.s, b.n, &want);
        other += text_wrong(f, u, b.s, b.n, &theirs);
        ids_free(&want), ids_free(&theirs), buf_free(&b), free(new_id);
        tokenc_free(e), tokenc_free(usual), tokenc_free(f), encmodel_free(m);
        tok_free(t), tok_free(u);
    }
    ok(!wrong && unreached[0] > 100 && unreached[1] > 100 && unreached[2] > 100,
       "tokens as pieces; %d, %d, %d were not reached by merging (%d texts wrong)", unreached[0],
       unreached[1], unreached[2], wrong);
    ok(!ways, "with these merges, several pieces at once and one by each way (%d wrong)", ways);
    ok(!other, "with other ids (%d texts wrong)", other);
}

/* Pieces of every length around those where one way ends and another begins, three times each (new,
 * seen once, in the table of long ones), also such as end in a character of several bytes. */
static void lengths(void)
{
    static const char *const end[] = { "", "\xe6\x97\xa5", "\xe6\x97\xa5\xe6\x97\xa5",
                                       "\xc3\xa9" };
    static const Merge with[] = { {'a', 'b'}, {0xe6, 0x97}, {257, 0xa5}, {256, 'a'}, {'b', 258},
                                  {258, 258}, {'c', 'c'}, {262, 262}, {263, 263}, {264, 264} };
    Tok *t[] = { tok_from_merges(with, sizeof with / sizeof *with), wild(4, 100, 12) };
    int wrong = 0;
    for (int k = 0; k < 2; k++) {
        TokEnc *e = tokenc_sized(t[k], 8), *usual = tokenc_new(t[k]);
        for (int i = 0; i < 4; i++) {
            Buf b = {0};
            Ids want = {0};
            for (size_t n = 1; n <= 300; n += n < 70 ? 1 : 31)
                for (int again = 0; again < 3; again++) {
                    put_letters(&b, n, again ? "c" : "abcd");
                    buf_str(&b, end[i]), buf_char(&b, '\n');
                }
            size_t once = b.n;
            for (int again = 0; again < 2; again++) {
                for (size_t j = 0; j < once; j++) buf_char(&b, b.s[j]);
            }
            naive_text(t[k], b.s, b.n, &want);
            wrong += text_wrong(e, t[k], b.s, b.n, &want);
            wrong += text_wrong(usual, t[k], b.s, b.n, &want);
            buf_free(&b), ids_free(&want);
        }
        tokenc_free(e), tokenc_free(usual), tok_free(t[k]);
    }
    ok(!wrong, "pieces of 1 to 300 bytes (%d texts wrong)", wrong);
}

int main(void)
{
    static const char *const tier[] = { "base", "avx2", "avx512" };
    rng_init(&rng, 13, 0);
    for (int i = 0; i < 3; i++) {
        if (!cpu_runs(tier[i])) {
            skip("not on this processor", "%s", tier[i]);
            continue;
        }
        printf("# %s\n", tier[i]);
        setenv("PIPEGPT_CPU", tier[i], 1);
        fences();
        sizes();
        no_table();
        tokens();
        lengths();
    }
    return done();
}
