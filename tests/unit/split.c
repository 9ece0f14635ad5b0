/* The scanner against the pattern, alternative by alternative, as a regex engine would try it. */
#include "text/split.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/rng.h"
#include "tap.h"
#include "text/split_int.h"
#include "text/utf8.h"

/* ---- the pattern, literally, on code points -------------------------------- */

static bool is_l(uint32_t c) { return unicode_class(c) == UC_LETTER; }
static bool is_n(uint32_t c) { return unicode_class(c) == UC_NUMBER; }
static bool is_s(uint32_t c) { return unicode_class(c) == UC_SPACE; }
static bool is_nl(uint32_t c) { return c == '\r' || c == '\n'; }
static bool is_x(uint32_t c) { return !is_s(c) && !is_l(c) && !is_n(c); }      /* [^\s\p{L}\p{N}] */
static uint32_t low(uint32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c == 0x17f ? 's' : c; }

static int match(const uint32_t *c, int n, int i)
{
    /* '(?i:[sdmt]|ll|ve|re) */
    uint32_t a = i + 1 < n ? low(c[i + 1]) : 0, b = i + 2 < n ? low(c[i + 2]) : 0;
    if (c[i] == '\'') {
        if (a == 's' || a == 'd' || a == 'm' || a == 't') return i + 2;
        if ((a == 'l' && b == 'l') || (a == 'v' && b == 'e') || (a == 'r' && b == 'e'))
            return i + 3;
    }
    /* [^\r\n\p{L}\p{N}]?+\p{L}+ */
    int j = i + (!is_nl(c[i]) && !is_l(c[i]) && !is_n(c[i])), k = j;
    while (k < n && is_l(c[k])) k++;
    if (k > j) return k;
    /* \p{N}{1,2} */
    if (is_n(c[i])) return i + 1 < n && is_n(c[i + 1]) ? i + 2 : i + 1;
    /*  ?[^\s\p{L}\p{N}]++[\r\n]* */
    j = k = i + (c[i] == ' ');
    while (k < n && is_x(c[k])) k++;
    if (k > j) {
        while (k < n && is_nl(c[k])) k++;
        return k;
    }
    /* \s*[\r\n] */
    for (k = i; k < n && is_s(c[k]); k++) ;
    int run = k;
    for (; k >= i; k--)
        if (k < n && is_nl(c[k])) return k + 1;
    /* \s+(?!\S) */
    for (k = run; k > i; k--)
        if (k == n || is_s(c[k])) return k;
    /* \s+ */
    return run;
}

/* Split s both ways; the pieces tile it. */
static bool agree(const uint32_t *c, int n, char *s)
{
    size_t len = 0, at = 0;
    for (int i = 0; i < n; i++)
        len += (size_t)utf8_put(s + len, c[i]);
    for (int i = 0; i < n; ) {
        int j = match(c, n, i);
        size_t end = at;
        char t[4];
        for (; i < j; i++)
            end += (size_t)utf8_put(t, c[i]);
        if (split_next(s, len, at) != end)
            return false;
        at = end;
    }
    return at == len;
}

static void random_strings(void)
{
    static const uint32_t letters[] = {
        '\'',     '\'',    ' ',        ' ',     '\n',    '\r',    '\t',    's',    'S',
        0x17f,    'l',     'L',        'v',     'E',     'r',     'd',     'm',    'T',
        'k',      0x212a,  'x',        '1',     '2',     0xbd,    0x664,   0x2167, '!',
        '.',      0,       0x1f,       0x7f,    0x85,    0xa0,    0x180e,  0x1680, 0x2009,
        0x200b,   0x200d,  0x2028,     0x3000,  0xfeff,  0x301,   0x345,   0xe9,   0x416,
        0x65e5,   0x1f600, 0x1c89,     0x10d4a, 0x10d40, 0x2ebf0, 0x1ccf0, 0xe000, 0x378,
        0x10ffff, 0xfffe,  'S' ^ 0x60, '`',     '@',     0x0c,    0x0b,
    };
    Rng r;
    rng_init(&r, 1, 0);
    int wrong = 0, n = 300000;
    uint32_t c[40];
    char s[160];
    for (int k = 0; k < n; k++) {
        int len = 1 + (int)rng_below(&r, k % 10 ? 12 : 40);
        int few = 2 + (int)rng_below(&r, 6),
            from = (int)rng_below(&r, sizeof letters / sizeof *letters);
        for (int i = 0; i < len; i++) {
            uint64_t x =
                k % 2 ? (uint64_t)from + rng_below(&r, (uint64_t)few) : rng_below(&r, 1000);
            c[i] = letters[x % (sizeof letters / sizeof *letters)];
            if (k % 7 == 0 && rng_below(&r, 3) == 0)
                c[i] = (uint32_t)rng_below(&r, 0x110000);
            if (c[i] >= 0xd800 && c[i] < 0xe000)
                c[i] = 'x';
        }
        if (!agree(c, len, s) && !wrong++) {
            printf("#");
            for (int i = 0; i < len; i++) printf(" %04X", c[i]);
            printf("\n");
        }
    }
    ok(!wrong, "%d random strings against the pattern (%d wrong)", n, wrong);
}

