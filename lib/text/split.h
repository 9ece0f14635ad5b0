/* split.h -- nanochat's pre-tokenizer: the six-rule scanner equal to the pattern
 *   '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}
 *   | ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+
 * over Unicode 16.0 (tables in unicode16.c, made by unicode16.awk). Linear time, constant stack.
 * Text must be valid UTF-8 (utf8.h repairs it). */
#ifndef TEXT_SPLIT_H
#define TEXT_SPLIT_H
#include <stddef.h>
#include <stdint.h>

extern const char split_pattern[];      /* the pattern as it is in tokenizer files, 109 bytes */
#define SPLIT_UNICODE "16.0.0"

enum { UC_OTHER, UC_LETTER, UC_NUMBER, UC_SPACE };
int unicode_class(uint32_t cp);                 /* L*, N*, White_Space, the rest */

/* End of the piece that begins at i, i < n. s[0..n) is the whole document (or the slice before an
 * allowed special token), never an I/O block. Pieces tile the text. */
size_t split_next(const char *s, size_t n, size_t i);

#endif
