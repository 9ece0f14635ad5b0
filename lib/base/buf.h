/* buf.h -- a growable byte buffer. {0} is empty; s[n] is always 0 once anything was added.
 * Bytes may be NUL: n rules. Dies when memory runs out. Freed with buf_free(). */
#ifndef BASE_BUF_H
#define BASE_BUF_H
#include "base/err.h"

typedef struct Buf { char *s; size_t n, cap; } Buf;

void buf_reserve(Buf *b, size_t more);          /* room for `more` bytes past n, and the NUL */
void buf_add(Buf *b, const void *s, size_t n);
void buf_str(Buf *b, const char *s);
void buf_char(Buf *b, char c);
void buf_printf(Buf *b, const char *fmt, ...) PRINTF(2, 3);
void buf_clear(Buf *b);                         /* n = 0, keeps the memory */
void buf_free(Buf *b);

/* little-endian integers, for our formats */
void buf_u32(Buf *b, uint32_t x);
void buf_u64(Buf *b, uint64_t x);
uint32_t get_u32(const void *p);
uint64_t get_u64(const void *p);

#endif
