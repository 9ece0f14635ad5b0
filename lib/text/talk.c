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

static void render_turn(Talk *t, ChatIds *out, size_t i, bool first)
{
    const Turn *turn = &t->turn[i];
    const char *system = t->system.n ? t->system.s : "";
    chat_user(t->chat, out, t->has_system && first ? system : NULL, t->system.n,
              turn->user.n ? turn->user.s : "", turn->user.n);
    chat_answer(t->chat, out);
    if (!turn->answered) return;
    chat_sampled(out, turn->answer.id, turn->answer.n);
    chat_end(t->chat, out);
}

static size_t length(Talk *t, size_t i, bool first)
{
    chatids_cut(&t->room, 0);
    render_turn(t, &t->room, i, first);
    return t->room.ids.n;
}

/* The first of the turns at the end that make at most `most` ids; one at least. Looks at no more
 * than those and one before them. */
static size_t first_that_fits(Talk *t, size_t most)
{
    size_t i = t->n - 1, after = 1;             /* what begins the conversation, and later turns */
    for (; i > t->first; i--) {
        after += length(t, i, false);
        if (after + length(t, i - 1, true) > most) break;
    }
    return i;
}

size_t talk_prompt(Talk *t, int T, int answer, int fit)
{
    size_t before = t->first, most = T > answer ? (size_t)(T - answer) : 0;
    if (fit) t->first = first_that_fits(t, most);
    chatids_cut(&t->ids, 0);
    chat_begin(t->chat, &t->ids);
    for (size_t i = t->first; i < t->n; i++) render_turn(t, &t->ids, i, i == t->first);
    return t->first - before;
}
