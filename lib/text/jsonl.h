/* jsonl.h -- the "text" of a document row, without building a tree.
 *
 * jsonl_text() accepts a part of what json_parse() accepts: one object whose member "text" is a
 * string and which has no member "messages", with no escape in a key, few keys in an object. What
 * it accepts is valid JSON by json.h's rules to the last byte, and the text is the same. Everything
 * else is left to json_parse(), which knows what is wrong. No recursion; about 2 GB/s or more on
 * plain text (AVX2; PIPEGPT_CPU=base turns that off). */
#ifndef TEXT_JSONL_H
#define TEXT_JSONL_H
#include "base/buf.h"
#include <stdbool.h>

enum { JSONL_PAD = 64 };        /* bytes after a row that may be read, whatever they are */

/* True: out holds the text (what was in out is gone) and JSONL_PAD zero bytes after it. False: ask
 * json_parse(). s[n .. n + JSONL_PAD) must be readable. */
bool jsonl_text(Buf *out, const char *s, size_t n);

#endif
