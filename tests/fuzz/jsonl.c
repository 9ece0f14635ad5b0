/* jsonl_text() accepts nothing that json_parse() refuses, and finds the same text, with each of its
 * ways to copy strings; and they accept the same. */
#include "fuzz.h"
#include "base/json.h"
#include "text/jsonl.h"
#include "text/jsonl_int.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is s accepted? It must mean what json_parse() makes of it. */
static bool accepted(const char *s, size_t n)
{
    static Arena a;
    static Buf out;
    const char *err = NULL;
    size_t at = 0;
    if (!jsonl_text(&out, s, n)) return false;
    arena_reset(&a);
    const Json *row = json_parse(&a, s, n, &err, &at), *text = json_get(row, "text");
    if (!text || text->kind != J_STR || json_get(row, "messages") || text->len != out.n ||
        memcmp(text->s, out.s, out.n)) {
        fprintf(stderr, "accepted, but not the same: %.*s (%s)\n", (int)n, s, err ? err : "");
        abort();
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static JsonlCopy *const copy[] = { jsonl_copy_base,
#ifdef __x86_64__
                                       jsonl_copy_avx2, jsonl_copy_avx512,
#endif
    };
    char *s = malloc(n + JSONL_PAD);        /* of its own, so that a sanitizer sees its end */
    if (!s) abort();
    if (n) memcpy(s, data, n);
    memset(s + n, '"', JSONL_PAD);          /* as bad as it can be */
    bool first = false;
    for (size_t i = 0; i < sizeof copy / sizeof *copy; i++) {
        if (!jsonl_copy_runs(copy[i])) continue;
        jsonl_copy = copy[i];
        bool yes = accepted(s, n);
        if (i && yes != first) {
            fprintf(stderr, "accepted in one way, not in another: %.*s\n", (int)n, s);
            abort();
        }
        first = yes;
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
