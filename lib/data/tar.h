/* tar.h -- the files of a tar archive, as a stream: ustar, pax and GNU's long names (POSIX pax(1)).
 *
 * Regular files come in the archive's order; folders are passed over, and links and devices too, but
 * counted. Refused: wrong checksums, names that would lead elsewhere (member.h), sparse files, a size
 * past 2^63, an end before the two blocks of zeros that end an archive, anything but zeros after
 * them. Every fault dies, "ARCHIVE: byte N: why". Memory: the name, at most 64 KB. */
#ifndef DATA_TAR_H
#define DATA_TAR_H
#include "base/io.h"

typedef struct Tar Tar;
typedef struct TarFile { const char *name; uint64_t size; } TarFile;    /* until the next one */

bool tar_magic(const char *s, size_t n);        /* are these first bytes a header? */
Tar *tar_open(In *in);                          /* takes it over */
bool tar_next(Tar *t, TarFile *f);              /* what is not read of the last one is passed over */
/* The bytes of the file that came last, once; gzip and zstd inside it are unpacked too. */
In *tar_read(Tar *t);
uint64_t tar_others(const Tar *t);              /* links and devices so far */
void tar_close(Tar *t);

#endif
