/* Options are read in two steps: the command line is cut into settings, in order; then the config
 * files' settings are applied, then the command line's. */
#include "base/opt.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/io.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION "unknown"
#endif
#ifndef BUILD_CFLAGS
#define BUILD_CFLAGS "unknown flags"
#endif
#ifndef BACKENDS
#define BACKENDS "cpu"
#endif
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const Opt *table;
static int *given, *in_config;      /* one per entry of table: times given; of these, by config */
static int ntable;
static Arena keep;                      /* strings of config files, lists: live as long as we do */

static const char *config;
static int quiet, loud, want_help, want_version;
static const Opt common[] = {
    OPT_STR('c', "config", &config, "FILE", "read options from FILE first (key = value)"),
    OPT_FLAG('q', "quiet", &quiet, "say nothing but errors"),
    OPT_FLAG('v', "verbose", &loud, "say more; repeat for still more"),
    OPT_FLAG('h', "help", &want_help, "show this and exit"),
    OPT_FLAG(0, "version", &want_version, "show the version and exit"),
    OPT_END
};

/* ---- finding --------------------------------------------------------------------------------- */

static const Opt *find_in(const Opt *o, const char *name, size_t n, char key)
{
    for (; o->kind != O_END; o++) {
        if (o->kind == O_HEAD) continue;
        if (!name && o->key == key) return o;
        if (name && o->name && strlen(o->name) == n && !memcmp(o->name, name, n)) return o;
    }
    return NULL;
}

static const Opt *find_name(const char *name, size_t n)
{
    const Opt *o = find_in(table, name, n, 0);
    return o ? o : find_in(common, name, n, 0);
}

static const Opt *find_key(char key)
{
    const Opt *o = find_in(table, NULL, 0, key);
    return o ? o : find_in(common, NULL, 0, key);
}

enum { NAME_MAX_LEN = 40 };

static int min2(int a, int b) { return a < b ? a : b; }

/* Edit distance with swaps of neighbours counted as one (optimal string alignment). */
static int distance(const char *a, int na, const char *b, int nb)
{
    int d[NAME_MAX_LEN + 1][NAME_MAX_LEN + 1];
    for (int i = 0; i <= na; i++) d[i][0] = i;
    for (int j = 0; j <= nb; j++) d[0][j] = j;
    for (int i = 1; i <= na; i++) {
        for (int j = 1; j <= nb; j++) {
            int best = min2(d[i - 1][j], d[i][j - 1]) + 1;
            best = min2(best, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = min2(best, d[i - 2][j - 2] + 1);
            d[i][j] = best;
        }
    }
    return d[na][nb];
}

static const char *nearest(const char *name, size_t n)
{
    const char *best = NULL;
    int best_d = n < 3 ? 2 : (int)n / 3 + 2;            /* further than this is no typing error */
    const Opt *tables[] = { table, common };
    if (n == 0 || n > NAME_MAX_LEN) return NULL;
    for (int t = 0; t < 2; t++) {
        for (const Opt *o = tables[t]; o->kind != O_END; o++) {
            if (!o->name || !o->help || strlen(o->name) > NAME_MAX_LEN) continue;
            int d = distance(name, (int)n, o->name, (int)strlen(o->name));
            if (n > 1 && !strncmp(name, o->name, n)) d = 1;     /* an abbreviation */
            if (d < best_d) { best_d = d; best = o->name; }
        }
    }
    return best;
}

/* ---- setting --------------------------------------------------------------------------------- */

static void set_int(const Opt *o, const char *at, const char *v)
{
    char *end;
    errno = 0;
    long long x = strtoll(v, &end, 10);
    bool number = end > v && (*v == '-' || *v == '+' || (*v >= '0' && *v <= '9'));
    int shift = !number ? 0 : *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift) end++;
    if (!number || *end) die_usage("%s: '%s' is not a whole number", at, v);
    bool small = o->kind == O_INT;
    int64_t lo = small ? INT_MIN : INT64_MIN, hi = small ? INT_MAX : INT64_MAX;
    bool any = o->lo == 0 && o->hi == 0;
    if (!any && o->lo > (double)lo) lo = (int64_t)o->lo;
    if (!any && o->hi < (double)hi) hi = (int64_t)o->hi;
    bool over = errno == ERANGE || __builtin_mul_overflow(x, 1LL << shift, &x);
    if (over || x < lo || x > hi)
        die_usage("%s: %s is out of range (%lld to %lld)", at, v, (long long)lo, (long long)hi);
    if (o->kind == O_INT) *(int *)o->to = (int)x;
    else *(int64_t *)o->to = x;
}

