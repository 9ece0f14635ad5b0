#include "answer.h"
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool in_number(char c) { return is_digit(c) || c == '.' || c == ','; }
static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool same(Str a, Str b) { return a.n == b.n && !memcmp(a.s, b.s, a.n); }

static void without_commas(Str s, Buf *b)
{
    buf_clear(b);
    for (size_t i = 0; i < s.n; i++)
        if (s.s[i] != ',') buf_char(b, s.s[i]);
}

bool number_after_hashes(Str s, Buf *b)
{
    for (size_t i = 0; i + 5 < s.n; i++) {
        if (memcmp(s.s + i, "#### ", 5)) continue;
        size_t from = i + 5, digits = from + (s.s[from] == '-'), to = digits;
        while (to < s.n && in_number(s.s[to])) to++;
        if (to == digits) continue;
        without_commas((Str){ s.s + from, to - from }, b);
        return true;
    }
    return false;
}

/* "that makes 1,234." -> 1234 */
static bool last_number(Str s, Buf *b)
{
    size_t to = s.n;
    while (to > 0 && !is_digit(s.s[to - 1])) to--;
    if (to == 0) return false;
    size_t from = to;
    while (from > 0 && in_number(s.s[from - 1])) from--;
    while (!is_digit(s.s[from])) from++;
    /* a minus that follows a digit or a letter is an operator or a hyphen */
    if (from > 0 && s.s[from - 1] == '-' && (from == 1 || is_space(s.s[from - 2]))) from--;
    without_commas((Str){ s.s + from, to - from }, b);
    return true;
}

static Str trim(Str s)
{
    while (s.n && is_space(s.s[0])) { s.s++; s.n--; }
    while (s.n && is_space(s.s[s.n - 1])) s.n--;
    return s;
}

/* What follows "####", if that is there; more than four are as good, as GSM8K's rule has it. */
static Str essence(Str s)
{
    const char *p = s.n ? memmem(s.s, s.n, "####", 4) : NULL, *end = s.s + s.n;
    while (p && p < end && *p == '#') p++;
    if (p) s = (Str){ p, (size_t)(end - p) };
    return trim(s);
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool contains(Str s, Str what)
{
    for (size_t i = 0; i + what.n <= s.n; i++) {
        size_t k = 0;
        while (k < what.n && lower(s.s[i + k]) == lower(what.s[k])) k++;
        if (k == what.n) return true;
    }
    return false;
}

bool answer_right(const Item *it, Str answer)
{
    Buf b = {0};
    bool right = false;
    if (it->check == CHECK_CONTAINS) {
        right = contains(answer, it->want);
    } else if (it->check == CHECK_TEXT) {
        right = same(essence(answer), essence(it->want));
    } else if (number_after_hashes(answer, &b) ||
               (it->check == CHECK_NUMBER && last_number(answer, &b))) {
        right = same((Str){ b.s, b.n }, it->want);
    }
    buf_free(&b);
    return right;
}

/* ---- programs ----------------------------------------------------------------- */

static Str line_at(Str s, size_t i)
{
    const char *lf = memchr(s.s + i, '\n', s.n - i);
    return (Str){ s.s + i, lf ? (size_t)(lf - s.s) - i : s.n - i };
}

static bool begins(Str s, const char *with)
{
    return s.n >= strlen(with) && !memcmp(s.s, with, strlen(with));
}

static void imports(Str prompt, Buf *b)
{
    for (size_t i = 0; i < prompt.n; ) {
        Str raw = line_at(prompt, i), l = trim(raw);
        if (begins(l, "import ") || begins(l, "from ")) {
            buf_add(b, l.s, l.n);
            buf_char(b, '\n');
        } else if (l.n && l.s[0] != '#') {
            break;
        }
        i += raw.n + 1;
    }
}

static Str code(Str s)
{
    const char *fence = s.n ? memmem(s.s, s.n, "```", 3) : NULL;
    if (!fence) return s;
    Str l = line_at(s, (size_t)(fence - s.s));
    size_t from = (size_t)(l.s + l.n - s.s) + 1;
    if (from >= s.n) return s;
    const char *end = memmem(s.s + from, s.n - from, "```", 3);
    return (Str){ s.s + from, end ? (size_t)(end - s.s) - from : s.n - from };
}

void answer_program(const Item *it, Str answer, Buf *b)
{
    Str c = code(answer);
    imports(it->prompt, b);
    buf_str(b, "\n\n");
    buf_add(b, c.s, c.n);
    buf_str(b, "\n\n");
    buf_add(b, it->test.s, it->test.n);
    buf_str(b, "\ncheck(");
    buf_add(b, it->entry.s, it->entry.n);
    buf_str(b, ")\n");
}
