/* tokenizer.json: what is accepted is written as one that reads back as the same tokenizer. */
#include "fuzz.h"
#include "toks.h"

typedef struct Input { const char *s; size_t n; } Input;

static void one(void *arg)
{
    const Input *in = arg;
    Tok *t = hf_parse("input", in->s, in->n);
    check_tok(t);
    Buf b = {0};
    hf_print(t, "input", tok_special(t, SP_BOS), &b);
    Tok *u = hf_parse("again", b.s, b.n);
    must(tok_hash(u) == tok_hash(t) || t->by_rank);
    tok_free(t), tok_free(u), buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    survives(one, &(Input){ (const char *)data, n });
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    for (int i = 0; i < SEED_TOKS; i++) {
        Buf b = {0};
        Tok *t = seed_tok(i);
        verbose = 0;
        hf_print(t, "seed", tok_special(t, SP_BOS), &b);
        put(b.s, b.n);
        tok_free(t), buf_free(&b);
    }
}
