/* convert.c -- see convert.h. */
#include "text/convert.h"
#include "base/io.h"
#include "text/tok_int.h"
#include <string.h>

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), k = strlen(with);
    return n > k && !strcmp(s + n - k, with);
}

void tok_convert(const char *in, const char *out, const char *pattern)
{
    int kind = pattern ? split_kind_named(pattern) : -1;
    if (pattern && kind < 0)
        die_usage("--pattern %s: known are %s", pattern, split_kind_names());
    bool ranks = ends(out, ".tiktoken"), json = ends(out, ".json");
    if (!ranks && !json && !ends(out, ".tok"))
        die_usage("%s: the name of a converted tokenizer ends in .tok, .tiktoken or .json", out);
    Tok *t = tok_load_as(in, kind);
    if (!ranks && !json) {
        tok_save(t, out);
        tok_free(t);
        return;
    }
    Buf b = {0};
    if (ranks)
        tiktoken_print(t, in, &b);
    else
        hf_print(t, in, tok_special(t, SP_BOS), &b);
    if (ranks && t->specials)
        note(1, "%s: %zu special tokens are left out: ranks have none", out, t->specials);
    Out *o = out_open(out, 0);
    out_write(o, b.s, b.n);
    out_close(o);
    buf_free(&b), tok_free(t);
}
