/* talk.c -- see talk.h. */
#include "text/talk.h"
#include <stdlib.h>
#include <string.h>

void talk_drop(Talk *t)
{
    Turn *last = &t->turn[--t->n];
    buf_free(&last->user);
    ids_free(&last->answer);
    if (t->first > 0 && t->first >= t->n) t->first = t->n ? t->n - 1 : 0;
}

void talk_reset(Talk *t)
{
    while (t->n > 0) talk_drop(t);
    t->first = 0;
}

void talk_system(Talk *t, const char *s, size_t n)
{
    buf_clear(&t->system);
    buf_add(&t->system, s, n);
    t->has_system = n > 0;
}

void talk_user(Talk *t, const char *s, size_t n)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? size_mul(t->cap, 2) : 16;
        t->turn = xreallocarray(t->turn, t->cap, sizeof *t->turn);
    }
    t->turn[t->n] = (Turn){0};
    buf_add(&t->turn[t->n++].user, s, n);
}

void talk_answer(Talk *t, const uint32_t *id, size_t n)
{
    Turn *last = &t->turn[t->n - 1];
    last->answer.n = 0;
    for (size_t i = 0; i < n; i++) ids_add(&last->answer, id[i]);
    last->answered = true;
}

void talk_unanswer(Talk *t)
{
    if (t->n > 0) t->turn[t->n - 1].answered = false;
}

void talk_free(Talk *t)
{
    talk_reset(t);
    free(t->turn);
    buf_free(&t->system);
    chatids_free(&t->ids);
    chatids_free(&t->room);
}

/* ---- JSON --------------------------------------------------------------------------- */

char *talk_load(Talk *t, const Json *messages)
{
    talk_reset(t);
    talk_system(t, "", 0);
    chatids_cut(&t->room, 0);
    char *bad = chat_render(t->chat, &t->room, messages, false, SIZE_MAX);  /* all is checked */
    if (bad) return bad;
    int at = 1;
    for (const Json *m = messages->child; m; m = m->next, at++) {
        const Json *role = json_get(m, "role"), *content = json_get(m, "content");
        chatids_cut(&t->room, 0);
        if (json_is_str(role, "user")) {
            talk_user(t, content->s, content->len);
        } else if (json_is_str(role, "system")) {
            talk_system(t, content->s, content->len);
            t->has_system = true;               /* an empty one too */
        } else {
            free(chat_content(t->chat, &t->room, m, at));
            talk_answer(t, chatids(&t->room), t->room.ids.n);
        }
    }
    return NULL;
}

typedef struct Parts { Buf list, text; int n, others; } Parts;

static void on_part(void *arg, PartKind k, const char *s, size_t n)
{
    Parts *p = arg;
    buf_str(&p->list, p->n++ ? "," : "");
    buf_printf(&p->list, "{\"type\":\"%s\",\"text\":", part_names[k]);
    json_str(&p->list, s, n);
    buf_char(&p->list, '}');
    p->others += k != PART_TEXT;
    buf_add(&p->text, s, n);
}

void talk_content(Chat *c, const uint32_t *id, size_t n, Buf *out)
{
    Parts p = {0};
    chat_parts(c, id, n, on_part, &p);
    if (p.others) buf_printf(out, "[%s]", p.list.s);        /* JSON has no NUL */
    else json_str(out, p.text.n ? p.text.s : "", p.text.n);
    buf_free(&p.list);
    buf_free(&p.text);
}

static void message(Buf *out, const char *role, const Buf *text)
{
    buf_printf(out, "{\"role\":\"%s\",\"content\":", role);
    json_str(out, text->n ? text->s : "", text->n);
    buf_char(out, '}');
}

void talk_json(Talk *t, Buf *out)
{
    buf_str(out, "{\"messages\":[");
    if (t->has_system) message(out, "system", &t->system);
    for (size_t i = 0; i < t->n; i++) {
        const Turn *turn = &t->turn[i];
        if (i > 0 || t->has_system) buf_char(out, ',');
        message(out, "user", &turn->user);
        if (!turn->answered) continue;
        buf_str(out, ",{\"role\":\"assistant\",\"content\":");
        talk_content(t->chat, turn->answer.id, turn->answer.n, out);
        buf_char(out, '}');
    }
    buf_str(out, "]}\n");
}

/* ---- the prompt --------------------------------------------------------------------- */

static void render(Talk *t, size_t first)
{
    chatids_cut(&t->ids, 0);
    chat_begin(t->chat, &t->ids);
    for (size_t i = first; i < t->n; i++) {
        const Turn *turn = &t->turn[i];
        bool system = t->has_system && i == first;
        chat_user(t->chat, &t->ids, system ? (t->system.n ? t->system.s : "") : NULL, t->system.n,
                  turn->user.n ? turn->user.s : "", turn->user.n);
        chat_answer(t->chat, &t->ids);
        if (!turn->answered) continue;
        chat_sampled(&t->ids, turn->answer.id, turn->answer.n);
        chat_end(t->chat, &t->ids);
    }
}

size_t talk_prompt(Talk *t, int T, int answer, int fit)
{
    size_t before = t->first;
    for (render(t, t->first); fit && t->first + 1 < t->n; render(t, ++t->first))
        if (t->ids.ids.n + (size_t)answer <= (size_t)T) break;
    return t->first - before;
}
