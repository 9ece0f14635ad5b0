/* child.h -- another program with its stdin and stdout on pipes of ours. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H
#include <stdbool.h>
#include <sys/types.h>

typedef struct Child { pid_t pid; int in, out, err; } Child;    /* what we write to and read from */

/* Runs /bin/sh with argv (argv[0] "sh"; NULL at the end), in a process group of its own, SIGPIPE
 * and SIGINT as they are by default; stderr is ours (err is -1). false: errno says why. in does not
 * block. */
bool child_sh(const char *const argv[], Child *c);

/* Runs argv[0], looked for on the PATH, without a shell: stderr is a pipe too, SIGPIPE as it is by
 * default. In our process group, so that Ctrl-C reaches both, and killed when we end, however that
 * is (Linux). false: errno says why; ENOENT: there is no such program. in does not block. */
bool child_run(const char *const argv[], Child *c);
bool child_found(const char *name);             /* is such a program on the PATH? */

#endif
