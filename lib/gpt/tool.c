/* tool.c -- see tool.h. */
#include "gpt/tool.h"
#include "text/calc.h"
#include <stdlib.h>

static bool calculator(void *arg, const char *s, size_t n, Buf *out)
{
    (void)arg;
    return calc(s, n, out);
}

bool tool_init(Tool *t, const Tok *tok, TokEnc *enc)
{
    *t = (Tool){ .tok = tok, .enc = enc, .run = calculator,
                 .call = tok_special(tok, SP_PYTHON_START),
                 .call_end = tok_special(tok, SP_PYTHON_END),
                 .result = tok_special(tok, SP_OUTPUT_START),
                 .result_end = tok_special(tok, SP_OUTPUT_END) };
    return t->call >= 0 && t->call_end >= 0 && t->result >= 0 && t->result_end >= 0;
}

void toolrow_free(ToolRow *r)
{
    buf_free(&r->expr);
    ids_free(&r->forced);
    *r = (ToolRow){0};
}

bool toolrow_forced(ToolRow *r, int *id)
{
    if (r->at == r->forced.n) return false;
    *id = (int)r->forced.id[r->at++];
    return true;
}

static void answer(const Tool *t, ToolRow *r)
{
    Buf out = {0};
    if (r->expr.n > 0 && t->run(t->arg, r->expr.s, r->expr.n, &out)) {
        r->at = r->forced.n = 0;
        ids_add(&r->forced, (uint32_t)t->result);
        tok_encode(t->enc, out.n ? out.s : "", out.n, &r->forced);
        ids_add(&r->forced, (uint32_t)t->result_end);
    }
    buf_free(&out);
}

void toolrow_take(const Tool *t, ToolRow *r, int id)
{
    size_t n;
    if (id == t->call) {
        r->open = true;
        buf_clear(&r->expr);
    } else if (id == t->call_end && r->open) {
        r->open = false;
        answer(t, r);
    } else if (r->open) {
        const char *s = tok_bytes(t->tok, id, &n);
        buf_add(&r->expr, s, n);
    }
}
