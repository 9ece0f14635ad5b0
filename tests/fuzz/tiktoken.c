/* Rank files: what is accepted is written the same, but for the order of lines, empty ones, and how
 * they end. */
#include "fuzz.h"
#include "toks.h"

typedef struct Input { const char *s; size_t n; } Input;

/* Bytes of the lines that are not empty, each with one for its end. */
static size_t lines_bytes(const char *s, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0, k; i < n; i += k + 1) {
        for (k = 0; i + k < n && s[i + k] != '\n'; k++)
            ;
        const size_t len = k && s[i + k - 1] == '\r' ? k - 1 : k;
        sum += len ? len + 1 : 0;
    }
    return sum;
}

static void one(void *arg)
{
    const Input *in = arg;
    Tok *t = tiktoken_parse("input", in->s, in->n, (SplitKind)(in->n % SPLIT_KINDS));
    check_tok(t);
    Buf b = {0};
    tiktoken_print(t, "input", &b);
    must(b.n == lines_bytes(in->s, in->n));
    tok_free(t), buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    tiktoken_like((const char *)data, n);
    survives(one, &(Input){ (const char *)data, n });
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    for (int i = 0; i < SEED_TOKS - 1; i++) {           /* the last has words */
        Buf b = {0};
        Tok *t = seed_tok(i);
        tiktoken_print(t, "seed", &b);
        put(b.s, b.n);
        tok_free(t), buf_free(&b);
    }
}
