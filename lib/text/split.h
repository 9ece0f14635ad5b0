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
extern const uint64_t unicode_bmp[];            /* the first 65,536: 2 bits each, 32 to a word */

/* End of the piece that begins at i, i < n. s[0..n) is the whole document (or the slice before an
 * allowed special token), never an I/O block. Pieces tile the text. */
size_t split_next(const char *s, size_t n, size_t i);

/* Many pieces at once: from i (the beginning of a piece, i <= n) on, at most max of them. ends[k]
 * is where piece k ends, counted from i: it begins at i + (k ? ends[k - 1] : 0), and the next call
 * at i + ends[count - 1]. Returns the count: 0 only at i == n, or if the piece at i has 2^32 bytes
 * or more (split_next() knows its end); fewer than max does not mean the end. max >= SPLIT_MIN.
 * Nothing outside s[0..n) is read. Equal to split_next() byte for byte; a few times faster than
 * what uses it, so a max that keeps `ends` in L1 is best (256 .. 2048).
 * PIPEGPT_CPU=base|avx2|avx512 allows no better tier. */
enum { SPLIT_MIN = 64 };
size_t split_ends(const char *s, size_t n, size_t i, uint32_t *ends, size_t max);

#endif
