/* split_other.c -- see split_other.h.
 *
 * The patterns with [^\r\n\p{L}\p{N}]?\p{L}+ differ from nanochat's in how many digits make a
 * piece, and in one case how white space ends. A digit can only begin a piece of digits, so those
 * two rules are here and the rest is split_next().
 *
 * GPT-2's: at i, the first that applies:
 * 1. ' and one of s t re ve m ll d, small letters only.
 * 2. an optional U+0020, then a run of letters, or of numbers, or of neither of them nor space.
 * 3. a run R of white space: all of it at the end of the text; else, of two characters or more,
 *    all    but the last; else that one. */
#include "text/split_other.h"
#include "text/split.h"
#include "text/utf8.h"
#include <string.h>

static inline int class_at(const char *s, size_t n, size_t i, size_t *k)   /* -1 at the end */
{
    uint32_t cp;
    if (i >= n)
        return *k = 0, -1;
    int len = utf8_next(s + i, n - i, &cp);
    *k = len < 0 ? 1 : (size_t)len;
    return len < 0 ? UC_OTHER : unicode_class(cp);
}

static size_t run(const char *s, size_t n, size_t i, int class)
{
    for (size_t k; class_at(s, n, i, &k) == class; i += k)
        ;
    return i;
}

static size_t contraction(const char *s, size_t n, size_t i)    /* where an apostrophe stands */
{
    size_t left = n - i;
    if (left >= 2 && s[i + 1] && strchr("stmd", s[i + 1]))
        return 2;
    if (left >= 3 && (!memcmp(s + i + 1, "re", 2) || !memcmp(s + i + 1, "ve", 2) ||
                      !memcmp(s + i + 1, "ll", 2)))
        return 3;
    return 0;
}

static size_t gpt2_next(const char *s, size_t n, size_t i)
{
    size_t k, k2, len;
    if (s[i] == '\'' && (len = contraction(s, n, i)))
        return i + len;
    int c = class_at(s, n, i, &k), next;
    if (c != UC_SPACE)
        return run(s, n, i + k, c);
    if (s[i] == ' ' && (next = class_at(s, n, i + 1, &k2)) >= 0 && next != UC_SPACE)
        return run(s, n, i + 1 + k2, next);
    size_t last = i, e = i;             /* the last character's start; the end */
    for (; class_at(s, n, e, &k) == UC_SPACE; e += k)
        last = e;
    return e == n || last == i ? e : last;
}

static size_t digits_next(const char *s, size_t n, size_t i, int most)
{
    size_t k;
    if (class_at(s, n, i, &k) != UC_NUMBER)
        return split_next(s, n, i);
    for (int c = 0; c < most && class_at(s, n, i, &k) == UC_NUMBER; c++)
        i += k;
    return i;
}

/* White space up to the end of the text is one piece. split_next() would cut it after its last line
 * end, so a cut after a white space is looked at again. That is at most twice for one run. */
static size_t cl100k_next(const char *s, size_t n, size_t i)
{
    size_t k, e = digits_next(s, n, i, 3);
    if (e == n || class_at(s, n, i, &k) != UC_SPACE || class_at(s, n, e, &k) != UC_SPACE)
        return e;
    return run(s, n, i, UC_SPACE) == n ? n : e;
}

static size_t words_next(const char *s, size_t n, size_t i)
{
    size_t k;
    if (class_at(s, n, i, &k) == UC_SPACE) return run(s, n, i, UC_SPACE);
    for (; i < n && class_at(s, n, i, &k) != UC_SPACE; i += k)
        ;
    return i;
}

size_t split_kind_next(SplitKind kind, const char *s, size_t n, size_t i)
{
    switch (kind) {
    case SPLIT_GPT2: return gpt2_next(s, n, i);
    case SPLIT_LLAMA3: return digits_next(s, n, i, 3);
    case SPLIT_CL100K: return cl100k_next(s, n, i);
    case SPLIT_QWEN2: return digits_next(s, n, i, 1);
    case SPLIT_WORDS: return words_next(s, n, i);
    default: return split_next(s, n, i);
    }
}

/* ---- names ---------------------------------------------------------------- */

#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS2 "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|"
#define SIGNS2 "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

/* Spellings of the kinds; the first portable one is written. What makes one not portable: to
 * Oniguruma $ is the end of a line, and {1,3}+ a repetition of {1,3}. */
static const struct { SplitKind kind; bool portable; const char *pattern; } spellings[] = {
    { SPLIT_NANOCHAT, true, split_pattern },
    { SPLIT_NANOCHAT, true, WORDS "\\p{N}{1,2}" SIGNS },
    { SPLIT_GPT2, true, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                        "|\\s+(?!\\S)|\\s+" },
    { SPLIT_GPT2, true, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                        "|\\s+(?!\\S)|\\s+" },
    { SPLIT_GPT2, false, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++"
                         "|\\s++$|\\s+(?!\\S)|\\s" },
    { SPLIT_LLAMA3, true, WORDS "\\p{N}{1,3}" SIGNS },
    { SPLIT_LLAMA3, true, WORDS2 "\\p{N}{1,3}" SIGNS2 },
    { SPLIT_CL100K, true, WORDS "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+\\z"
                          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
    { SPLIT_CL100K, false, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+"
                           "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$"
                           "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s" },
    { SPLIT_QWEN2, true, WORDS "\\p{N}" SIGNS },
    { SPLIT_QWEN2, true, WORDS2 "\\p{N}" SIGNS2 },
    { SPLIT_WORDS, true, "\\s+|\\S+" },
};
enum { SPELLINGS = sizeof spellings / sizeof *spellings };

static const struct { const char *name; SplitKind kind; } names[] = {
    { "nanochat", SPLIT_NANOCHAT }, { "gpt2", SPLIT_GPT2 }, { "llama3", SPLIT_LLAMA3 },
    { "cl100k", SPLIT_CL100K }, { "qwen2", SPLIT_QWEN2 }, { "words", SPLIT_WORDS },
    { "r50k", SPLIT_GPT2 }, { "qwen3", SPLIT_QWEN2 },
};

int split_kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i].name) && names[i].kind != SPLIT_WORDS)
            return (int)names[i].kind;
    return -1;
}

int split_kind_of(const char *pattern, size_t n, bool portable)
{
    for (int i = 0; i < SPELLINGS; i++)
        if (strlen(spellings[i].pattern) == n && !memcmp(spellings[i].pattern, pattern, n) &&
            (!portable || spellings[i].portable))
            return (int)spellings[i].kind;
    return -1;
}

const char *split_kind_name(SplitKind kind)
{
    return names[kind].name;
}

const char *split_kind_pattern(SplitKind kind)
{
    for (int i = 0; i < SPELLINGS; i++)
        if (spellings[i].kind == kind && spellings[i].portable)
            return spellings[i].pattern;
    return NULL;
}

const char *split_kind_names(void)
{
    return "nanochat, gpt2 (r50k), llama3, cl100k, qwen2 (qwen3)";
}
