/* JSON arrays: refused, or objects, a line each; the same ones however the bytes come in. What is
 * read to its end is what json_parse() makes of the whole. */
#include "data/array.h"
#include "rows.h"

static bool row(void *arg, const char *s, size_t n)
{
    Feed *f = arg;
    Arena a = {0};
    feed_row(f, &a, s, n);
    arena_free(&a);
    return !(f->how & 2) || f->rows < 3;
}

static void read_array(void *arg)
{
    Feed *f = arg;
    Array a = { .file = "input", .row = row, .arg = f };
    bool more = true;
    for (size_t i = 0; more && i < f->n; i += f->step)
        more = array_feed(&a, f->s + i, f->n - i < f->step ? f->n - i : f->step);
    array_end(&a);
    array_free(&a);
    if (!more) return;
    Arena arena = {0};
    const char *err;
    size_t at;
    const Json *j = json_parse(&arena, f->s, f->n, &err, &at);
    /* the parser of one value knows a limit of depth, an array that is streamed one more */
    if (j ? j->kind != J_ARR || (uint64_t)j->n != f->rows : strstr(err, "deep") == NULL) abort();
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    feed_twice(read_array, data, n);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const s[] = {
        "\4[]", "\10[{\"text\":\"a\"},\n{\"b\":[1,{\"c\":null}]} ]\n", "\4[{\"a\":\"]}\\\"\"} , {}]",
        "\14[{\"a\":\n1}", "\4[1]", "\2[{},{},{},{},x" };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) put(s[i], strlen(s[i]));
}
