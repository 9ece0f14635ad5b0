/* io_int.h -- what io.c, in.c and out.c share; nobody else includes it. */
#ifndef BASE_IO_INT_H
#define BASE_IO_INT_H
#include <stdbool.h>
#include <sys/stat.h>

struct Temp;
struct Temp *temp_add(const char *path);        /* unlinked should the program end now */
void temp_drop(struct Temp *t, bool unlink_it); /* no longer */

void fd_wait(int fd, int events);               /* until a non-blocking descriptor is ready */
int fd_named(const char *path);                 /* /dev/stdin, /dev/fd/N ...: N, else -1 */
char *path_beside(const char *path, const char *name);  /* name in path's folder; free() it */

/* A file is opened to be read, or will be replaced by an output; it is closed. The first two die if
 * it is one of the others now; what is no regular file is let pass. */
void clash_read(const struct stat *st, const char *name);
void clash_write(const struct stat *st, const char *name);
void clash_was_read(const struct stat *st);
void clash_written(const struct stat *st);

#endif
