/* tool.h -- the tool that a model calls while it writes.
 *
 * What stands between a call token and its end is the expression, as bytes; special tokens within
 * it are there by their names. If run() has a result for it, then result, the encoded text and
 * result_end are the next tokens, whatever the model wants at these positions. */
#ifndef GPT_TOOL_H
#define GPT_TOOL_H
#include "text/enc.h"

typedef struct Tool {           /* not changed by its rows, which share it */
    const Tok *tok;
    TokEnc *enc;                /* of the caller */
    int call, call_end, result, result_end;
    /* The result in place of what out held, any bytes; false: none. */
    bool (*run)(void *arg, const char *s, size_t n, Buf *out);
    void *arg;
} Tool;

/* The calculator (calc.h). false: the tokenizer has no tokens for tools. */
bool tool_init(Tool *t, const Tok *tok, TokEnc *enc);

typedef struct ToolRow {        /* of one sample; {0} is a fresh one; toolrow_free() */
    bool open;                  /* inside a call */
    Buf expr;
    Ids forced; size_t at;      /* tokens to come: forced.id[at .. n) */
} ToolRow;

bool toolrow_forced(ToolRow *r, int *id);       /* the token that must come next, if one must */
void toolrow_take(const Tool *t, ToolRow *r, int id);   /* each token of the row, in order */
void toolrow_free(ToolRow *r);

#endif
