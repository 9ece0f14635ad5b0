/* Rank files: what is accepted is written the same, but for the order of lines. */
#include "fuzz.h"
#include "toks.h"

typedef struct Input { const char *s; size_t n; } Input;

static void one(void *arg)
{
    const Input *in = arg;
    Tok *t = tiktoken_parse("input", in->s, in->n, (SplitKind)(in->n % SPLIT_KINDS));
    check_tok(t);
    Buf b = {0};
    tiktoken_print(t, "input", &b);
    must(b.n == in->n + (in->s[in->n - 1] != '\n'));
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
