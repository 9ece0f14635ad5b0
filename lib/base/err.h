/* err.h -- how every program here reports and ends; allocation that cannot fail.
 *
 * All messages go to stderr as "program: message". die() is for what stops the work
 * (exit 1), die_usage() for a wrong command line (exit 2). A format that ends in ':' has the
 * text of errno put after it. Messages about a file read "FILE: what is wrong", with line, row
 * or byte offset where there is one.
 *
 * Nothing here returns an error. die() runs the clean-ups registered by io.h (temporary output
 * files are removed), because it ends through exit().
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H
#include <stddef.h>
#include <stdint.h>

#define PRINTF(f, a) __attribute__((format(printf, f, a)))

extern const char *prog;            /* basename of argv[0]; set once, by opt_parse() */
extern void (*before_message)(void);     /* progress.c: takes its line off the terminal first */
extern void (*before_death)(void);       /* die() and die_usage() call it before their message */
extern int verbose;             /* 0 errors only (-q), 1 warnings and progress, 2.. detail (-v) */

_Noreturn void die(const char *fmt, ...) PRINTF(1, 2);
_Noreturn void die_usage(const char *fmt, ...) PRINTF(1, 2);
void warn(const char *fmt, ...) PRINTF(1, 2);
void note(int level, const char *fmt, ...) PRINTF(2, 3);   /* said if verbose >= level */

/* These never return NULL: they die. n * size is checked for overflow. Freed with free(). */
void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n);
void *xreallocarray(void *p, size_t n, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) PRINTF(1, 2);

size_t size_mul(size_t a, size_t b);        /* a * b; dies when it does not fit */
size_t size_add(size_t a, size_t b);

#endif
