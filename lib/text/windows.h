/* windows.h -- a piece of any length by encodings of short stretches of it.
 *
 * Time is linear, with what merge() takes for `first` bytes as the constant, and memory is that of
 * the ids, unless tokens as long as `first` or merges that depend on what is far away ask for wider
 * windows: those are as wide as they need to be, at worst the piece. Exact for any merges of which
 * the lowest rank goes first, then the leftmost; see windows.c. */
#ifndef TEXT_WINDOWS_H
#define TEXT_WINDOWS_H
#include "text/tok.h"

typedef struct Windows {
    /* The encoding of s[0..n) as a piece: *got ids, there until the next call. */
    const uint32_t *(*merge)(void *arg, const char *s, size_t n, size_t *got);
    void *arg;
    const int32_t *len;         /* [id] bytes */
    size_t first;               /* bytes of a window; the piece is one if it is no longer */
} Windows;

void windows_encode(const Windows *w, const char *s, size_t n, Ids *out);       /* appends */

#endif
