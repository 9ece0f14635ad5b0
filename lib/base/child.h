/* child.h -- another program with its stdin and stdout on pipes of ours. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H
#include <stdbool.h>
#include <sys/types.h>

typedef struct Child { pid_t pid; int in, out; } Child;     /* what we write to and read from */

/* Runs /bin/sh with argv (argv[0] "sh"; NULL at the end), in a process group of its own, SIGPIPE
 * and SIGINT as they are by default; stderr is ours. false: errno says why. in does not block. */
bool child_sh(const char *const argv[], Child *c);

#endif
