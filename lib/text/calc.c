/* calc.c -- see calc.h. Arithmetic is parsed by precedence with two stacks, without recursion. */
#include "text/calc.h"
#include "text/calc_big.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 4300 };         /* of a whole number, as Python reads and prints them by default */

typedef enum { INT, FLOAT, TUPLE, ELLIPSIS } Kind;
typedef struct Value { Kind kind; Big i; double f; } Value;

typedef struct Calc {
    const char *p, *end;
    Value *value; size_t values, value_cap;
    char *op; size_t ops, op_cap;       /* + - * / q (//) ( and the signs p n */
    int brackets, signs;                /* open; in a row */
} Calc;

/* ---- floats --------------------------------------------------------------------------- */

/* digits "d.ddd" * 10^e as Python lays them out. */
static void lay_out(Buf *out, const char *digit, int n, int e)
{
    if (e < -4 || e >= 16) {
        buf_char(out, digit[0]);
        if (n > 1) buf_char(out, '.');
        buf_add(out, digit + 1, (size_t)(n - 1));
        buf_printf(out, "e%c%02d", e < 0 ? '-' : '+', abs(e));
        return;
    }
    if (e < 0) buf_str(out, "0.");
    for (int i = -1; i > e; i--) buf_char(out, '0');
    for (int i = 0; i < n || i <= e; i++) {
        buf_char(out, i < n ? digit[i] : '0');
        if (i == e) buf_char(out, '.');
    }
    if (e >= 0 && n <= e + 1) buf_char(out, '0');
}

/* Adds 1 to the last of n digits; *e is the exponent of the first. */
static void next_up(char *digit, int n, int *e)
{
    while (n > 0 && digit[n - 1] == '9') digit[--n] = '0';
    if (n > 0) digit[n - 1]++;
    else digit[0] = '1', ++*e;
}

static bool reads_as(const char *digit, int n, int e, double x)
{
    char text[48];
    snprintf(text, sizeof text, "%c.%.*se%d", digit[0], n - 1, digit + 1, e);
    return strtod(text, NULL) == x;
}

/* Of the texts that read as x, the shortest; of those, the nearest. Rounding to n digits gives the
 * nearest of that length, which may fail where one a little further off does not: below a power of
 * two doubles lie closer than above. */
void calc_float(Buf *out, double x)
{
    if (isnan(x)) { buf_str(out, "nan"); return; }
    if (signbit(x)) buf_char(out, '-');
    x = fabs(x);
    if (isinf(x)) { buf_str(out, "inf"); return; }
    char text[40], digit[20];
    int e = 0, n = 1;
    for (; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, x);
        digit[0] = text[0];
        memcpy(digit + 1, text + 2, (size_t)(n - 1));
        e = atoi(strchr(text, 'e') + 1);
        if (n == 17 || reads_as(digit, n, e, x)) break;
        next_up(digit, n, &e);
        if (reads_as(digit, n, e, x)) break;
    }
    while (n > 1 && digit[n - 1] == '0') n--;
    lay_out(out, digit, n, e);
}

/* ---- values ---------------------------------------------------------------------------- */

static void drop(Value *v)
{
    if (v->kind == INT) big_free(&v->i);
}

/* false: there is no such sum, and so on. Takes a and b. */
static bool of_ints(char op, Value a, Value b, Value *to)
{
    bool zero = b.i.n == 0;
    *to = (Value){ .kind = INT };
    if (op == '+') to->i = big_add(a.i, b.i);
    else if (op == '*') to->i = big_mul(a.i, b.i);
    else if (op == 'q' && !zero) to->i = big_floordiv(a.i, b.i);
    else if (op == '/' && !zero) *to = (Value){ .kind = FLOAT, .f = big_ratio(a.i, b.i) };
    else if (op == '-') {
        Big n = big_neg(b.i);
        to->i = big_add(a.i, n);
        big_free(&n);
    }
    drop(&a), drop(&b);
    return !(zero && (op == '/' || op == 'q')) && !(to->kind == FLOAT && isinf(to->f));
}

static double floor_div(double a, double b)
{
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
    if (div == 0) return copysign(0.0, a / b);
    double whole = floor(div);
    return div - whole > 0.5 ? whole + 1 : whole;
}

static bool of_floats(char op, double a, double b, double *to)
{
    if ((op == '/' || op == 'q') && b == 0) return false;
    *to = op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : op == '/' ? a / b
                                                                                : floor_div(a, b);
    return true;
}

