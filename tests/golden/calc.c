/* Golden case G: what nanochat's calculator said, row by row. Arithmetic rows are the same; of the
 * others those of the form 'text'.count('part'); the rest gives no result here. */
#include "golden.h"
#include "tap.h"
#include "text/calc.h"
#include <regex.h>

static bool arithmetic(const char *s)
{
    return strspn(s, "0123456789*+-/.(), ") == strlen(s);
}

int main(void)
{
    Arena a = {0};
    Buf got = {0};
    regex_t count;
    int rows = 0, kinds[3] = {0}, wrong = 0;
    if (regcomp(&count, "^ *('[^']*'|\"[^\"]*\") *\\. *count *\\( *('[^']*'|\"[^\"]*\") *\\) *$",
                REG_EXTENDED | REG_NOSUB))
        die("the regular expression");
    const Json *j = golden_json(&a, "tests/golden/data/g_calculator.json")->child;
    for (; j; j = j->next, rows++) {
        const Json *expr = json_get(j, "expr"), *want = json_get(j, "result");
        int kind = arithmetic(expr->s) ? 0 : !regexec(&count, expr->s, 0, NULL, 0) ? 1 : 2;
        bool some = kind < 2 && want && want->kind == J_STR;
        bool is = calc(expr->s, expr->len, &got);
        bool good = is == some && (!is || (got.n == want->len && !memcmp(got.s, want->s, got.n)));
        kinds[kind]++;
        wrong += !good;
        if (!good) printf("# %.60s: %s, not %s\n", expr->s, is ? got.s : "nothing",
                          some ? want->s : "nothing");
    }
    ok(rows == 319 && wrong == 0, "%d rows: %d of arithmetic, %d that count, %d others: %d differ",
       rows, kinds[0], kinds[1], kinds[2], wrong);
    regfree(&count);
    buf_free(&got);
    arena_free(&a);
    return done();
}
