/* io.h -- input by path (gzip, zstd by magic) and output that is whole or not there.
 *
 * In: a buffered reader of a file, a pipe or stdin ("-"). Gzip is recognised by its magic,
 * several members are read as one, zero bytes after the last are ignored; a truncated or corrupt
 * member dies naming file and offset. Reading fails by dying: "FILE: why".
 *
 * Out: a buffered writer. A named regular file is written as a temporary name beside it and
 * renamed by out_close() after fsync, so that FILE is always either what it was or complete; a
 * program that dies, exits early or is ended by SIGINT/SIGTERM removes the temporary. A path
 * that exists and is not a regular file (/dev/full, a FIFO, /dev/stdout) is written directly, as
 * is "-". Every write is checked, to the close; a failure dies "FILE: why" (exit 1).
 *
 * A file that in_open() reads cannot be an Out at the same time, under whatever name: the text would
 * be lost, or with >> read for ever. The second one dies.
 */
#ifndef BASE_IO_H
#define BASE_IO_H
#include "base/buf.h"
#include <stdbool.h>

typedef struct In In;

In *in_open(const char *path);                  /* "-" is stdin; a directory is an error */
In *in_open_raw(const char *path);              /* the same, never unpacks */
/* What pull() gives, unpacked as a file is: up to n bytes (n > 0) to p, 0 at the end; it dies if it
 * fails. */
typedef size_t InPull(void *arg, void *p, size_t n);
In *in_from(const char *name, InPull *pull, void *arg);
const char *in_name(const In *in);              /* for messages; "stdin" for "-" */
size_t in_read(In *in, void *p, size_t n);      /* up to n bytes; less only at the end; 0 = end */
size_t in_some(In *in, const char **p);         /* what is buffered (refills if empty); 0 = end */
void in_skip(In *in, size_t n);                 /* consume n of what in_some() showed */
/* n bytes, or dies "FILE: ends inside WHAT, byte N" */
void in_exact(In *in, void *p, size_t n, const char *what);
uint64_t in_offset(const In *in);               /* bytes consumed so far (unpacked) */
/* Next line into b (cleared first), without its LF or CR LF; false at the end. A last line without
 * LF counts. in_lineno() is the number of the line just read, from 1. A line longer than
 * in_longest() dies. */
bool in_line(In *in, Buf *b);
uint64_t in_lineno(const In *in);
/* What one text may take: a quarter of the memory that there is, or that the process may have. */
size_t in_longest(void);
void in_close(In *in);

typedef struct Out Out;

enum { OUT_BINARY = 1 };                        /* refuse to write to a terminal (exit 1) */
Out *out_open(const char *path, int flags);
const char *out_name(const Out *o);
/* Would both end in one file, pipe or terminal? Of two names of what is not there yet, links
 * followed, the same. Devices such as /dev/null take any number. */
bool out_same(const Out *a, const Out *b);
void out_write(Out *o, const void *p, size_t n);
void out_str(Out *o, const char *s);
void out_printf(Out *o, const char *fmt, ...) PRINTF(2, 3);
void out_flush(Out *o);
uint64_t out_offset(const Out *o);              /* bytes written so far */
void out_close(Out *o);                         /* flush, fsync, rename */
void out_discard(Out *o);                       /* drop a named file; what went to a pipe is gone */

/* The same of files that are read or written by other means, from now on. */
void io_reads(const char *path);
void io_writes(const char *path);

/* Called by opt_parse(): SIGPIPE, clean-up of temporaries, C locale; open 0, 1 and 2. */
void io_init(void);
void sync_dir_of(const char *path);             /* fsync the directory that holds path */
/* The whole file, as it is (never unpacked), in place of what b held; dies if longer than max. */
void read_file(const char *path, Buf *b, size_t max);
uint64_t xxh3(const void *p, size_t n);         /* XXH3, 64 bits */

#endif
