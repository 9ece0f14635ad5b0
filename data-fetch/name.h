/* name.h -- what the end of a file's name says. */
#ifndef DATA_FETCH_NAME_H
#define DATA_FETCH_NAME_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Do the first n bytes of s end in tail, whatever the case? */
static inline bool name_ends(const char *s, size_t n, const char *tail)
{
    size_t k = strlen(tail);
    return n >= k && strncasecmp(s + n - k, tail, k) == 0;
}

#endif
