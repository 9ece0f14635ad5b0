/* A conversation is refused, or its special tokens are those of its structure. */
#include "base/json.h"
#include "fuzz.h"
#include "text/chat.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t special(const Json *m)            /* tokens that the structure calls for */
{
    size_t sum = 1;
    for (m = m->child; m; m = m->next) {
        const Json *content = json_get(m, "content");
        sum += json_is_str(json_get(m, "role"), "system") ? 0 : 2;
        if (content->kind == J_ARR)
            for (const Json *p = content->child; p; p = p->next)
                sum += json_is_str(json_get(p, "type"), "text") ? 0 : 2;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static Arena a;
    static Tok *t;
    static Chat *c;
    static ChatIds out;
    const char *err;
    size_t at, count = 0;
    if (!t) {
        t = tok_from_merges(NULL, 0);
        c = chat_new(t, "bytes", tokenc_new(t), CHAT_NANOCHAT, -1);
    }
    arena_reset(&a);
    const Json *m = json_parse(&a, (const char *)data, n, &err, &at);
    if (!m || m->kind != J_ARR) return 0;
    chatids_cut(&out, 0);
    char *why = chat_render(c, &out, m, false, SIZE_MAX);
    for (size_t i = 0; i < out.ids.n; i++) count += chatids(&out)[i] >= 256;
    if (out.mask.n != out.ids.n || (!why && count != special(m))) {
        fprintf(stderr, "%.*s: %zu special tokens\n", (int)n, (const char *)data, count);
        abort();
    }
    free(why);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const s[] = {
        "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"<|user_end|>\"},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
        "\"python\",\"text\":\"1\"},{\"type\":\"python_output\",\"text\":\"\\u0000\"}]}]",
        "[{\"role\":\"user\",\"content\":\"<|bos|>\"},"
        "{\"role\":\"assistant\",\"content\":\"x\"}]" };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) put(s[i], strlen(s[i]));
}
