/* task.h -- the tasks of gpt-eval chat: where items come from, and what is right.
 *
 * An item is a conversation that asks for an answer, and what tells a right one: a letter, a text,
 * or a program's test. Items are read from JSON Lines or made here, one at a time; memory is
 * in proportion to the longest row. A bad row dies "FILE: line N: why". */
#ifndef EVAL_TASK_H
#define EVAL_TASK_H
#include "base/io.h"
#include "base/json.h"
#include <stdbool.h>

typedef enum Check {
    CHECK_LETTER,               /* the likeliest of the letters, at the answer's first token */
    CHECK_GSM8K,                /* the number after "####" */
    CHECK_NUMBER,               /* the same; without "####", the last number of the answer */
    CHECK_CONTAINS,             /* the answer holds the reference, ASCII case aside */
    CHECK_TEXT,                 /* the answer (after "####", if it has that) is the reference */
    CHECK_PROGRAM,              /* the answer's program passes the test */
} Check;

typedef struct Str { const char *s; size_t n; } Str;

typedef struct Item {
    const Json *messages;       /* the last one, the assistant's, is the answer: left out */
    Check check;
    Str *letter; int nletter, gold;     /* CHECK_LETTER */
    Str want;                   /* the reference: a number, a text; CHECK_LETTER: the gold letter */
    Str prompt, test, entry;    /* CHECK_PROGRAM */
} Item;                         /* lives in the arena it was read into */

typedef struct Task Task;
/* spec: a name of a task made here, FILE, or NAME=FILE. Exit 2 if it is none of these. */
Task *task_open(const char *spec, uint64_t seed);
bool task_next(Task *t, Arena *a, Item *item);          /* false at the end */
const char *task_name(const Task *t);
double task_baseline(const Task *t);    /* accuracy of guessing; known after the first item */
uint64_t task_size(const Task *t);      /* how many items; 0: not known before the end */
void task_close(Task *t);

/* The item of that index of a task made here; false if there is no such task. */
bool own_item(const char *task, uint64_t seed, uint64_t index, Arena *a, Item *item);
enum { OWN_ITEMS = 256 };               /* unless --limit says otherwise */

/* A conversation of one user message, and an answer that is not there. */
const Json *one_question(Arena *a, const char *s, size_t n);

#endif
