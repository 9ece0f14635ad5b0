/* writer.h -- samples on their way out: text as it comes, or a JSON object for each.
 *
 * Samples are decoded together and written in their order: the first unfinished one streams, later
 * ones wait in memory. Text is the tokens' bytes, exactly, and a line feed after each sample; to a
 * terminal an incomplete UTF-8 character waits for its end. Every piece is flushed. */
#ifndef GPT_SAMPLE_WRITER_H
#define GPT_SAMPLE_WRITER_H
#include "ops/ops.h"
#include "prompts.h"
#include "text/chat.h"

/* Write what `text` holds, and flush; with `hold` all but a character at its end that is not
 * whole. What was written is taken from text. */
void write_text(Out *o, Buf *text, int hold);

typedef struct Writer Writer;

/* JSON; with "ids"; text after its prompt; with "logprobs" */
enum { W_JSON = 1, W_IDS = 2, W_ECHO = 4, W_LOGPROBS = 8 };
/* chat: objects are messages of the assistant, with the parts that this template knows; or NULL. */
Writer *writer_new(Out *out, const Tok *tok, Chat *chat, int flags, int terminal);
void writer_free(Writer *w);
/* A sample's text ends before the first of these, none of them empty, wherever tokens begin and
 * end: what may be the beginning of one waits. */
void writer_stops(Writer *w, const StrList *texts);
/* The samples that follow belong to p, which has n tokens; at most `open` are unfinished
 * at once. */
void writer_prompt(Writer *w, const Prompt *p, int n, int open);
void writer_token(void *w, int sample, int id);         /* the callbacks of a GenJob */
void writer_end(void *w, int sample, int id);
/* A line for a prompt with --score: lp [ids.n - 1] of ids 1 .. n-1. */
void writer_score(Writer *w, const Ids *ids, const real *lp);
void writer_logprob(void *w, int sample, double lp);
bool writer_enough(void *w, int sample);                /* its text has come to a stop */

#endif
