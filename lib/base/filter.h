/* filter.h -- another program that is kept running: lines go in, as many lines come out.
 *
 * sh runs the command in a process group of its own, its stdout line-buffered where stdbuf(1) is
 * there to see to it (a C program that answers into a pipe else holds its answers back); stderr is
 * ours. Not for several threads at once. */
#ifndef BASE_FILTER_H
#define BASE_FILTER_H
#include "base/buf.h"
#include <signal.h>

typedef struct Filter Filter;

Filter *filter_open(const char *cmd);           /* dies if it cannot be started */
/* Sends the n lines of in (each with its LF), and waits for n lines, LF included, into out (cleared
 * first). NULL, or what went wrong (no line may be trusted then): it ended, took more than
 * `seconds` without a line, sent a line too many (perhaps told by the next call or filter_end()), a
 * line of more than 1 MB, or *cancel (may be NULL) became not 0. In the last case the message is
 * "interrupted".
 */
const char *filter_ask(Filter *f, const Buf *in, size_t n, double seconds,
                       const volatile sig_atomic_t *cancel, Buf *out);
/* Its stdin ends, ask nothing more. NULL, or that it still had something to say, in half a second. */
const char *filter_end(Filter *f);
void filter_close(Filter *f);                   /* ends it, and what it left running */

#endif
