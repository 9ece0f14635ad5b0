/* talk.h -- a conversation that goes on: its turns, and the prompt for the next answer.
 *
 * Answers are kept as the ids that were sampled and never encoded again, so that the next prompt
 * begins with the last one and its answer. When the context is full the oldest whole turns (a
 * question and its answer) are left out; the system message stays. */
#ifndef TEXT_TALK_H
#define TEXT_TALK_H
#include "base/io.h"
#include "text/chat.h"

typedef struct Turn { Buf user; Ids answer; bool answered; } Turn;

typedef struct Talk {
    Chat *chat;
    Buf system; bool has_system;
    Turn *turn; size_t n, cap;
    size_t first;               /* turns before this one no longer fit into the context */
    ChatIds ids;                /* of talk_prompt() */
    ChatIds room;
} Talk;                         /* {.chat = ...} is empty; talk_free() */

void talk_reset(Talk *t);                                   /* no turns; the system message stays */
void talk_system(Talk *t, const char *s, size_t n);         /* n 0: none */
void talk_user(Talk *t, const char *s, size_t n);           /* valid UTF-8 */
void talk_answer(Talk *t, const uint32_t *id, size_t n);    /* to the last turn */
void talk_unanswer(Talk *t);                                /* forgets the last answer */
void talk_drop(Talk *t);                                    /* forgets the last turn */
/* All of it from "messages"; the last one may be of either role. NULL, or what is wrong
 * (malloced); then the talk is empty. */
char *talk_load(Talk *t, const Json *messages);
void talk_json(Talk *t, Buf *out);                          /* {"messages":[...]}, a line */
/* Ids of an answer as the content of a message: a string, or a list of parts. */
void talk_content(Chat *c, const uint32_t *id, size_t n, Buf *out);

/* The prompt for an answer to the last turn, which is not answered yet, in t->ids. With room for
 * `answer` tokens in a context of T, if leaving out old turns makes it; fit 0: all turns stay.
 * Returns how many turns were left out that were in it before. */
size_t talk_prompt(Talk *t, int T, int answer, int fit);
void talk_free(Talk *t);

#endif
