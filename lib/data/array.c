#include "array.h"
#include "base/err.h"
#include "base/json.h"
#include <inttypes.h>

_Noreturn static void bad(const Array *a, uint64_t at, const char *why)
{
    die("%s: byte %" PRIu64 ": %s", a->file, at + 1, why);
}

static void whole(Array *a)
{
    Arena arena = {0};
    const char *err;
    size_t at;
    if (!json_parse(&arena, a->element.s, a->element.n, &err, &at)) bad(a, a->began + at, err);
    arena_free(&arena);
    a->stop = !a->row(a->arg, a->element.s, a->element.n);
    buf_clear(&a->element);
    a->at = ARRAY_COMMA;
}

static bool white(char x) { return x == ' ' || x == '\t' || x == '\r' || x == '\n'; }

/* A byte of an element. Strings are skipped here and checked by json_parse(): a line end within one,
 * which no JSON has, must not become a space. */
static void inside(Array *a, char x)
{
    bool line_end = !a->string && (x == '\n' || x == '\r');
    buf_char(&a->element, line_end ? ' ' : x);
    if (a->string) {
        if (a->escape) a->escape = false;
        else if (x == '\\') a->escape = true;
        else if (x == '"') a->string = false;
    } else if (x == '"') {
        a->string = true;
    } else if (x == '{' || x == '[') {
        a->depth++;
    } else if ((x == '}' || x == ']') && --a->depth == 0) {
        whole(a);
    }
}

static void take(Array *a, char x)
{
    if (a->at == ARRAY_ELEMENT) {
        inside(a, x);
        return;
    }
    if (white(x)) return;
    switch (a->at) {
    case ARRAY_OPEN:
        if (x != '[') bad(a, a->pos, "not a JSON array");
        a->at = ARRAY_FIRST;
        break;
    case ARRAY_FIRST: case ARRAY_NEXT:
        if (x == ']' && a->at == ARRAY_FIRST) {
            a->at = ARRAY_DONE;
        } else if (x == '{') {
            a->at = ARRAY_ELEMENT;
            a->began = a->pos;
            inside(a, x);
        } else {
            bad(a, a->pos, "an element of the array is no object");
        }
        break;
    case ARRAY_COMMA:
        if (x != ',' && x != ']') bad(a, a->pos, "neither a comma nor the end of the array");
        a->at = x == ',' ? ARRAY_NEXT : ARRAY_DONE;
        break;
    default: bad(a, a->pos, "something follows the array");
    }
}

bool array_feed(Array *a, const char *s, size_t n)
{
    for (size_t i = 0; i < n && !a->stop; i++, a->pos++) take(a, s[i]);
    return !a->stop;
}

void array_end(Array *a)
{
    if (!a->stop && a->at != ARRAY_DONE) bad(a, a->pos, "ends inside the array");
}

void array_free(Array *a) { buf_free(&a->element); }
