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
static inline uint32_t get_u32(const void *p)
{
    const unsigned char *s = p;
    return (uint32_t)s[0] | (uint32_t)s[1] << 8 | (uint32_t)s[2] << 16 | (uint32_t)s[3] << 24;
}
static inline uint64_t get_u64(const void *p)
{
    return get_u32(p) | (uint64_t)get_u32((const char *)p + 4) << 32;
}

#endif
