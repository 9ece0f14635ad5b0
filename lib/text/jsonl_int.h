/* jsonl_int.h -- between jsonl.c, its ways to copy strings and their test; nobody else includes
 * it. */
#ifndef TEXT_JSONL_INT_H
#define TEXT_JSONL_INT_H
#include <stdbool.h>

/* Copies the inside of a JSON string from p to o, up to the first byte that needs a look (a quote,
 * a control character; some of them: a backslash, not ASCII; what is malformed), or past `end` if
 * none does; returns how far both came. p is at the beginning of a character or escape, and so it
 * is afterwards. JSONL_PAD bytes too many may be read and written. */
typedef struct Copied { char *o; const char *p; } Copied;
typedef Copied JsonlCopy(char *o, const char *p, const char *end);

JsonlCopy jsonl_copy_base;
#ifdef __x86_64__
JsonlCopy jsonl_copy_avx2, jsonl_copy_avx512;   /* the last one needs VBMI and VBMI2 as well */
#endif
extern JsonlCopy *jsonl_copy;                   /* the one in use */
bool jsonl_copy_runs(JsonlCopy *copy);          /* on this processor, and the environment allows it */

#endif