/* A whole number as a float: not if it is too large. */
static bool to_float(Value *v)
{
    if (v->kind == FLOAT) return true;
    if (v->kind != INT) return false;
    double f = big_double(v->i);
    drop(v);
    *v = (Value){ .kind = FLOAT, .f = f };
    return !isinf(f);
}

/* Empty tuples: a sum, or one repeated. A count past 63 bits is an error of Python's. */
static bool of_tuples(char op, Value a, Value b, Value *to)
{
    bool sum = op == '+' && a.kind == TUPLE && b.kind == TUPLE;
    const Value *times = a.kind == INT ? &a : &b;
    bool repeated = op == '*' && times->kind == INT && a.kind != b.kind &&
                    (a.kind == TUPLE || b.kind == TUPLE) && big_bits(times->i) <= 63;
    drop(&a), drop(&b);
    *to = (Value){ .kind = TUPLE };
    return sum || repeated;
}

static bool binary(char op, Value a, Value b, Value *to)
{
    if (a.kind == INT && b.kind == INT) return of_ints(op, a, b, to);
    if (a.kind >= TUPLE || b.kind >= TUPLE) return of_tuples(op, a, b, to);
    double f = 0;
    bool left = to_float(&a), right = to_float(&b);      /* both: they let go of their limbs */
    bool good = left && right && of_floats(op, a.f, b.f, &f);
    *to = (Value){ .kind = FLOAT, .f = f };
    return good;
}

/* ---- parsing ---------------------------------------------------------------------------- */

static void push_value(Calc *c, Value v)
{
    if (c->values == c->value_cap) {
        c->value_cap = c->value_cap ? 2 * c->value_cap : 16;
        c->value = xreallocarray(c->value, c->value_cap, sizeof *c->value);
    }
    c->value[c->values++] = v;
}

static void push_op(Calc *c, char op)
{
    if (c->ops == c->op_cap) {
        c->op_cap = c->op_cap ? 2 * c->op_cap : 64;
        c->op = xrealloc(c->op, c->op_cap);
    }
    c->op[c->ops++] = op;
}

static int rank(char op)
{
    return op == '(' ? 0 : op == '+' || op == '-' ? 1 : op == 'p' || op == 'n' ? 3 : 2;
}

/* Do what stands on the stack and binds at least so tightly. */
static bool reduce(Calc *c, int least)
{
    while (c->ops > 0 && rank(c->op[c->ops - 1]) >= least) {
        char op = c->op[--c->ops];
        Value v = c->value[--c->values];
        if (op == 'p' || op == 'n') {
            if (v.kind >= TUPLE) return false;
            if (op == 'n' && v.kind == FLOAT) v.f = -v.f;
            if (op == 'n' && v.kind == INT) v.i.neg = !v.i.neg && v.i.n > 0;
            push_value(c, v);
            continue;
        }
        Value a = c->value[--c->values], r;
        if (!binary(op, a, v, &r)) { drop(&r); return false; }
        push_value(c, r);
    }
    return true;
}

static void spaces(Calc *c)
{
    while (c->p < c->end && *c->p == ' ') c->p++;
}

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p;
}

static bool number(Calc *c)
{
    const char *s = c->p, *whole = digits(s, c->end);
    if (whole < c->end && *whole == '.') {
        c->p = digits(whole + 1, c->end);
        if (c->p == s + 1) return false;        /* a dot alone */
        /* strtod() would read on: what follows is an operator, a bracket, a space or a dot */
        char *text = xasprintf("%.*s", (int)(c->p - s), s);
        push_value(c, (Value){ .kind = FLOAT, .f = strtod(text, NULL) });
        free(text);
        return true;
    }
    size_t n = (size_t)(whole - s), zeros = 0;
    while (zeros < n && s[zeros] == '0') zeros++;
    if (n == 0 || n > DIGITS || (zeros > 0 && zeros < n)) return false;     /* 007 */
    push_value(c, (Value){ .kind = INT, .i = big_parse(s, n) });
    c->p = whole;
    return true;
}

/* What may stand where a value is expected; *done: a value is there now. */
static bool before_value(Calc *c, bool *done)
{
    char ch = *c->p;
    if (ch == '+' || ch == '-') {
        if (++c->signs > CALC_DEPTH) return false;
        push_op(c, ch == '+' ? 'p' : 'n');
        c->p++;
        return true;
    }
    c->signs = 0;
    if (ch == '(') {
        c->p++;
        spaces(c);
        if (++c->brackets > CALC_DEPTH) return false;
        if (c->p == c->end || *c->p != ')') return push_op(c, '('), true;
        c->p++;
        c->brackets--;
        push_value(c, (Value){ .kind = TUPLE });
        return *done = true;
    }
    *done = true;
    if (c->end - c->p >= 3 && !memcmp(c->p, "...", 3)) {
        c->p += 3;
        push_value(c, (Value){ .kind = ELLIPSIS });
        return true;
    }
    return number(c);
}

