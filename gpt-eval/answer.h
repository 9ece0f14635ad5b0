/* answer.h -- is an answer in words right? */
#ifndef EVAL_ANSWER_H
#define EVAL_ANSWER_H
#include "task.h"

/* nanochat's pattern for gsm8k: "#### " and -?[0-9.,]+, the first such; commas are not part of the
 * number, which is put into b. */
bool number_after_hashes(Str s, Buf *b);
/* For any check but CHECK_LETTER and CHECK_PROGRAM. */
bool answer_right(const Item *it, Str answer);
/* What Python is to run for CHECK_PROGRAM: the prompt's imports, the answer (of Markdown the first
 * block of code), the test, and the call of the test. */
void answer_program(const Item *it, Str answer, Buf *b);

#endif
