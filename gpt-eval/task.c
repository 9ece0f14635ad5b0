/* Rows of known shapes made into items; see task.h. Prompts are nanochat's. */
#include "answer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Format {
    const char *shape;          /* members that tell a row of this format, for messages */
    bool (*is)(const Json *row);
    const char *(*read)(Arena *a, const Json *row, Item *it);   /* NULL, or what is wrong */
    double baseline;
} Format;

struct Task {
    char *name, *path;
    const Format *format;       /* NULL: made here, or not known yet */
    In *in;                     /* NULL: made here */
    Buf line;
    uint64_t seed, next;
    double baseline;
};

/* ---- pieces of rows --------------------------------------------------------- */

const Json *one_question(Arena *a, const char *s, size_t n)
{
    Buf b = {0};
    const char *err;
    size_t at;
    buf_str(&b, "[{\"role\": \"user\", \"content\": ");
    json_str(&b, s, n);
    buf_str(&b, "}, {\"role\": \"assistant\", \"content\": \"\"}]");
    const Json *j = json_parse(a, arena_strndup(a, b.s, b.n), b.n, &err, &at);
    if (!j) die("a question that is no JSON: %s", err);
    buf_free(&b);
    return j;
}

static bool has_str(const Json *row, const char *key, Str *s)
{
    const Json *j = json_get(row, key);
    if (!j || j->kind != J_STR) return false;
    if (s) *s = (Str){ j->s, j->len };
    return true;
}

static bool has_arr(const Json *row, const char *key)
{
    const Json *j = json_get(row, key);
    return j && j->kind == J_ARR;
}

static void add(Buf *b, const char *before, Str s, const char *after)
{
    buf_str(b, before);
    buf_add(b, s.s, s.n);
    buf_str(b, after);
}

/* ---- gsm8k: {"question", "answer": "... #### n"} ------------------------------ */

static bool is_gsm8k(const Json *row)
{
    return has_str(row, "question", NULL) && has_str(row, "answer", NULL);
}

static const char *read_gsm8k(Arena *a, const Json *row, Item *it)
{
    Str q, answer;
    if (!has_str(row, "question", &q) || !has_str(row, "answer", &answer))
        return "needs \"question\" and \"answer\", strings";
    it->check = CHECK_GSM8K;
    it->messages = one_question(a, q.s, q.n);
    Buf b = {0};
    bool found = number_after_hashes(answer, &b);
    if (found) it->want = (Str){ arena_strndup(a, b.s, b.n), b.n };
    buf_free(&b);
    return found ? NULL : "no number after \"#### \" in the answer";
}

/* ---- multiple choice ---------------------------------------------------------- */

static const char *choices(Arena *a, Str question, const Json *text, Item *it)
{
    Buf b = {0};
    int i = 0;
    const char *bad = NULL;
    add(&b, "Multiple Choice question: ", question, "\n");
    for (const Json *c = text->child; c; c = c->next, i++) {
        if (c->kind != J_STR) { bad = "a choice that is no string"; break; }
        add(&b, "- ", (Str){ c->s, c->len }, "=");
        add(&b, "", it->letter[i], "\n");
    }
    buf_str(&b, "\nRespond only with the letter of the correct answer.");
    it->check = CHECK_LETTER;
    it->messages = one_question(a, b.s, b.n);
    if (!bad) it->want = it->letter[it->gold];
    buf_free(&b);
    return bad;
}

static bool is_mmlu(const Json *row)
{
    const Json *g = json_get(row, "answer");
    return has_arr(row, "choices") && g && g->kind == J_NUM;
}

static const char *read_mmlu(Arena *a, const Json *row, Item *it)
{
    static const char letters[] = "ABCD";
    const Json *c = json_get(row, "choices");
    int64_t gold;
    Str q;
    if (!has_str(row, "question", &q)) return "needs \"question\", a string";
    if (!has_arr(row, "choices") || c->n != 4) return "needs \"choices\", four of them";
    if (!json_int(json_get(row, "answer"), &gold) || gold < 0 || gold > 3)
        return "needs \"answer\", 0 to 3";
    it->nletter = 4;
    it->gold = (int)gold;
    it->letter = arena_alloc(a, 4 * sizeof *it->letter);
    for (int i = 0; i < 4; i++) it->letter[i] = (Str){ letters + i, 1 };
    return choices(a, q, c, it);
}

