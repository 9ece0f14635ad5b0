/* .tok files: as they are, and with a checksum that is right. */
#include "fuzz.h"
#include "toks.h"

typedef struct Input { const char *s; size_t n; } Input;

static void one(void *arg)
{
    const Input *in = arg;
    if (in->n < 8) return;
    Tok *t = tokfile_parse("input", in->s, in->n);
    check_tok(t);
    tok_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *s = malloc(n + 8);
    if (!s) abort();
    memcpy(s, data, n);
    uint64_t h = xxh3(s, n);
    for (int i = 0; i < 8; i++) s[n + (size_t)i] = (char)(h >> 8 * i);
    survives(one, &(Input){ s, n + 8 });
    if (n >= 16) {
        s = realloc(s, n);
        if (!s) abort();
        survives(one, &(Input){ s, n });
    }
    free(s);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    for (int i = 0; i < SEED_TOKS; i++) {
        Buf b = {0};
        Tok *t = seed_tok(i);
        tokfile_print(t, &b);
        put(b.s, b.n);
        tok_free(t), buf_free(&b);
    }
}
