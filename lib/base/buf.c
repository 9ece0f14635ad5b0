#include "base/buf.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_reserve(Buf *b, size_t more)
{
    size_t want = size_add(size_add(b->n, more), 1);
    if (want <= b->cap) return;
    size_t cap = b->cap + b->cap / 2;           /* 1.5: a freed block can serve a later growth */
    if (cap < want) cap = want;
    if (cap < 64) cap = 64;
    b->s = xrealloc(b->s, cap);
    b->cap = cap;
}

void buf_add(Buf *b, const void *s, size_t n)
{
    buf_reserve(b, n);
    if (n) memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = 0;
}

void buf_str(Buf *b, const char *s) { buf_add(b, s, strlen(s)); }
void buf_char(Buf *b, char c) { buf_add(b, &c, 1); }

void buf_printf(Buf *b, const char *fmt, ...)
{
    va_list ap;
    buf_reserve(b, 64);
    for (;;) {
        size_t room = b->cap - b->n;
        va_start(ap, fmt);
        int k = vsnprintf(b->s + b->n, room, fmt, ap);
        va_end(ap);
        if (k < 0) die("cannot format a text:");
        if ((size_t)k < room) { b->n += (size_t)k; return; }
        buf_reserve(b, (size_t)k);
    }
}

void buf_clear(Buf *b)
{
    b->n = 0;
    if (b->s) b->s[0] = 0;
}

void buf_free(Buf *b)
{
    free(b->s);
    *b = (Buf){0};
}

void buf_u32(Buf *b, uint32_t x)
{
    unsigned char p[4];
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(x >> (8 * i));
    buf_add(b, p, 4);
}

void buf_u64(Buf *b, uint64_t x)
{
    buf_u32(b, (uint32_t)x);
    buf_u32(b, (uint32_t)(x >> 32));
}

