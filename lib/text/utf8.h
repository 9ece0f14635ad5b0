/* utf8.h -- decoding UTF-8, and the one policy for bytes that are not UTF-8.
 *
 * Policy "replace": each maximal ill-formed subpart (Unicode 16, 3.9, table 3-7; as Python's
 * errors="replace") becomes one U+FFFD. Overlong forms, surrogates and values past U+10FFFF are
 * ill-formed. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H
#include "base/buf.h"

/* Length of the character at s (1..4), *cp set; or -k: k bytes, one ill-formed subpart. n > 0. */
int utf8_next(const char *s, size_t n, uint32_t *cp);
int utf8_put(char *s, uint32_t cp);                     /* 1..4 bytes written */
size_t utf8_valid(const char *s, size_t n);             /* length of the longest valid prefix */
uint64_t utf8_repair(Buf *out, const char *s, size_t n);/* appends; counts replacements */
/* Where the byte at `at` of repaired text stands in s[0..n), which it was made of. */
size_t utf8_unrepaired(const char *s, size_t n, size_t at);
size_t utf8_count(const char *s, size_t n);             /* code points in valid text */
size_t utf8_complete(const char *s, size_t n);          /* n less a character that is cut short */

#endif
