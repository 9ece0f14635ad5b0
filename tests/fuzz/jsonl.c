/* jsonl_text() accepts nothing that json_parse() refuses, and finds the same text. */
#include "fuzz.h"
#include "base/json.h"
#include "text/jsonl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static Arena a;
    static Buf out;
    const char *err = NULL;
    size_t at = 0;
    char *s = malloc(n + JSONL_PAD);        /* of its own, so that a sanitizer sees its end */
    if (!s) abort();
    if (n) memcpy(s, data, n);
    memset(s + n, '"', JSONL_PAD);          /* as bad as it can be */
    if (jsonl_text(&out, s, n)) {
        arena_reset(&a);
        const Json *row = json_parse(&a, s, n, &err, &at), *text = json_get(row, "text");
        if (!text || text->kind != J_STR || json_get(row, "messages") || text->len != out.n ||
            memcmp(text->s, out.s, out.n)) {
            fprintf(stderr, "accepted, but not the same: %.*s (%s)\n", (int)n, s, err ? err : "");
            abort();
        }
    }
    free(s);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const s[] = {
        "{\"text\":\"a\"}",
        " { \"id\" : [ 1 , -2.5e+3 , {\"a\":null} ] , "
        "\"text\" : \"q\\n\\u00e9\\ud83d\\ude00\" } ",
        "{\"text\":\"\xe6\x97\xa5 0123456789abcdef0123456789abcdef0123456789\","
        "\"b\":{\"c\":{},\"d\":true}}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}" };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) put(s[i], strlen(s[i]));
}
