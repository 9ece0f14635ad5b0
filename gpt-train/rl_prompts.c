/* Prompts: rows of conversations or texts, as token ids. */
#include "rl.h"
#include "base/io.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    Chat *chat; TokEnc *enc;
    int bos;
    const char *path; uint64_t line;
    Arena a;                        /* of the line */
} Reader;

_Noreturn static void bad(const Reader *f, const char *why)
{
    die("%s: line %" PRIu64 ": %s", f->path, f->line, why);
}

static void keep(char **to, size_t *n, const char *s, size_t len)
{
    *to = xmalloc(len + 1);
    memcpy(*to, s, len);
    (*to)[len] = 0;
    *n = len;
}

/* A message's words: its content, or the texts of its parts. */
static void words(const Json *content, Buf *b)
{
    if (content->kind == J_STR) buf_add(b, content->s, content->len);
    if (content->kind != J_ARR) return;
    for (const Json *part = content->child; part; part = part->next) {
        const Json *s = json_get(part, "text");
        if (s && s->kind == J_STR) buf_add(b, s->s, s->len);
    }
}

static void last_words(const Json *messages, Prompt *p)
{
    Buf b = {0};
    for (const Json *m = messages->child; m; m = m->next) {
        const Json *content = json_get(m, "content");
        if (!json_is_str(json_get(m, "role"), "user") || !content) continue;
        buf_clear(&b);
        words(content, &b);
    }
    keep(&p->text, &p->text_len, b.n ? b.s : "", b.n);
    buf_free(&b);
}

static void from_messages(Reader *f, const Json *messages, Prompt *p)
{
    if (!f->chat) bad(f, "\"messages\", but this tokenizer has no turns: give \"prompt\"");
    if (messages->kind != J_ARR || !messages->child) bad(f, "\"messages\" is no list, or empty");
    Json *last = messages->child;
    while (last->next) last = last->next;
    Json all = *messages;
    if (!json_is_str(json_get(last, "role"), "assistant")) {    /* chat_render() leaves one out */
        static const char none[] = "{\"role\":\"assistant\",\"content\":\"\"}";
        const char *err;
        size_t at;
        last->next = json_parse(&f->a, none, strlen(none), &err, &at);
        all.n++;
    }
    ChatIds c = {0};
    char *why = chat_render(f->chat, &c, &all, true, SIZE_MAX);
    if (why) bad(f, why);
    for (size_t i = 0; i < c.ids.n; i++) ids_add(&p->ids, chatids(&c)[i]);
    chatids_free(&c);
    last_words(messages, p);
}

static void from_text(const Reader *f, const Json *text, Prompt *p)
{
    if (text->kind != J_STR) bad(f, "\"prompt\" is not a string");
    if (f->bos >= 0) ids_add(&p->ids, (uint32_t)f->bos);
    tok_encode(f->enc, text->s, text->len, &p->ids);
    if (!p->ids.n) bad(f, "an empty prompt");
    keep(&p->text, &p->text_len, text->s, text->len);
}

static void add(Prompts *v, Reader *f, const char *s, size_t n, size_t most)
{
    const char *err;
    size_t at;
    const Json *j = json_parse(&f->a, s, n, &err, &at);
    if (!j) die("%s: line %" PRIu64 ", byte %zu: %s", f->path, f->line, at + 1, err);
    if (j->kind != J_OBJ) bad(f, "not an object");
    if (v->n == v->cap)
        v->p = xreallocarray(v->p, v->cap = v->cap ? 2 * v->cap : 64, sizeof *v->p);
    Prompt *p = &v->p[v->n++];
    *p = (Prompt){0};
    const Json *messages = json_get(j, "messages"), *text = json_get(j, "prompt");
    if (messages) from_messages(f, messages, p);
    else if (text) from_text(f, text, p);
    else bad(f, "neither \"messages\" nor \"prompt\"");
    if (p->ids.n > most)
        die("%s: line %" PRIu64 ": a prompt of %zu tokens: with --max-tokens for the answer the "
            "model has room for %zu", f->path, f->line, p->ids.n, most);
    if (p->ids.n > v->longest) v->longest = p->ids.n;
    keep(&p->row, &p->row_len, s, n);
    uint64_t two[2] = { v->hash, xxh3(s, n) };
    v->hash = xxh3(two, sizeof two);
}

void prompts_read(Prompts *v, const char *path, TokEnc *enc, Chat *chat, int bos, size_t most)
{
    Reader f = { .chat = chat, .enc = enc, .bos = bos };
    In *in = in_open(path);
    Buf line = {0};
    size_t before = v->n;
    f.path = in_name(in);
    while (in_line(in, &line)) {
        f.line = in_lineno(in);
        size_t bom = f.line == 1 && line.n >= 3 && !memcmp(line.s, "\xef\xbb\xbf", 3) ? 3 : 0;
        if (strspn(line.s + bom, " \t\r\n") == line.n - bom) continue;
        add(v, &f, line.s + bom, line.n - bom, most);
        arena_reset(&f.a);
    }
    if (v->n == before) die("%s: no prompts", f.path);
    in_close(in);
    buf_free(&line);
    arena_free(&f.a);
}

void prompts_free(Prompts *v)
{
    for (size_t i = 0; i < v->n; i++) {
        ids_free(&v->p[i].ids);
        free(v->p[i].text);
        free(v->p[i].row);
    }
    free(v->p);
}
