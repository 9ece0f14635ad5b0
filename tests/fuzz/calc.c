/* The calculator on anything: a result is short and printable, and none leaves nothing behind. */
#include "fuzz.h"
#include "text/calc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static Buf out;
    char *s = malloc(n + 1);                /* of its own, so that a sanitizer sees its end */
    if (!s) abort();
    memcpy(s, data, n);
    bool some = calc(s, n, &out);
    bool good = some ? out.n > 0 && out.n <= 4301 : out.n == 0;
    for (size_t i = 0; i < out.n; i++) good = good && out.s[i] > ' ' && out.s[i] < 127;
    if (!good) {
        fprintf(stderr, "%.*s: %d, %zu bytes\n", (int)n, s, some, out.n);
        abort();
    }
    free(s);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const s[] = {
        "1,000.50*(2+3)-4//-7/1.", "-(--5)*99999999999999999999999999//3.25e", "() + (...)*3",
        "'strawberry'.count('r')", "\"a b\" . count ( '' )", "100000000000000000000/3-.5" };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) put(s[i], strlen(s[i]));
}