static bool is_arc(const Json *row)
{
    return has_str(row, "answerKey", NULL) && has_arr(json_get(row, "choices"), "text");
}

static const char *read_arc(Arena *a, const Json *row, Item *it)
{
    const Json *c = json_get(row, "choices"), *l = json_get(c, "label");
    Str q, key;
    if (!has_str(row, "question", &q) || !has_str(row, "answerKey", &key))
        return "needs \"question\" and \"answerKey\", strings";
    if (!has_arr(c, "text") || !has_arr(c, "label") || l->n < 1 ||
        json_get(c, "text")->n != l->n)
        return "needs \"choices\" with \"text\" and \"label\", as many of each";
    it->nletter = l->n;
    it->gold = -1;
    it->letter = arena_alloc(a, (size_t)l->n * sizeof *it->letter);
    int i = 0;
    for (const Json *e = l->child; e; e = e->next, i++) {
        if (e->kind != J_STR) return "a label that is no string";
        it->letter[i] = (Str){ e->s, e->len };
        if (e->len == key.n && !memcmp(e->s, key.s, key.n)) it->gold = i;
    }
    if (it->gold < 0) return "the answerKey is none of the labels";
    return choices(a, q, json_get(c, "text"), it);
}

/* ---- humaneval: {"prompt", "test", "entry_point"} ------------------------------- */

static bool is_humaneval(const Json *row)
{
    return has_str(row, "prompt", NULL) && has_str(row, "test", NULL) &&
           has_str(row, "entry_point", NULL);
}

static const char *read_humaneval(Arena *a, const Json *row, Item *it)
{
    if (!has_str(row, "prompt", &it->prompt) || !has_str(row, "test", &it->test) ||
        !has_str(row, "entry_point", &it->entry))
        return "needs \"prompt\", \"test\" and \"entry_point\", strings";
    it->check = CHECK_PROGRAM;
    it->messages = one_question(a, it->prompt.s, it->prompt.n);
    has_str(row, "canonical_solution", &it->want);
    return NULL;
}

/* ---- conversations: the last message, the assistant's, is the reference ----------- */

static bool is_messages(const Json *row) { return has_arr(row, "messages"); }

static const char *text_of(Arena *a, const Json *content, Str *s)
{
    Buf b = {0};
    if (content && content->kind == J_STR) {
        *s = (Str){ content->s, content->len };
        return NULL;
    }
    if (!content || content->kind != J_ARR) return "the reference has no content";
    for (const Json *p = content->child; p; p = p->next) {
        Str t;
        if (json_is_str(json_get(p, "type"), "text") && has_str(p, "text", &t))
            buf_add(&b, t.s, t.n);
    }
    *s = (Str){ arena_strndup(a, b.s ? b.s : "", b.n), b.n };
    buf_free(&b);
    return NULL;
}

static const char *read_messages(Arena *a, const Json *row, Item *it)
{
    const Json *m = json_get(row, "messages"), *last = m->child;
    if (m->kind != J_ARR || m->n < 2) return "needs \"messages\", two at least";
    while (last->next) last = last->next;
    if (!json_is_str(json_get(last, "role"), "assistant"))
        return "the last message is not the assistant's";
    it->check = CHECK_TEXT;
    it->messages = m;
    return text_of(a, json_get(last, "content"), &it->want);
}

