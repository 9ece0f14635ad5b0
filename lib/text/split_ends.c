/* split_ends.c -- pieces in bulk; see split.h. */
#include "text/split.h"

size_t split_ends(const char *s, size_t n, size_t i, uint32_t *ends, size_t max)
{
    size_t k = 0;
    for (size_t at = i; at < n && k < max; k++) {
        at = split_next(s, n, at);
        if (at - i > UINT32_MAX)
            break;
        ends[k] = (uint32_t)(at - i);
    }
    return k;
}
