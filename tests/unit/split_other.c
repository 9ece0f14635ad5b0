/* The patterns of other families: pieces as a regular expression engine gives them.
 * tests/tok/splits.txt has lines "kind text-in-hex end ..."; made with Python's regex on the
 * pitfalls of splitting. */
#include "text/split_other.h"
#include "base/io.h"
#include "base/rng.h"
#include "tap.h"
#include "text/split.h"
#include "text/utf8.h"

static int hex(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static void golden(void)
{
    In *in = in_open("tests/tok/splits.txt");
    Buf line = {0}, text = {0};
    int lines[SPLIT_KINDS] = {0}, wrong[SPLIT_KINDS] = {0};
    while (in_line(in, &line)) {
        char *p = strchr(line.s, ' ');
        *p++ = 0;
        int kind = split_kind_named(line.s);
        if (kind < 0) abort();
        buf_clear(&text);
        for (; *p != ' '; p += 2) buf_char(&text, (char)(hex(p[0]) << 4 | hex(p[1])));
        char *s = malloc(text.n);               /* so that a sanitizer sees its end */
        memcpy(s, text.s, text.n);
        bool good = true;
        for (size_t i = 0; i < text.n; ) {
            i = split_kind_next((SplitKind)kind, s, text.n, i);
            good = good && strtoul(p, &p, 10) == i;
        }
        good = good && !*p;
        lines[kind]++, wrong[kind] += !good;
        if (!good) printf("# %s: %s\n", line.s, line.s + strlen(line.s) + 1);
        free(s);
    }
    for (int k = 0; k < SPLIT_WORDS; k++)
        ok(lines[k] > 100 && !wrong[k], "%s: %d texts (%d wrong)", split_kind_name((SplitKind)k),
           lines[k], wrong[k]);
    in_close(in), buf_free(&line), buf_free(&text);
}

static void names(void)
{
    for (int k = 0; k < SPLIT_WORDS; k++) {
        const char *name = split_kind_name((SplitKind)k), *p = split_kind_pattern((SplitKind)k);
        ok(split_kind_named(name) == k && p && split_kind_of(p, strlen(p), true) == k &&
           split_kind_of(p, strlen(p) - 1, false) < 0 && strstr(split_kind_names(), name),
           "%s has a name and a pattern", name);
    }
    static const char tiktoken[] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++"
        "|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";
    ok(split_kind_of(tiktoken, strlen(tiktoken), false) == SPLIT_CL100K &&
       split_kind_of(tiktoken, strlen(tiktoken), true) == -1, "a spelling for one engine only");
    ok(split_kind_named("r50k") == SPLIT_GPT2 && split_kind_named("qwen3") == SPLIT_QWEN2 &&
       split_kind_named("") < 0 && split_kind_named("qwen") < 0, "other names");
    ok(!strcmp(split_kind_pattern(SPLIT_NANOCHAT), split_pattern), "nanochat's is split.h's");
}

static bool white(uint32_t c)           /* Unicode's White_Space */
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Every character between two letters, and twice between two spaces. */
static void words(void)
{
    int bad = 0;
    for (uint32_t c = 1; c < 0x110000; c++) {
        char s[12] = "a", t[12] = " ";
        if (c >= 0xd800 && c < 0xe000) continue;
        size_t k = (size_t)utf8_put(s + 1, c), n = k + 2, m = 2 * k + 2;
        s[1 + k] = 'b';
        memcpy(t + 1, s + 1, k), memcpy(t + 1 + k, s + 1, k);
        t[1 + 2 * k] = ' ';
        size_t end = split_kind_next(SPLIT_WORDS, s, n, 0), gap = split_kind_next(SPLIT_WORDS, t, m, 0);
        bad += end != (white(c) ? 1 : n) || gap != (white(c) ? m : 1);
        bad += white(c) ? split_kind_next(SPLIT_WORDS, s, n, 1) != 1 + k
                        : split_kind_next(SPLIT_WORDS, t, m, 1) != m - 1;
    }
    ok(!bad, "words: every character is of a word or white space (%d wrong)", bad);
    const char *p = split_kind_pattern(SPLIT_WORDS);
    ok(split_kind_of(p, strlen(p), true) == SPLIT_WORDS && split_kind_named("words") < 0,
       "words have a pattern, and no name to ask for");
}

/* Any bytes: pieces go forward and end at the end. Long runs take linear time. */
static void rough(void)
{
    static const char odd[] = "a1 \n'\xc3\xa9\xff\xe2\x80\xa8 s";
    Rng r;
    rng_init(&r, 1, 0);
    int bad = 0;
    for (int k = 0; k < 20000; k++) {
        char s[40];
        size_t n = 1 + rng_below(&r, sizeof s);
        for (size_t i = 0; i < n; i++) s[i] = odd[rng_below(&r, sizeof odd - 1)];
        Buf b = {0};
        utf8_repair(&b, s, n);
        for (size_t i = 0, e; i < b.n; i = e) {
            e = split_kind_next((SplitKind)(k % SPLIT_KINDS), b.s, b.n, i);
            if (e <= i || e > b.n) { bad++; break; }
        }
        buf_free(&b);
    }
    ok(!bad, "pieces tile the text");
    size_t n = 2000000;
    char *s = xmalloc(n);
    static const char *const of[] = { " ", "\n", " \n", "\n ", "a", "1", "'", "aA" };
    int long_runs = 0;
    for (size_t w = 0; w < 8; w++)
        for (int k = 0; k < SPLIT_KINDS; k++) {
            size_t m = strlen(of[w]), i = 0;
            for (size_t j = 0; j < n; j++) s[j] = of[w][j % m];
            s[n - 1] = 'x';
            for (; i < n; long_runs++) i = split_kind_next((SplitKind)k, s, n, i);
        }
    ok(long_runs > 0, "runs of 2,000,000");
    free(s);
}

int main(void)
{
    golden();
    names();
    words();
    rough();
    return done();
}