static void set_float(const Opt *o, const char *at, const char *v)
{
    char *end;
    double x = strtod(v, &end);
    if (end == v || *end || strchr(" \t\n\v\f\r", *v) || isnan(x))
        die_usage("%s: '%s' is not a number", at, v);
    bool any = o->lo == 0 && o->hi == 0;
    /* 1e999 is not taken for inf, even where inf is allowed */
    if (isinf(x) && (any || strpbrk(v, "0123456789"))) die_usage("%s: %s is out of range", at, v);
    if (!any && (x < o->lo || x > o->hi))
        die_usage("%s: %s is out of range (%.10g to %.10g)", at, v, o->lo, o->hi);
    *(double *)o->to = x;
}

static void set_choice(const Opt *o, const char *at, const char *v)
{
    size_t n = strlen(v);
    for (const char *w = o->arg; w; w = strchr(w, '|')) {
        if (*w == '|') w++;
        if (strcspn(w, "|") == n && !memcmp(w, v, n)) { *(const char **)o->to = v; return; }
    }
    die_usage("%s: '%s' is not one of %s", at, v, o->arg);
}

static void list_add(const Opt *o, const char *v, bool first)
{
    StrList *l = o->to;
    if (first) l->n = 0;
    if (l->n == INT_MAX) die_usage("--%s: too many values", o->name);
    if (first || (l->n & (l->n - 1)) == 0) {            /* full at the powers of two */
        const char **s = arena_alloc(&keep, size_mul(l->n ? 2 * (size_t)l->n : 1, sizeof *s));
        if (l->n) memcpy(s, l->s, (size_t)l->n * sizeof *s);
        l->s = s;
    }
    l->s[l->n++] = v;
}

static void set_flag(const Opt *o, const char *at, const char *v)   /* v: only from a config file */
{
    static const char *const no[] = { "false", "no", "off", "0" };
    static const char *const yes[] = { "true", "yes", "on", "1" };
    int x = v ? -1 : 1;
    for (int i = 0; v && i < 4; i++) x = !strcmp(v, yes[i]) ? 1 : !strcmp(v, no[i]) ? 0 : x;
    if (x < 0) die_usage("%s: '%s' is neither true nor false", at, v);
    if (o->to == &loud) loud += x;
    else *(int *)o->to = x;
}

/* at: where it was given, for messages ("--depth", "a.conf: line 3: depth") */
static void set(const Opt *o, const char *at, const char *v, bool from_config)
{
    ptrdiff_t i = o >= table && o < table + ntable ? o - table : -1;
    bool first = i >= 0 && given[i] == (from_config ? 0 : in_config[i]);
    switch (o->kind) {
    case O_FLAG: set_flag(o, at, v); break;
    case O_INT: case O_LONG: set_int(o, at, v); break;
    case O_FLOAT: set_float(o, at, v); break;
    case O_STR: *(const char **)o->to = v; break;
    case O_LIST: list_add(o, v, first); break;
    case O_CHOICE: set_choice(o, at, v); break;
    default: break;
    }
    if (i >= 0) { given[i]++; in_config[i] += from_config; }
    if (o->seen) ++*o->seen;
}

/* ---- the config file ------------------------------------------------------------------------- */

enum { CONFIG_MAX = 1 << 20 };          /* bytes; what is longer is something else */

static char *trim(char *s, size_t n)
{
    while (n && strchr(" \t", s[n - 1])) n--;
    s[n] = 0;
    return s + strspn(s, " \t");
}

static void config_line(const char *file, uint64_t line, char *s, size_t n)
{
    if (memchr(s, 0, n)) die_usage("%s: line %" PRIu64 ": holds a NUL byte", file, line);
    for (size_t i = 0; i < n; i++)
        if (s[i] == '#' && (i == 0 || s[i - 1] == ' ' || s[i - 1] == '\t')) n = i;
    s = trim(s, n);
    if (!*s) return;
    char *eq = strchr(s, '='), *v = eq ? trim(eq + 1, strlen(eq + 1)) : NULL;
    char *key = trim(s, eq ? (size_t)(eq - s) : strlen(s));
    const Opt *o = find_name(key, strlen(key));
    char *at = xasprintf("%s: line %" PRIu64 ": %.64s", file, line, key);
    if (!o) {
        const char *near = nearest(key, strlen(key));
        if (near) die_usage("%s: no such option; did you mean '%s'?", at, near);
        die_usage("%s: no such option", at);
    }
    if (o->to == &config || o->to == &want_help || o->to == &want_version)
        die_usage("%s: belongs on the command line", at);
    if (!v && o->kind != O_FLAG) die_usage("%s: needs a value (key = value)", at);
    set(o, at, v ? arena_strndup(&keep, v, strlen(v)) : NULL, true);
    free(at);
}

static void read_config(const char *path)
{
    Buf b = {0};
    uint64_t line = 0;
    io_reads(path);
    read_file(path, &b, CONFIG_MAX);
    char *end = b.s + b.n;
    for (char *s = b.s; s < end; ) {
        char *lf = memchr(s, '\n', (size_t)(end - s)), *stop = lf ? lf : end;
        size_t n = (size_t)(stop - s);
        if (n && s[n - 1] == '\r') n--;
        config_line(strcmp(path, "-") ? path : "stdin", ++line, s, n);
        s = stop + 1;
    }
    buf_free(&b);
}