static const Format formats[] = {
    { "\"messages\"", is_messages, read_messages, 0 },
    { "\"question\", \"answer\" (gsm8k)", is_gsm8k, read_gsm8k, 0 },
    { "\"question\", \"choices\", \"answer\" (mmlu)", is_mmlu, read_mmlu, 0.25 },
    { "\"question\", \"choices\", \"answerKey\" (arc)", is_arc, read_arc, 0.25 },
    { "\"prompt\", \"test\", \"entry_point\" (humaneval)", is_humaneval, read_humaneval, 0 },
};
static const struct { const char *name; const Format *format; } known[] = {
    { "gsm8k", &formats[1] }, { "mmlu", &formats[2] }, { "arc-easy", &formats[3] },
    { "arc-challenge", &formats[3] }, { "humaneval", &formats[4] },
};

static const Format *format_of(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].format;
    return NULL;
}

static const Format *format_by_row(const Task *t, const Json *row)
{
    Buf b = {0};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].is(row)) return &formats[i];
        buf_printf(&b, "%s%s", i ? "; " : "", formats[i].shape);
    }
    die("%s: line %" PRIu64 ": a row of no known task; they have %s", t->path, in_lineno(t->in),
        b.s);
}

/* ---- tasks ------------------------------------------------------------------------ */

/* data/gsm8k.jsonl.gz -> gsm8k */
static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *s = xstrdup(slash && slash[1] ? slash + 1 : path), *dot = strchr(s + 1, '.');
    if (*s && dot) *dot = 0;
    return s;
}

Task *task_open(const char *spec, uint64_t seed)
{
    Task *t = xcalloc(1, sizeof *t);
    Arena a = {0};
    Item probe;
    const char *eq = strchr(spec, '=');
    t->seed = seed;
    if (own_item(spec, seed, 0, &a, &probe)) {
        t->name = xstrdup(spec);
    } else if (format_of(spec)) {
        die_usage("%s: where are its rows? give %s=FILE", spec, spec);
    } else if (eq && eq > spec && !memchr(spec, '/', (size_t)(eq - spec))) {
        t->name = xasprintf("%.*s", (int)(eq - spec), spec);
        t->path = xstrdup(eq + 1);
        t->format = format_of(t->name);
    } else {
        t->path = xstrdup(spec);
        t->name = name_of(spec);
    }
    if (t->path) t->in = in_open(t->path);
    if (t->format) t->baseline = t->format->baseline;
    arena_free(&a);
    return t;
}

static bool next_line(Task *t)
{
    while (in_line(t->in, &t->line)) {
        bool bom = in_lineno(t->in) == 1 && t->line.n >= 3 && !memcmp(t->line.s, "\xEF\xBB\xBF", 3);
        if (bom) memset(t->line.s, ' ', 3);
        if (t->line.n && strspn(t->line.s, " \t\r") < t->line.n) return true;
    }
    return false;
}

bool task_next(Task *t, Arena *a, Item *it)
{
    const char *err;
    size_t at;
    *it = (Item){ 0 };
    if (!t->in) return own_item(t->name, t->seed, t->next++, a, it);
    if (!next_line(t)) return false;
    const char *s = arena_strndup(a, t->line.s, t->line.n);     /* the tree points into it */
    const Json *row = json_parse(a, s, t->line.n, &err, &at);
    if (!row)
        die("%s: line %" PRIu64 ": not valid JSON: %s, byte %zu", t->path, in_lineno(t->in), err,
            at + 1);
    if (row->kind != J_OBJ) die("%s: line %" PRIu64 ": not an object", t->path, in_lineno(t->in));
    if (!t->format) t->format = format_by_row(t, row);
    t->baseline = t->format->baseline;
    if ((err = t->format->read(a, row, it)))
        die("%s: line %" PRIu64 ": %s", t->path, in_lineno(t->in), err);
    return true;
}

const char *task_name(const Task *t) { return t->name; }
double task_baseline(const Task *t) { return t->baseline; }
uint64_t task_size(const Task *t) { return t->in ? 0 : OWN_ITEMS; }

void task_close(Task *t)
{
    if (t->in) in_close(t->in);
    buf_free(&t->line);
    free(t->path);
    free(t->name);
    free(t);
}
