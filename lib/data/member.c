#include "data/member.h"
#include <string.h>

const char *member_bad(const char *s, size_t n)
{
    if (n == 0) return "an empty name";
    if (s[0] == '/') return "an absolute name";
    if (n > 1 && s[1] == ':') return "a name with a drive";
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)s[i] < ' ' || s[i] == 127) return "a control character in a name";
        if (s[i] == '\\') return "a backslash in a name";
    }
    for (size_t at = 0; at < n; ) {
        const char *slash = memchr(s + at, '/', n - at);
        size_t k = slash ? (size_t)(slash - s) - at : n - at;
        if (k == 2 && !memcmp(s + at, "..", 2)) return "'..' in a name";
        at += k + 1;
    }
    return NULL;
}