/* ---- the command line ------------------------------------------------------------------------ */

typedef struct Setting { const Opt *o; const char *v; char *at; } Setting;
typedef struct Line { char **argv; int argc, i, nset, nargs; Setting *set; } Line;

static void add(Line *l, const Opt *o, const char *v, const char *at, int at_len)
{
    l->set = xreallocarray(l->set, (size_t)l->nset + 1, sizeof *l->set);
    l->set[l->nset++] = (Setting){ o, v, xasprintf("%.*s", at_len, at) };
}

/* The next word as a value. Another option there means that the value was forgotten. */
static const char *next_word(Line *l, const char *at, int at_len)
{
    if (l->i + 1 >= l->argc) die_usage("%.*s: needs a value", at_len, at);
    const char *v = l->argv[l->i + 1];
    if (!strcmp(v, "--") || (!strncmp(v, "--", 2) && find_name(v + 2, strcspn(v + 2, "="))))
        die_usage("%.*s: needs a value, but '%s' follows (to mean that text, write %.*s%s%s)",
                  at_len, at, v, at_len, at, at[1] == '-' ? "=" : "", v);
    l->i++;
    return v;
}

static void long_option(Line *l, const char *word)
{
    size_t n = strcspn(word + 2, "=");
    int len = (int)(n < 4096 ? n : 4096) + 2;
    const char *v = word[2 + n] ? word + 3 + n : NULL;
    const Opt *o = find_name(word + 2, n);
    if (!o) {
        const char *near = nearest(word + 2, n);
        if (near) die_usage("unknown option '%.*s'; did you mean '--%s'?", len, word, near);
        die_usage("unknown option '%.*s'", len, word);
    }
    if (o->kind == O_FLAG && v) die_usage("%.*s: takes no value", len, word);
    if (o->kind != O_FLAG && !v) v = next_word(l, word, len);
    add(l, o, v, word, len);
}

static void short_options(Line *l, const char *word)
{
    for (const char *p = word + 1; *p; p++) {
        const Opt *o = find_key(*p);
        char at[3] = { '-', *p, 0 };
        if (!o && !word[2]) die_usage("unknown option '%s'", at);
        if (!o) die_usage("unknown option '%s' in '%s'", at, word);
        if (o->kind == O_FLAG) { add(l, o, NULL, at, 2); continue; }
        add(l, o, p[1] ? p + 1 : next_word(l, at, 2), at, 2);
        return;
    }
}

static void cut(Line *l)
{
    bool options = true;
    for (l->i = 1; l->i < l->argc; l->i++) {
        char *w = l->argv[l->i];
        if (!options || w[0] != '-' || !w[1]) l->argv[++l->nargs] = w;     /* nargs <= i always */
        else if (!strcmp(w, "--")) options = false;
        else if (w[1] == '-') long_option(l, w);
        else short_options(l, w);
    }
}

static void answer(const char *synopsis, const char *about)
{
    if (want_help) opt_help(synopsis, about, table, common);
    else printf("%s %s\n", prog, opt_version());
    exit(0);                        /* which flushes, and fails if that does */
}

int opt_parse(int argc, char **argv, const char *synopsis, const char *about, const Opt *opts)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    if (argc > 0) prog = slash ? slash + 1 : argv[0];
    io_init();
    table = opts;
    ntable = 0;
    while (opts[ntable].kind != O_END) ntable++;
    given = arena_alloc(&keep, ((size_t)ntable + 1) * sizeof *given);
    in_config = arena_alloc(&keep, ((size_t)ntable + 1) * sizeof *in_config);

    Line l = { .argv = argv, .argc = argc };
    cut(&l);
    for (int i = 0; i < l.nset; i++) {
        const Opt *o = l.set[i].o;
        if (o->to != &want_help && o->to != &want_version) continue;
        set(o, "", NULL, false);
        answer(synopsis, about);
    }
    for (int i = 0; i < l.nset; i++) if (l.set[i].o->to == &config) read_config(l.set[i].v);
    for (int i = 0; i < l.nset; i++) {
        set(l.set[i].o, l.set[i].at, l.set[i].v, false);
        free(l.set[i].at);
    }
    free(l.set);
    verbose = quiet ? 0 : 1 + loud;
    return l.nargs;
}

int opt_given(const char *name)
{
    for (int i = 0; i < ntable; i++)
        if (table[i].kind != O_HEAD && table[i].name && !strcmp(table[i].name, name))
            return given[i];
    return 0;
}

const char *opt_version(void)
{
    return VERSION " (" COMPILER ", " BUILD_CFLAGS ", " BACKENDS ")";
}
