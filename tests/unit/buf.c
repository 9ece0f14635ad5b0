#include "tap.h"
#include "base/buf.h"
#include <stdint.h>

static void too_much(void *x) { buf_reserve(x, SIZE_MAX - 1); }

int main(void)
{
    Buf b = {0};
    buf_clear(&b);
    ok(b.n == 0 && !b.s, "clearing the empty one");
    buf_add(&b, NULL, 0);
    ok(b.n == 0 && b.s && b.s[0] == 0, "adding nothing ends with NUL");
    buf_add(&b, "a\0b", 3); buf_char(&b, 0); buf_str(&b, "c");
    ok(b.n == 5 && !memcmp(b.s, "a\0b\0c", 6), "NUL bytes are data, one more after the end");
    buf_clear(&b);
    char want[4000] = "";
    size_t n = 0;
    for (int i = 0; i < 500; i++) {
        buf_printf(&b, "%d,", i);
        n += (size_t)sprintf(want + n, "%d,", i);
    }
    ok(b.n == n && !strcmp(b.s, want), "printf grows");
    buf_clear(&b);
    buf_printf(&b, "%*s|", 100000, "x");
    ok(b.n == 100001 && b.s[99999] == 'x' && b.s[100000] == '|' && !b.s[100001],
        "a printf larger than what is there");
    buf_clear(&b);
    buf_u32(&b, 0x81828384u); buf_u64(&b, 0xf1f2f3f4f5f6f7f8u);
    ok(b.n == 12 && !memcmp(b.s, "\x84\x83\x82\x81\xf8\xf7\xf6\xf5\xf4\xf3\xf2\xf1", 12),
        "little-endian");
    ok(get_u32(b.s) == 0x81828384u && get_u64(b.s + 4) == 0xf1f2f3f4f5f6f7f8u,
        "and back, unaligned");
    ok(dies(1, "out of memory", too_much, &b), "a size that overflows");
    buf_free(&b);
    ok(!b.s && !b.n && !b.cap, "free leaves the empty one");
    return done();
}