/* What may stand after a value; *done is false again after an operator. */
static bool after_value(Calc *c, bool *done)
{
    char op = *c->p++;
    if (op == ')') {
        if (c->brackets-- == 0 || !reduce(c, 1)) return false;
        c->ops--;
        return true;
    }
    if (!strchr("+-*/", op)) return false;
    if (op == '/' && c->p < c->end && *c->p == '/') c->p++, op = 'q';
    if (!reduce(c, rank(op))) return false;
    push_op(c, op);
    *done = false;
    return true;
}

static bool evaluate(Calc *c)
{
    bool done = false;
    for (spaces(c); c->p < c->end; spaces(c))
        if (done ? !after_value(c, &done) : !before_value(c, &done)) return false;
    return done && c->brackets == 0 && reduce(c, 1);
}

static bool print(Buf *out, const Value *v)
{
    size_t from = out->n;
    switch (v->kind) {
    case TUPLE: buf_str(out, "()"); return true;
    case ELLIPSIS: buf_str(out, "Ellipsis"); return true;
    case FLOAT: calc_float(out, v->f); return true;
    case INT: break;
    }
    if (big_bits(v->i) > DIGITS * 10 / 3) return false;         /* and printing stays quick */
    big_print(out, v->i);
    return out->n - from - v->i.neg <= DIGITS;
}

static bool arithmetic(const char *s, size_t n, Buf *out)
{
    Calc c = { .p = s, .end = s + n };
    bool good = evaluate(&c) && print(out, &c.value[0]);
    for (size_t i = 0; i < c.values; i++) drop(&c.value[i]);
    free(c.value);
    free(c.op);
    return good;
}

/* ---- counting in texts ---------------------------------------------------------------- */

static bool forbidden(const char *s)
{
    static const char *const words[] = {
        "__", "import", "exec", "eval", "compile", "open", "file", "input", "globals", "locals",
        "vars", "dir", "getattr", "setattr", "delattr", "hasattr"
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(s, words[i])) return true;
    return false;
}

/* A text in quotes. */
static bool literal(Calc *c, const char **s, size_t *n)
{
    spaces(c);
    if (c->p == c->end || (*c->p != '\'' && *c->p != '"')) return false;
    const char *quote = memchr(c->p + 1, *c->p, (size_t)(c->end - c->p) - 1);
    if (!quote) return false;
    *s = c->p + 1;
    *n = (size_t)(quote - *s);
    c->p = quote + 1;
    return true;
}

static bool word(Calc *c, const char *s)
{
    size_t n = strlen(s);
    spaces(c);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, s, n)) return false;
    c->p += n;
    return true;
}

static bool counting(const char *s, size_t n, Buf *out)
{
    Calc c = { .p = s, .end = s + n };
    const char *text, *part;
    size_t len, part_len, count = 0;
    if (forbidden(s) || !strstr(s, ".count(")) return false;
    if (!literal(&c, &text, &len) || !word(&c, ".") || !word(&c, "count") || !word(&c, "(") ||
        !literal(&c, &part, &part_len) || !word(&c, ")"))
        return false;
    spaces(&c);
    if (c.p < c.end) return false;
    if (part_len == 0) count = len + 1;
    for (const char *p = text, *end = text + len; part_len > 0; p += part_len, count++)
        if (!(p = memmem(p, (size_t)(end - p), part, part_len))) break;
    buf_printf(out, "%zu", count);
    return true;
}

/* ---- either ----------------------------------------------------------------------------- */

/* Is s[0..n) of these characters alone? */
static bool made_of(const char *s, size_t n, const char *chars)
{
    return strspn(s, chars) == n;               /* a NUL in s ends it too early */
}

bool calc(const char *s, size_t n, Buf *out)
{
    static const char numbers[] = "0123456789*+-/.() ";
    static const char texts[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "'\"()._ ";
    Buf b = {0};
    bool good = false;
    buf_clear(out);
    if (n > CALC_MAX) return false;
    for (size_t i = 0; i < n; i++)
        if (s[i] != ',') buf_char(&b, s[i]);
    if (b.n == 0) good = false;
    else if (made_of(b.s, b.n, numbers)) good = !strstr(b.s, "**") && arithmetic(b.s, b.n, out);
    else if (made_of(b.s, b.n, texts)) good = counting(b.s, b.n, out);
    if (!good) buf_clear(out);
    buf_free(&b);
    return good;
}
