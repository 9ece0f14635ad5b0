/* Tasks made here, with nothing to fetch: item `index` of a seed is always the same. */
#include "base/rng.h"
#include "task.h"
#include <string.h>

static const char *const words[] = {
    "animal", "answer", "apple", "arrow", "autumn", "banana", "basket", "bottle", "bridge",
    "bucket", "butter", "button", "candle", "carpet", "castle", "cherry", "circle", "coffee",
    "copper", "corner", "cotton", "curtain", "desert", "dinner", "doctor", "dragon", "eleven",
    "engine", "evening", "family", "farmer", "feather", "finger", "flower", "forest", "friend",
    "garden", "glass", "grammar", "hammer", "harbour", "helmet", "honey", "horse", "island",
    "jacket", "journey", "kettle", "kitchen", "ladder", "letter", "library", "lemon", "market",
    "meadow", "memory", "mirror", "morning", "mountain", "needle", "number", "orange", "paper",
    "pencil", "pepper", "piano", "picture", "pillow", "planet", "pocket", "potato", "puzzle",
    "rabbit", "raspberry", "ribbon", "river", "saddle", "school", "season", "seven", "shadow",
    "silver", "sister", "spring", "station", "street", "summer", "teacher", "thunder", "ticket",
    "tomato", "travel", "tunnel", "valley", "village", "violin", "water", "weather", "window",
    "winter", "yellow",
};
enum { NWORDS = sizeof words / sizeof *words };

static void set(Item *it, Arena *a, Check check, const Buf *question, const Buf *want)
{
    *it = (Item){ .check = check };
    it->messages = one_question(a, question->s, question->n);
    it->want = (Str){ arena_strndup(a, want->s, want->n), want->n };
}

static int64_t digits(Rng *r, int most)         /* a number of 1 .. most digits */
{
    uint64_t n = 10;
    for (uint64_t k = rng_below(r, (uint64_t)most); k > 0; k--) n *= 10;
    return (int64_t)rng_below(r, n);
}

static Check arithmetic(Rng *r, Buf *question, Buf *want)
{
    char op = "+-*"[rng_below(r, 3)];
    int most = op == '*' ? 2 : 3;
    long long a = digits(r, most), b = digits(r, most);
    buf_printf(question, "What is %lld %c %lld?", a, op, b);
    buf_printf(want, "%lld", op == '+' ? a + b : op == '-' ? a - b : a * b);
    return CHECK_NUMBER;
}

static Check counting(Rng *r, Buf *question, Buf *want)
{
    const char *w = words[rng_below(r, NWORDS)];
    char c = w[rng_below(r, strlen(w))];
    int n = 0;
    for (const char *p = w; *p; p++) n += *p == c;
    buf_printf(question, "How many times is the letter %c in %s?", c, w);
    buf_printf(want, "%d", n);
    return CHECK_NUMBER;
}

static Check spelling(Rng *r, Buf *question, Buf *want)
{
    const char *w = words[rng_below(r, NWORDS)];
    buf_printf(question, "Spell the word %s.", w);
    for (const char *p = w; *p; p++) buf_printf(want, "%s%c", p == w ? "" : "-", *p);
    return CHECK_CONTAINS;
}

bool own_item(const char *task, uint64_t seed, uint64_t index, Arena *a, Item *item)
{
    static const struct { const char *name; Check (*make)(Rng *, Buf *, Buf *); } own[] = {
        { "arithmetic", arithmetic }, { "counting", counting }, { "spelling", spelling },
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strcmp(task, own[i].name)) continue;
        Rng r;
        Buf question = {0}, want = {0};
        rng_init(&r, seed, xxh3(task, strlen(task)) + index);
        Check c = own[i].make(&r, &question, &want);
        set(item, a, c, &question, &want);
        buf_free(&question);
        buf_free(&want);
        return true;
    }
    return false;
}
