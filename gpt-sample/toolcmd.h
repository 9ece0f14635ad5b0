/* toolcmd.h -- a command as the tool of a conversation.
 *
 * For each call sh runs the command, in a process group of its own: the expression, as one line, on
 * its stdin; the first line of what it prints is the result. A failure (exit status not 0, more
 * than 3 seconds, more than 64 KB, an expression of several lines) is no result, and a warning. */
#ifndef GPT_SAMPLE_TOOLCMD_H
#define GPT_SAMPLE_TOOLCMD_H
#include "base/buf.h"
#include <signal.h>
#include <stdbool.h>

typedef struct ToolCmd {
    const char *cmd;
    const volatile sig_atomic_t *cancel;        /* NULL, or not 0: give up */
} ToolCmd;
bool toolcmd_run(void *toolcmd, const char *s, size_t n, Buf *out);     /* a Tool's run() */

#endif
