/* writer.c -- see writer.h. */
#include "writer.h"
#include "text/talk.h"
#include "text/utf8.h"
#include <stdlib.h>
#include <string.h>

typedef struct Slot {               /* an unfinished sample, or one that waits for its turn */
    Buf text;                       /* what is not yet written */
    Ids ids;
    int64_t tokens;
    int begun, done, stopped;
} Slot;

struct Writer {
    Out *out;
    const Tok *tok;
    Chat *chat;
    int flags, terminal;
    const Prompt *p; int prompt_tokens;
    Slot *slot; int nslot;          /* sample s is in slot[s % nslot] */
    int turn;                       /* the sample to be written next */
    Buf json;
};

Writer *writer_new(Out *out, const Tok *tok, Chat *chat, int flags, int terminal)
{
    Writer *w = xcalloc(1, sizeof *w);
    *w = (Writer){ .out = out, .tok = tok, .chat = chat, .flags = flags, .terminal = terminal };
    return w;
}

static void free_slots(Writer *w)
{
    for (int i = 0; i < w->nslot; i++) {
        buf_free(&w->slot[i].text);
        ids_free(&w->slot[i].ids);
    }
    free(w->slot);
}

void writer_free(Writer *w)
{
    free_slots(w);
    buf_free(&w->json);
    free(w);
}

void writer_prompt(Writer *w, const Prompt *p, int n, int open)
{
    if (open > w->nslot) {
        free_slots(w);
        w->slot = xcalloc((size_t)open, sizeof *w->slot);
        w->nslot = open;
    }
    w->p = p;
    w->prompt_tokens = n;
    w->turn = 0;
}

void write_text(Out *o, Buf *text, int hold)
{
    size_t n = hold ? utf8_complete(text->s, text->n) : text->n;
    if (n > 0) {
        out_write(o, text->s, n);
        memmove(text->s, text->s + n, text->n - n);
        text->n -= n;
    }
    out_flush(o);
}

/* Write what may be written of a text whose turn it is. */
static void stream(Writer *w, Slot *s)
{
    if (!s->begun && (w->flags & W_ECHO)) out_write(w->out, w->p->text, w->p->n);
    s->begun = 1;
    if (s->done) buf_char(&s->text, '\n');
    write_text(w->out, &s->text, w->terminal && !s->done);
}

/* Members of the input that the output has a value of its own for; "messages" are not repeated. */
static int is_result(const Json *member, int chat)
{
    static const char *const names[] = {
        "messages", "role", "content", "dropped_turns",         /* of conversations */
        "index", "text", "tokens", "prompt_tokens", "finish_reason", "ids"
    };
    size_t n = sizeof names / sizeof *names, i = chat ? 0 : 4;
    while (i < n && (member->key_len != strlen(names[i]) ||
                     memcmp(member->key, names[i], member->key_len))) i++;
    return i < n;
}

static void json_input(Buf *b, const Prompt *p)         /* "prompt", and what else the line had */
{
    if (!p->row) {
        buf_str(b, "\"prompt\":");
        json_str(b, p->text, p->n);
        buf_char(b, ',');
        return;
    }
    for (const Json *m = p->row->child; m; m = m->next) {
        if (is_result(m, p->messages != NULL)) continue;
        json_str(b, m->key, m->key_len);
        buf_char(b, ':');
        buf_add(b, m->src, m->src_len);
        buf_char(b, ',');
    }
}

static void write_json(Writer *w, const Slot *s, int sample)
{
    Buf *b = &w->json;
    buf_clear(b);
    buf_char(b, '{');
    json_input(b, w->p);
    buf_printf(b, "\"index\":%d,", sample);
    if (w->chat) {
        buf_str(b, "\"role\":\"assistant\",\"content\":");
        talk_content(w->chat, s->ids.id, s->ids.n, b);
        buf_printf(b, ",\"dropped_turns\":%zu", w->p->dropped);
    } else {
        buf_str(b, "\"text\":");
        json_str(b, s->text.n ? s->text.s : "", s->text.n);
    }
    buf_printf(b, ",\"prompt_tokens\":%d,\"tokens\":%lld", w->prompt_tokens, (long long)s->tokens);
    if (w->flags & W_IDS) {
        buf_str(b, ",\"ids\":[");
        for (size_t i = 0; i < s->ids.n; i++)
            buf_printf(b, i ? ",%u" : "%u", (unsigned)s->ids.id[i]);
        buf_char(b, ']');
    }
    buf_printf(b, ",\"finish_reason\":\"%s\"}\n", s->stopped ? "stop" : "length");
    out_write(w->out, b->s, b->n);
    out_flush(w->out);
}

void writer_token(void *arg, int sample, int id)
{
    Writer *w = arg;
    Slot *s = &w->slot[sample % w->nslot];
    size_t n;
    const char *bytes = tok_bytes(w->tok, id, &n);
    buf_add(&s->text, bytes, n);
    s->tokens++;
    if (w->chat || (w->flags & W_IDS)) ids_add(&s->ids, (uint32_t)id);
    if (!(w->flags & W_JSON) && sample == w->turn) stream(w, s);
}

void writer_end(void *arg, int sample, int id)
{
    Writer *w = arg;
    Slot *s = &w->slot[sample % w->nslot];
    s->done = 1;
    s->stopped = id >= 0;
    if (sample != w->turn) return;
    while (s->done) {                   /* its turn, and that of those which waited for it */
        if (w->flags & W_JSON) write_json(w, s, w->turn);
        else stream(w, s);
        s->text.n = s->ids.n = 0;
        s->tokens = s->begun = s->done = 0;
        s = &w->slot[++w->turn % w->nslot];
    }
    if (!(w->flags & W_JSON) && s->text.n > 0) stream(w, s);
}
