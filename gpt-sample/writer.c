/* writer.c -- see writer.h. */
#include "writer.h"
#include "text/talk.h"
#include "text/utf8.h"
#include <stdlib.h>
#include <string.h>

typedef struct Slot {               /* an unfinished sample, or one that waits for its turn */
    Buf text;                       /* what is not yet written */
    Ids ids;
    Buf logprobs;                   /* as JSON: "-0.5,-1.25" */
    int64_t tokens;
    int begun, done, stopped, met;  /* met: a text that ends it */
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
    const StrList *stops; size_t longest;       /* of the stops, bytes */
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
        buf_free(&w->slot[i].logprobs);
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

void writer_stops(Writer *w, const StrList *texts)
{
    w->stops = texts;
    for (int i = 0; i < texts->n; i++)
        if (strlen(texts->s[i]) > w->longest) w->longest = strlen(texts->s[i]);
}

/* The last `fresh` bytes of the text are new: does it come to a stop? Then it ends there. */
static void find_stop(const Writer *w, Slot *s, size_t fresh)
{
    size_t old = s->text.n - fresh, from = old < w->longest ? 0 : old - (w->longest - 1);
    size_t first = s->text.n;
    for (int i = 0; i < w->stops->n; i++) {
        const char *stop = w->stops->s[i];
        size_t len = strlen(stop);
        const char *at = memmem(s->text.s + from, s->text.n - from, stop, len);
        if (at && (size_t)(at - s->text.s) < first) first = (size_t)(at - s->text.s);
    }
    s->met = first < s->text.n;
    s->text.n = first;
}

/* How many bytes at the end of the text may be the beginning of a stop. */
static size_t begun_stop(const Writer *w, const Buf *text)
{
    size_t most = 0;
    for (int i = 0; w->stops && i < w->stops->n; i++) {
        const char *stop = w->stops->s[i];
        size_t n = strlen(stop) - 1;
        if (n > text->n) n = text->n;
        while (n > most && memcmp(text->s + text->n - n, stop, n)) n--;
        if (n > most) most = n;
    }
    return most;
}

static void write_part(Out *o, Buf *text, size_t n)
{
    if (n > 0) {
        out_write(o, text->s, n);
        memmove(text->s, text->s + n, text->n - n);
        text->n -= n;
    }
    out_flush(o);
}

void write_text(Out *o, Buf *text, int hold)
{
    write_part(o, text, hold ? utf8_complete(text->s, text->n) : text->n);
}

/* Write what may be written of a text whose turn it is. */
static void stream(Writer *w, Slot *s)
{
    if (!s->begun && (w->flags & W_ECHO)) out_write(w->out, w->p->text, w->p->n);
    s->begun = 1;
    size_t n = s->text.n;
    if (s->done) buf_char(&s->text, '\n'), n++;
    else if (n) n -= begun_stop(w, &s->text);
    if (w->terminal && !s->done) n = utf8_complete(s->text.s, n);
    write_part(w->out, &s->text, n);
}

/* Members of the input that the output has a value of its own for; "messages" are not repeated. */
static int is_result(const Json *member, int chat)
{
    static const char *const names[] = {
        "messages", "role", "content", "dropped_turns",         /* of conversations */
        "index", "text", "tokens", "prompt_tokens", "finish_reason", "ids", "logprobs",
        "logprob"
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

static void json_ids(Buf *b, const Ids *v)
{
    for (size_t i = 0; i < v->n; i++) buf_printf(b, i ? ",%u" : "%u", (unsigned)v->id[i]);
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
        json_ids(b, &s->ids);
        buf_char(b, ']');
    }
    if (w->flags & W_LOGPROBS)
        buf_printf(b, ",\"logprobs\":[%s]", s->logprobs.n ? s->logprobs.s : "");
    buf_printf(b, ",\"finish_reason\":\"%s\"}\n", s->stopped ? "stop" : "length");
    out_write(w->out, b->s, b->n);
    out_flush(w->out);
}

void writer_score(Writer *w, const Ids *ids, const real *lp)
{
    Buf *b = &w->json;
    double sum = 0;
    for (size_t i = 1; i < ids->n; i++) sum += (double)lp[i - 1];
    buf_clear(b);
    if (w->flags & W_JSON) {
        buf_char(b, '{');
        json_input(b, w->p);
        buf_printf(b, "\"prompt_tokens\":%zu,\"logprob\":", ids->n);
        json_num(b, sum);
        if (w->flags & W_IDS) buf_str(b, ",\"ids\":["), json_ids(b, ids), buf_char(b, ']');
        if (w->flags & W_LOGPROBS) {
            buf_str(b, ",\"logprobs\":[null");
            for (size_t i = 1; i < ids->n; i++) buf_char(b, ','), json_num(b, (double)lp[i - 1]);
            buf_char(b, ']');
        }
        buf_str(b, "}\n");
    } else buf_printf(b, "%.6f\n", sum);
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
    if (w->longest > 0) find_stop(w, s, n);
    s->tokens++;
    if (w->chat || (w->flags & W_IDS)) ids_add(&s->ids, (uint32_t)id);
    if (!(w->flags & W_JSON) && sample == w->turn) stream(w, s);
}

void writer_logprob(void *arg, int sample, double lp)
{
    Writer *w = arg;
    Buf *b = &w->slot[sample % w->nslot].logprobs;
    if (b->n) buf_char(b, ',');
    json_num(b, lp);
}

bool writer_enough(void *arg, int sample)
{
    const Writer *w = arg;
    return w->slot[sample % w->nslot].met;
}

void writer_end(void *arg, int sample, int id)
{
    Writer *w = arg;
    Slot *s = &w->slot[sample % w->nslot];
    s->done = 1;
    s->stopped = id >= 0 || s->met;
    if (sample != w->turn) return;
    while (s->done) {                   /* its turn, and that of those which waited for it */
        if (w->flags & W_JSON) write_json(w, s, w->turn);
        else stream(w, s);
        s->text.n = s->ids.n = s->logprobs.n = 0;
        s->tokens = s->begun = s->done = s->met = 0;
        s = &w->slot[++w->turn % w->nslot];
    }
    if (!(w->flags & W_JSON) && s->text.n > 0) stream(w, s);
}
