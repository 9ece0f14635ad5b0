/* writer.h -- samples on their way out: text as it comes, or a JSON object for each.
 *
 * Samples are decoded together and written in their order: the first unfinished one streams, later
 * ones wait in memory. Text is the tokens' bytes, exactly, and a line feed after each sample; to a
 * terminal an incomplete UTF-8 character waits for its end. Every piece is flushed. */
#ifndef GPT_SAMPLE_WRITER_H
#define GPT_SAMPLE_WRITER_H
#include "prompts.h"
#include "text/chat.h"

/* Write what `text` holds, and flush; with `hold` all but a character at its end that is not
 * whole. What was written is taken from text. */
void write_text(Out *o, Buf *text, int hold);

typedef struct Writer Writer;

enum { W_JSON = 1, W_IDS = 2, W_ECHO = 4 };     /* JSON; with "ids"; text after its prompt */
/* chat: objects are messages of the assistant, with the parts that this template knows; or NULL. */
Writer *writer_new(Out *out, const Tok *tok, Chat *chat, int flags, int terminal);
void writer_free(Writer *w);
/* The samples that follow belong to p, which has n tokens; at most `open` are unfinished
 * at once. */
void writer_prompt(Writer *w, const Prompt *p, int n, int open);
void writer_token(void *w, int sample, int id);         /* the callbacks of a GenJob */
void writer_end(void *w, int sample, int id);

#endif
