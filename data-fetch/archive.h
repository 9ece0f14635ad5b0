/* archive.h -- the files of zip and tar archives, one after the other.
 *
 * Wanted are those whose whole name matches one of the patterns of the shell (fnmatch(3); * also
 * stands for /), or all if there are none; hidden ones, with a part that begins with a dot, or below
 * __MACOSX, only if their whole name is a pattern. Dies if nothing is wanted, or if one of the patterns matches nothing. */
#ifndef DATA_FETCH_ARCHIVE_H
#define DATA_FETCH_ARCHIVE_H
#include "base/io.h"
#include "base/opt.h"

/* name: ARCHIVE:FILE; takes `in` over. false: no more are wanted. */
typedef bool ArchiveEach(void *arg, const char *name, In *in);

bool archive_is_zip(const char *path, const char *format, In *in);
bool archive_is_tar(const char *path, const char *format, In *in);
void archive_zip(const char *path, StrList patterns, ArchiveEach *each, void *arg);
void archive_tar(In *in, StrList patterns, ArchiveEach *each, void *arg);       /* takes `in` over */
/* Where a pattern follows a name, ARCHIVE:PATTERN: at the first colon before which stands a file, or a
 * name that ends as archives' do. NULL: there is none. */
char *archive_colon(char *s);

#endif
