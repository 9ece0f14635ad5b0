/* member.h -- the names of files in archives. */
#ifndef DATA_MEMBER_H
#define DATA_MEMBER_H
#include <stddef.h>

/* What is wrong with the n bytes of a name, or NULL: it must stay inside the folder where it would be
 * unpacked, on any system (not absolute, no part "..", no backslash or drive), and hold no control
 * character. */
const char *member_bad(const char *s, size_t n);

#endif
