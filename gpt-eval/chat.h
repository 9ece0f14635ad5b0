/* chat.h -- what the two kinds of items share: letters.c reads logits, words.c samples answers. */
#ifndef EVAL_CHAT_H
#define EVAL_CHAT_H
#include "eval.h"
#include "task.h"
#include "text/chat.h"

enum { PASSES = 22 };               /* k = 1, 2, 4, ... of pass@k */

typedef struct Score {
    uint64_t items;
    double right;                   /* items; of several samples their mean */
    double pass[PASSES];            /* sums of pass_at(samples, right, 2^i) */
    uint64_t answers;               /* samples in all; 0: letters only */
    uint64_t cut;                   /* prompts that lost their beginning */
    uint64_t unfinished;            /* answers without an end token */
    uint64_t called, well_formed;   /* answers with a tool call; with one that had a result */
} Score;

/* A task being run, for both kinds. */
typedef struct Trial {
    Subject *s;
    Chat *chat;
    Gen *gen;
    const Tool *tool;               /* the calculator, or NULL */
    const char *name;
    Out *items;                     /* a record per item; NULL: not wanted */
    Score score;
    uint64_t done;                  /* items taken, scored or not yet */
} Trial;

/* The prompt's ids for `room` positions at most: of a longer one bos and the last ids stay.
 * Dies "TASK: item N: ..." if the conversation is none. */
void trial_prompt(Trial *t, const Item *it, size_t room, Ids *out);

typedef struct Letters Letters;
Letters *letters_new(Trial *t);
/* Takes the item in; scores a batch when it is full. it must live until then. */
void letters_add(Letters *l, const Item *it);
void letters_end(Letters *l);       /* scores what is left; frees */

void words_item(Trial *t, const Item *it);

/* A record's beginning and end; see --items. */
void item_begin(Buf *b, const Trial *t, uint64_t index, const Item *it);

/* ---- program.c: programs in a sandbox */
void runner_check(void);                    /* dies if programs cannot be run safely */
bool runner_run(const char *program, size_t n);     /* did it reach its end? */

#endif
