/* prompts.c -- see prompts.h. */
#include "prompts.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

struct Prompts {
    const StrList *texts; int next;
    const char *file; int done;     /* a whole file */
    In *in; int kind;               /* lines */
    Buf line, where;
    Arena arena;                    /* the line's tree */
};

enum { FILE_MAX = 1 << 28 };        /* of -f; the context holds far less */

Prompts *prompts_texts(const StrList *texts)
{
    Prompts *p = xcalloc(1, sizeof *p);
    p->texts = texts;
    return p;
}

Prompts *prompts_file(const char *path)
{
    Prompts *p = xcalloc(1, sizeof *p);
    p->file = path;
    return p;
}

Prompts *prompts_lines(const char *path, int kind)
{
    Prompts *p = xcalloc(1, sizeof *p);
    p->in = in_open(path);
    p->kind = kind;
    return p;
}

const char *prompts_name(const Prompts *p)
{
    if (p->in) return in_name(p->in);
    return !p->file ? "-p" : strcmp(p->file, "-") == 0 ? "stdin" : p->file;
}

void prompts_free(Prompts *p)
{
    if (p->in) in_close(p->in);
    buf_free(&p->line);
    buf_free(&p->where);
    arena_free(&p->arena);
    free(p);
}

static void whole_number(const Prompts *p, const Json *row, const char *key, int lo, int *to)
{
    const Json *j = json_get(row, key);
    int64_t x;
    if (!j) return;
    if (!json_int(j, &x) || x < lo || x > SETTING_MAX)
        die("%s: \"%s\" is not a whole number from %d to %d", p->where.s, key, lo, SETTING_MAX);
    *to = (int)x;
}

static void number(const Prompts *p, const Json *row, const char *key, double lo, double hi,
                   double *to)
{
    const Json *j = json_get(row, key);
    if (!j) return;
    if (j->kind != J_NUM || !(j->num >= lo) || !(j->num <= hi)) {
        if (hi == DBL_MAX) die("%s: \"%s\" is not a number from %g up", p->where.s, key, lo);
        die("%s: \"%s\" is not a number from %g to %g", p->where.s, key, lo, hi);
    }
    *to = j->num;
}

static void row_settings(const Prompts *p, const Json *row, Settings *s)
{
    whole_number(p, row, "max_tokens", 0, &s->max_tokens);
    whole_number(p, row, "samples", 1, &s->samples);
    whole_number(p, row, "top_k", 0, &s->top_k);
    number(p, row, "temperature", 0, DBL_MAX, &s->temperature);
    number(p, row, "top_p", 0, 1, &s->top_p);
    number(p, row, "min_p", 0, 1, &s->min_p);
    number(p, row, "repetition_penalty", PENALTY_MIN, PENALTY_MAX, &s->penalty);
    const Json *j = json_get(row, "seed");
    if (j) {
        if (!json_int(j, &s->seed) || s->seed < 0)
            die("%s: \"seed\" is not a whole number from 0 up", p->where.s);
        s->own_seed = 1;
    }
}

static void parse_row(Prompts *p, Prompt *out)
{
    arena_reset(&p->arena);
    const char *err;
    size_t at;
    const Json *row = json_parse(&p->arena, out->text, out->n, &err, &at);
    if (!row) die("%s: byte %zu: %s", p->where.s, at + 1, err);
    if (row->kind != J_OBJ) die("%s: not a JSON object", p->where.s);
    row_settings(p, row, &out->set);
    out->row = row;
    if (p->kind == LINES_CHAT) {
        out->messages = json_get(row, "messages");
        if (!out->messages || out->messages->kind != J_ARR)
            die("%s: no \"messages\" that are an array", p->where.s);
        return;
    }
    const Json *text = json_get(row, "prompt");
    if (!text || text->kind != J_STR) die("%s: no \"prompt\" that is a string", p->where.s);
    out->text = text->s;
    out->n = text->len;
}

static bool blank(const Buf *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (!strchr(" \t\r", b->s[i]) || b->s[i] == 0) return false;
    return true;
}

static bool next_line(Prompts *p, Prompt *out)
{
    do {
        if (!in_line(p->in, &p->line)) return false;
        out->text = p->line.n ? p->line.s : "";
        out->n = p->line.n;
        if (p->kind && in_lineno(p->in) == 1 && out->n >= 3 &&
            memcmp(out->text, "\xef\xbb\xbf", 3) == 0) {      /* a byte-order mark is no JSON */
            out->text += 3;
            out->n -= 3;
        }
    } while (p->kind && (out->n == 0 || blank(&p->line)));
    buf_clear(&p->where);
    buf_printf(&p->where, "%s: line %llu", in_name(p->in), (unsigned long long)in_lineno(p->in));
    if (p->kind) parse_row(p, out);
    return true;
}

bool prompt_next(Prompts *p, const Settings *defaults, Prompt *out)
{
    *out = (Prompt){ .set = *defaults };
    if (p->in) {
        if (!next_line(p, out)) return false;
    } else if (p->file) {
        if (p->done++) return false;
        io_reads(p->file);
        read_file(p->file, &p->line, FILE_MAX);
        out->text = p->line.n ? p->line.s : "";
        out->n = p->line.n;
        buf_str(&p->where, prompts_name(p));
    } else {
        if (p->next == p->texts->n) return false;
        out->text = p->texts->s[p->next++];
        out->n = strlen(out->text);
        buf_clear(&p->where);
        buf_printf(&p->where, "prompt %d", p->next);
    }
    out->where = p->where.s;
    return true;
}
