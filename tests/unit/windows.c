/* Long pieces in windows: the same as the rule on the whole, whatever the size of the first window,
 * and the bytes that are merged for it, which are its time, in proportion to the piece. */
#include "tap.h"
#include "enc_rule.h"
#include "text/enc_int.h"
#include "text/windows.h"

/* ---- tokenizers --------------------------------------------------------------------- */

/* Tokens of 1 to `longest` equal letters, made as in a rank file that has them all, shorter ones
 * first: each is what merging the letters by the lower ranks leaves, two parts. */
static Tok *runs(size_t longest)
{
    Merge *m = xreallocarray(NULL, longest, sizeof *m);
    char *s = xmalloc(longest);
    memset(s, 'a', longest);
    size_t n = 0;
    for (size_t len = 2; len <= longest; len++) {
        Tok *t = tok_from_merges((const Merge *)m, n);
        EncModel *e = encmodel_new(t);
        PieceRoom room = {0};
        size_t got;
        const uint32_t *id = enc_heap(e, &room, s, len, &got);
        if (got == 2) m[n][0] = id[0], m[n][1] = id[1], n++;
        piece_free(&room), encmodel_free(e), tok_free(t);
    }
    Tok *t = tok_from_merges((const Merge *)m, n);
    free(m), free(s);
    return t;
}

/* What is merged depends on the byte 255 places to the right, and beyond. */
static Tok *far_right(void)
{
    Merge m[255];
    for (uint32_t k = 0; k < 255; k++) m[k][0] = 254 - k, m[k][1] = 255 - k;
    return tok_from_merges((const Merge *)m, 255);
}

/* ---- windows ------------------------------------------------------------------------ */

typedef struct Work { const Tok *t; EncModel *m; PieceRoom room; Ids v; size_t bytes, most; } Work;

static const uint32_t *by_rule(void *arg, const char *s, size_t n, size_t *got)
{
    Work *w = arg;
    w->v.n = 0;
    naive(w->t, s, n, &w->v);
    w->bytes += n;
    return *got = w->v.n, w->v.id;
}

static const uint32_t *by_heap(void *arg, const char *s, size_t n, size_t *got)
{
    Work *w = arg;
    w->bytes += n;
    if (n > w->most) w->most = n;
    return enc_heap(w->m, &w->room, s, n, got);
}

static int wrong_by_rule(const Tok *t, const char *s, size_t n, size_t first)
{
    Work w = { .t = t };
    Ids want = {0}, got = {0};
    naive(t, s, n, &want);
    ids_add(&got, 3);
    windows_encode(&(Windows){ by_rule, &w, tok_byte_lengths(t), first }, s, n, &got);
    int wrong = got.id[0] != 3 || !same(got.id + 1, got.n - 1, &want);
    ids_free(&w.v), ids_free(&want), ids_free(&got);
    return wrong;
}

static void any_merges(void)
{
    int wrong = 0, rounds = 0;
    char s[700];
    for (int k = 0; k < 150; k++) {
        int letters = 1 + (int)below(4);
        Tok *t = wild(letters, 1 + (int)below(k % 3 ? 40 : 300), k % 2 ? 12 : 50);
        for (int i = 0; i < 30; i++, rounds++) {
            size_t n = 1 + below(i % 5 ? 100 : sizeof s);
            for (size_t j = 0; j < n; j++) s[j] = (char)('a' + below((uint64_t)letters));
            for (size_t j = 1; j < n && i % 4 == 0; j++)        /* more equal ones */
                if (below(4)) s[j] = s[j - 1];
            wrong += wrong_by_rule(t, s, n, 1 + below(i % 3 ? 20 : 80));
        }
        tok_free(t);
    }
    ok(!wrong, "%d pieces with merges at random (%d wrong)", rounds, wrong);
}

static void long_tokens(void)
{
    Tok *t = runs(300);
    char s[1500];
    int wrong = 0;
    for (int k = 0; k < 100; k++) {
        size_t n = 1 + below(sizeof s);
        for (size_t j = 0; j < n; j++) s[j] = k % 2 && !below(200) ? 'b' : 'a';
        wrong += wrong_by_rule(t, s, n, 1 + below(300));
    }
    ok(tok_max_length(t) == 300 && !wrong,
       "tokens of 1 to 300 equal letters, 100 pieces of them (%d wrong)", wrong);
    tok_free(t);
}

static void far(void)
{
    Tok *t = far_right();
    char s[2000];
    int wrong = 0;
    for (int k = 0; k < 40; k++) {
        size_t n = 1 + below(sizeof s), from = below(256);
        for (size_t j = 0; j < n; j++) s[j] = (char)(from + j + (k % 3 ? 0 : !below(300)));
        wrong += wrong_by_rule(t, s, n, 1 + below(600));
    }
    ok(!wrong, "merges that depend on what is far to the right (%d wrong)", wrong);
    tok_free(t);
}

/* How much is merged, and that it is right. */
static void work(const Tok *t, const char *s, size_t n, const char *what, size_t widest)
{
    Work w = { .t = t, .m = encmodel_new(t) };
    Ids v = {0};
    size_t got;
    windows_encode(&(Windows){ by_heap, &w, tok_byte_lengths(t), 512 }, s, n, &v);
    const uint32_t *id = enc_heap(w.m, &w.room, s, n, &got);
    ok(same(id, got, &v) && w.bytes <= 3 * n && w.most <= widest,
       "%s: %.2f bytes merged for each, in windows of up to %zu", what,
       (double)w.bytes / (double)n, w.most);
    ids_free(&v), piece_free(&w.room), encmodel_free(w.m);
}

int main(void)
{
    enum { N = 1 << 20 };
    rng_init(&rng, 14, 0);
    any_merges();
    long_tokens();
    far();
    char *s = xmalloc(N);
    Tok *t = runs(1000), *u = far_right(), *v = wild(4, 300, 12);
    memset(s, 'a', N);
    work(t, s, N, "1 MB of one letter, tokens of up to 1000", 1 << 15);
    for (size_t i = 0; i < N; i++) s[i] = below(700) ? 'a' : 'b';
    work(t, s, N, "long runs", 1 << 15);
    for (size_t i = 0; i < N; i++) s[i] = (char)(i % 151);
    work(u, s, N, "merges that depend on what is far to the right", 1 << 13);
    for (size_t i = 0; i < N; i++) s[i] = (char)('a' + below(4));
    work(v, s, N, "letters at random", 1 << 12);
    free(s), tok_free(t), tok_free(u), tok_free(v);
    return done();
}