/* ---- the block scanners against split_kind_next() ---------------------------------- */

static const struct Tier { const char *name; SplitEnds *f; } tiers[] = {
    { "base", split_ends_base },
    { "chosen", split_kind_ends },
#ifdef __x86_64__
    { "avx2", split_ends_avx2 },
    { "avx512", split_ends_avx512 },
#endif
};
enum { TIERS = sizeof tiers / sizeof *tiers };

static bool runs_here(int k)
{
#ifdef __x86_64__
    if (k == 2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    if (k == 3)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
#endif
    return k < 2;
}

/* Nothing is written past max ends. */
static bool bulk_agrees(SplitEnds *f, SplitKind kind, const char *s, size_t n, size_t max)
{
    static uint32_t ends[4096 + 1];
    ends[max] = 0xdeadbeef;
    for (size_t i = 0; i < n; ) {
        size_t k = f(kind, s, n, i, ends, max), from = i;
        if (!k || k > max || ends[max] != 0xdeadbeef)
            return false;
        for (size_t j = 0; j < k; j++) {
            i = split_kind_next(kind, s, n, i);
            if (i != from + ends[j])
                return false;
        }
    }
    return true;
}

static uint32_t any_letter(Rng *r, int mode, int from, int few)
{
    static const uint32_t odd[] = {
        '\'', ' ', '\n', '\r', '\t', 's', 'S', 0x17f, 'l', 'L', 'v', 'E', 'r', 'd', 'm', 'T', 'k',
        0x212a, 'x', '1', '2', 0xbd, 0x664, 0x2167, '!', '.', 0, 0x1f, 0x7f, 0x85, 0xa0, 0x180e,
        0x1680, 0x2009, 0x200b, 0x200d, 0x2028, 0x3000, 0xfeff, 0x301, 0x345, 0xe9, 0x416, 0x65e5,
        0x4dff, 0x8fff, 0x9000, 0x1f600, 0x1c89, 0x10d4a, 0x10d40, 0x2ebf0, 0x1ccf0, 0xe000, 0x378,
        0x10ffff, 0xfffe, '`', '@', '[', '{', 0x0c, 0x0b, 0x0e, 0x2014, 0x201c, 0x2019, 0x7ff,
        0x800,
    };
    enum { ODD = sizeof odd / sizeof *odd };
    uint32_t c;
    if (mode == 0) c = odd[rng_below(r, ODD)];
    else if (mode == 1) c = odd[((uint64_t)from + rng_below(r, (uint64_t)few)) % ODD];
    else if (mode == 2) c = rng_below(r, 5) ? (uint32_t)"abcdefg hs'. ,\nx1"[rng_below(r, 17)]
                                            : odd[rng_below(r, ODD)];
    else c = rng_below(r, 3) ? (uint32_t)"'  \n\tsl!1a"[rng_below(r, 10)]
                             : (uint32_t)rng_below(r, 0x110000);
    return c >= 0xd800 && c < 0xe000 ? 'x' : c;
}

/* Random texts, in memory that ends where they do (so that the sanitizer sees a byte too many),
 * with each piece's end at each place of a window in turn. */
static void bulk(void)
{
    Rng r;
    rng_init(&r, 3, 0);
    int n = 30000, wrong[TIERS] = {0}, unstable = 0;
    char s[2048];
    for (int k = 0; k < n; k++) {
        size_t len = 0;
        int m = 1 + (int)rng_below(&r, k % 8 ? 150 : 500), mode = k % 4;
        int from = (int)rng_below(&r, 64), few = 1 + (int)rng_below(&r, 6);
        for (size_t pad = (size_t)k / 4 % 64; len < pad; len++)
            s[len] = k & 1 ? 'a' : ' ';
        for (int i = 0; i < m && len < sizeof s - 4; i++)
            len += (size_t)utf8_put(s + len, any_letter(&r, mode, from, few));
        char *t = xmalloc(len);
        memcpy(t, s, len);
        size_t max = k % 3 ? 64 + rng_below(&r, 20) : 4096;
        for (int tier = 0; tier < TIERS; tier++)
            for (SplitKind kind = 0; kind < SPLIT_WORDS && runs_here(tier); kind++)
                wrong[tier] += !bulk_agrees(tiers[tier].f, kind, t, len, max);
        for (size_t i = 0, next; i < len; i = next) {   /* a piece alone is that piece */
            next = split_next(t, len, i);
            unstable += split_next(t + i, next - i, 0) != next - i;
        }
        free(t);
    }
    for (int tier = 0; tier < TIERS; tier++) {
        if (runs_here(tier))
            ok(!wrong[tier], "%s: %d random texts at all offsets, all patterns (%d wrong)",
               tiers[tier].name, n, wrong[tier]);
        else
            skip("not on this processor", "%s", tiers[tier].name);
    }
    ok(!unstable, "a piece alone is one piece");
}

/* All pairs and triples of a few characters of each kind around each place of a window. */
static void bulk_edges(void)
{
    static const char *const c[] = { "a", "'", "s", "!", " ", "\n", "\t", "1", "\xe2\x80\x94",
                                     "\xc3\xa9", "\xc2\xa0", "\xc5\xbf", "\xf0\x9f\x98\x80", "l",
                                     "ve", "" };
    enum { C = sizeof c / sizeof *c };
    int wrong = 0, texts = 0;
    for (int x = 0; x < C * C * C; x++) {
        for (int at = 55; at < 67; at++) {
            char s[160];
            size_t n = 0;
            for (; n < (size_t)at; n++) s[n] = "ab cd, "[n % 7];
            const char *part[] = { c[x % C], c[x / C % C], c[x / C / C],
                                   at & 1 ? " end of it" : "" };
            for (int k = 0; k < 4; k++) {
                memcpy(s + n, part[k], strlen(part[k]));
                n += strlen(part[k]);
            }
            texts++;
            for (int tier = 0; tier < TIERS; tier++)
                for (SplitKind kind = 0; kind < SPLIT_WORDS && runs_here(tier); kind++)
                    wrong += !bulk_agrees(tiers[tier].f, kind, s, n, 64);
        }
    }
    ok(!wrong, "%d texts with all triples at a window's end (%d wrong)", texts, wrong);
}

/* Pieces of a byte each, as many as fit into a window. */
static void bulk_dense(void)
{
    char s[1000];
    int wrong = 0;
    for (size_t i = 0; i < sizeof s; i++) s[i] = i & 1 ? '!' : '1';
    for (size_t max = 64; max < 400; max++)
        for (int tier = 0; tier < TIERS; tier++)
            for (SplitKind kind = 0; kind < SPLIT_WORDS && runs_here(tier); kind++)
                wrong += !bulk_agrees(tiers[tier].f, kind, s, sizeof s, max);
    ok(!wrong, "a piece for each byte (%d wrong)", wrong);
}

/* ---- by hand: text and its pieces, '|' between them ------------------------ */

static void cut(const char *text, size_t n, const char *want)
{
    Buf b = {0};
    for (size_t i = 0, next; i < n; i = next) {
        next = split_next(text, n, i);
        if (i) buf_char(&b, '|');
        buf_add(&b, text + i, next - i);
    }
    bool good = b.n == strlen(want) && !memcmp(b.s, want, b.n);
    for (size_t i = 0; i < b.n; i++)
        if ((unsigned char)b.s[i] < ' ') b.s[i] = '.';
    ok(good, "%s", b.s);
    buf_free(&b);
}
#define CUT(text, want) cut(text, sizeof text - 1, want)

static void by_hand(void)
{
    CUT("'Sam x's ''s x'd've", "'S|am| x|'s| ''|s| x|'d|'ve");
    CUT(" 'Sam", " '|Sam");
    CUT("'\xc5\xbft", "'\xc5\xbf|t");
    CUT("'LL'Re'VE'lx", "'LL|'Re|'VE|'lx");
    CUT("!'s", "!'|s");
    CUT("don\xe2\x80\x99t", "don|\xe2\x80\x99t");
    CUT("1234567", "12|34|56|7");
    CUT("\t\tfoo \tbar", "\t|\tfoo| |\tbar");
    CUT("a   b", "a|  | b");
    CUT("a   ", "a|   ");
    CUT("a  .", "a| | .");
    CUT("!!foo!", "!!|foo|!");
    CUT("<|bos|>", "<||bos||>");
    CUT("...\n\n\n", "...\n\n\n");
    ok(split_next("\0\0abc", 5, 0) == 2 && split_next("\0abc", 4, 0) == 4,
       "NUL is like punctuation");
    ok(split_next(" \n \n  b", 7, 0) == 4 && split_next(" \n \n  b", 7, 4) == 5,
       "through the last newline");
    ok(split_next("\r\n\r\n  b", 7, 0) == 4, "CR LF pairs");
    ok(split_next("\xe3\x80\x80" "b", 4, 0) == 4, "an ideographic space leads a word");
}

/* ---- data and time ---------------------------------------------------------- */

static void classes(void)
{
    uint32_t n[4] = {0};
    for (uint32_t c = 0; c < 0x110000; c++)
        n[unicode_class(c)]++;
    ok(n[UC_LETTER] == 141028 && n[UC_NUMBER] == 1911 && n[UC_SPACE] == 25,
       "%u letters, %u numbers, %u spaces", n[UC_LETTER], n[UC_NUMBER], n[UC_SPACE]);
    ok(unicode_class(0x110000) == UC_OTHER && unicode_class(UINT32_MAX) == UC_OTHER,
       "past the last");
    FILE *f = fopen("../shared/data/unicode16_classes.txt", "r");
    if (!f) {
        skip("needs ../shared/data", "every code point against the list of ranges");
        return;
    }
    static unsigned char want[0x110000];
    char line[200], class;
    unsigned lo, hi, wrong = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%c %x %x", &class, &lo, &hi) == 3 && hi < 0x110000)
            for (unsigned c = lo; c <= hi; c++)
                want[c] = class == 'L' ? UC_LETTER : class == 'N' ? UC_NUMBER : UC_SPACE;
    fclose(f);
    for (uint32_t c = 0; c < 0x110000; c++)
        wrong += want[c] != unicode_class(c);
    ok(!wrong, "every code point against the list of ranges");
}

/* A string of split_cases.txt, from after its quote to after the closing one; unescaped into b. */
static const char *unquote(const char *s, Buf *b)
{
    buf_clear(b);
    for (; *s && *s != '"'; s++) {
        if (*s != '\\') {
            buf_char(b, *s);
            continue;
        }
        char u[4];
        const char *from = "nrt0\"\\", *to = "\n\r\t\0\"\\", *x;
        if (*++s == 'u') {
            char *end;
            buf_add(b, u, (size_t)utf8_put(u, (uint32_t)strtoul(s + 2, &end, 16)));
            s = end;
        } else if ((x = strchr(from, *s))) {
            buf_char(b, to[x - from]);
        }
    }
    return s + 1;
}

static void shared_cases(void)
{
    if (access("../shared/data/split_cases.txt", R_OK)) {
        skip("needs ../shared/data", "22 strings and their split");
        return;
    }
    Buf file = {0}, text = {0}, piece = {0};
    read_file("../shared/data/split_cases.txt", &file, 1 << 20);
    int lines = 0, wrong = 0;
    for (char *s = file.s, *end; *s; s = end + 1) {
        end = strchr(s, '\n');
        *end = 0;
        const char *p = unquote(strchr(s, '"') + 1, &text);
        size_t at = 0;
        while ((p = strchr(p, '"'))) {
            p = unquote(p + 1, &piece);
            size_t next = at < text.n ? split_next(text.s, text.n, at) : at;
            wrong += next - at != piece.n || memcmp(text.s + at, piece.s, piece.n);
            at = next;
        }
        wrong += at != text.n;
        lines++;
    }
    ok(lines == 22 && !wrong, "%d strings and their split (%d wrong)", lines, wrong);
    buf_free(&file), buf_free(&text), buf_free(&piece);
}

static void fast(const char *unit, const char *tail, size_t pieces)
{
    size_t k = strlen(unit), n = 1000000 * k + strlen(tail), count = 0;
    char *s = xmalloc(n + 1);
    for (size_t i = 0; i < 1000000; i++)
        memcpy(s + i * k, unit, k);
    memcpy(s + 1000000 * k, tail, strlen(tail));
    double t = now_seconds();
    for (size_t i = 0; i < n; count++)
        i = split_next(s, n, i);
    t = now_seconds() - t;
    static uint32_t ends[1024];
    size_t bulk_count = 0;
    for (size_t i = 0, m; i < n; i += ends[m - 1])
        bulk_count += m = split_ends(s, n, i, ends, 1024);
    ok(count == pieces && bulk_count == pieces && t < 10,
       "a million times U+%04X..: %zu pieces, %.3f s", (unsigned char)*unit, count, t);
    free(s);
}

int main(void)
{
    ok(strlen(split_pattern) == 109, "the pattern has 109 bytes");
    classes();
    by_hand();
    shared_cases();
    random_strings();
    bulk();
    bulk_edges();
    bulk_dense();
    fast("a", "", 1);
    fast(" ", "x", 2);
    fast(" ", "", 1);
    fast("\n", "", 1);
    fast("\n ", "x", 2);
    fast("^", "", 1);
    fast("'", "", 1);
    fast("1", "", 500000);
    fast("\xe6\x97\xa5", "", 1);
    fast("\xe3\x80\x80", "1", 3);
    fast("'s", "", 1000000);
    return done();
}
