/* --help: two aligned columns, wrapped at 80. */
#include "base/buf.h"
#include "base/opt.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, LEFT_MAX = 30 };

static int columns(const char *s, size_t n)         /* UTF-8: continuation bytes take no room */
{
    int w = 0;
    for (size_t i = 0; i < n; i++) w += ((unsigned char)s[i] & 0xc0) != 0x80;
    return w;
}

/* Text from column `at` on, wrapped with `indent` blanks; the cursor is at `at` already. */
static void wrap(const char *s, int at, int indent)
{
    bool fresh = true;                              /* nothing on this line yet */
    for (;;) {
        s += strspn(s, " ");
        if (!*s) break;
        size_t n = strcspn(s, " \n");
        int w = columns(s, n);
        if (*s == '\n' || (!fresh && at + 1 + w > WIDTH)) {
            printf("\n%*s", indent, "");
            at = indent;
            fresh = true;
            s += *s == '\n';
            continue;
        }
        printf("%s%.*s", fresh ? "" : " ", (int)n, s);
        at += w + !fresh;
        fresh = false;
        s += n;
    }
    putchar('\n');
}

static void left(Buf *b, const Opt *o)
{
    buf_clear(b);
    if (o->key && o->name) buf_printf(b, "  -%c, --%s", o->key, o->name);
    else if (o->key) buf_printf(b, "  -%c", o->key);
    else buf_printf(b, "      --%s", o->name);
    if (o->kind != O_FLAG && o->arg) buf_printf(b, " %s", o->arg);
}

static void add_default(Buf *b, const Opt *o)
{
    const char *s = NULL;
    switch (o->kind) {
    case O_FLAG: if (*(int *)o->to == 1) buf_str(b, " [on]"); break;
    case O_INT: buf_printf(b, " [%d]", *(int *)o->to); break;
    case O_LONG: buf_printf(b, " [%" PRId64 "]", *(int64_t *)o->to); break;
    case O_FLOAT: buf_printf(b, " [%.10g]", *(double *)o->to); break;
    case O_STR: case O_CHOICE: s = *(const char **)o->to; break;
    default: break;
    }
    if (s && *s) buf_printf(b, " [%s]", s);
}

/* Of the common options, what the tool's own table has taken is not listed twice. */
static bool shown(const Opt *o, const Opt *hiding)
{
    for (; hiding && hiding->kind != O_END; hiding++)
        if (hiding->kind != O_HEAD && hiding->name && !strcmp(hiding->name, o->name)) return false;
    return o->help != NULL;
}

static bool key_taken(const Opt *o, const Opt *hiding)
{
    for (; hiding && hiding->kind != O_END; hiding++)
        if (hiding->kind != O_HEAD && hiding->key && hiding->key == o->key) return true;
    return false;
}

static int widest(Buf *b, const Opt *o, int w)
{
    for (; o->kind != O_END; o++) {
        if (o->kind == O_HEAD || !o->help) continue;
        left(b, o);
        int c = columns(b->s, b->n);
        if (c > w && c <= LEFT_MAX) w = c;
    }
    return w;
}

static void list(Buf *b, const Opt *o, const Opt *hiding, bool defaults, int col)
{
    for (; o->kind != O_END; o++) {
        if (o->kind == O_HEAD) { printf("\n%s:\n", o->name); continue; }
        if (!shown(o, hiding)) continue;
        Opt as = *o;
        if (key_taken(o, hiding)) as.key = 0;
        left(b, &as);
        int w = columns(b->s, b->n);
        printf("%s", b->s);
        if (w > col - 2) printf("\n%*s", col, "");
        else printf("%*s", col - w, "");
        buf_clear(b);
        buf_str(b, o->help);
        if (defaults && o->to) add_default(b, o);
        wrap(b->s, col, col);
    }
}

void opt_help(const char *synopsis, const char *about, const Opt *opts, const Opt *common)
{
    Buf b = {0};
    const char *s = synopsis;
    for (bool more = false; ; more = true) {        /* each line of the synopsis is a usage */
        size_t n = strcspn(s, "\n");
        printf("%s %s %.*s\n", more ? "      " : "Usage:", prog, (int)n, s);
        if (!s[n]) break;
        s += n + 1;
    }
    wrap(about, 0, 0);
    int col = widest(&b, common, widest(&b, opts, 0)) + 2;
    if (opts->kind != O_HEAD && opts->kind != O_END) printf("\nOptions:\n");
    list(&b, opts, NULL, true, col);
    printf("\nIn every tool:\n");
    list(&b, common, opts, false, col);
    buf_free(&b);
}
