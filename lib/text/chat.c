/* chat.c -- see chat.h. */
#include "text/chat.h"
#include "text/utf8.h"
#include <stdlib.h>
#include <string.h>

const char *const part_names[PART_KINDS] = { "text", "python", "python_output" };

/* What a template needs of a tokenizer, by role in it. END also ends an answer when it is sampled;
 * OTHER_END is a special token that does too and may be missing. */
enum { BOS, USER, USER_END, ANSWER, END, CALL, CALL_END, RESULT, RESULT_END, OTHER_END, IDS };
static const char *const kind_names[CHAT_KINDS] = { "nanochat", "chatml", "llama3" };
static const char *const needs[CHAT_KINDS][IDS] = {
    [CHAT_NANOCHAT] = { "<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>",
                        "<|assistant_end|>", "<|python_start|>", "<|python_end|>",
                        "<|output_start|>", "<|output_end|>", NULL },
    [CHAT_CHATML] = { [USER] = "<|im_start|>", [USER_END] = "<|im_end|>",
                      [ANSWER] = "<|im_start|>", [END] = "<|im_end|>",
                      [OTHER_END] = "<|endoftext|>" },
    [CHAT_LLAMA3] = { "<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>",
                      "<|start_header_id|>", "<|eot_id|>", [OTHER_END] = "<|end_of_text|>" },
};

struct Chat {
    ChatKind kind;
    const Tok *tok;
    TokEnc *enc;
    int id[IDS];                /* -1: none */
    int header_end;             /* llama3 */
    Buf joined, text;
};

/* ---- templates --------------------------------------------------------------------- */

ChatKind chat_kind(const char *name)
{
    int k = 0;
    while (k < CHAT_KINDS - 1 && strcmp(name, kind_names[k])) k++;
    return (ChatKind)k;
}

ChatKind chat_guess(const Tok *t)
{
    for (int k = 0; k < CHAT_KINDS; k++)
        if (tok_named(t, needs[k][USER]) >= 0) return (ChatKind)k;
    return CHAT_NANOCHAT;
}

bool chat_known(const Tok *t) { return tok_named(t, needs[chat_guess(t)][USER]) >= 0; }

static int need(const Chat *c, const char *tok_file, const char *name)
{
    int id = tok_named(c->tok, name);
    if (id < 0)
        die("%s: has no special token %s, which the template %s needs", tok_file, name,
            kind_names[c->kind]);
    return id;
}

Chat *chat_new(const Tok *t, const char *tok_file, TokEnc *e, ChatKind kind, int bos)
{
    Chat *c = xcalloc(1, sizeof *c);
    *c = (Chat){ .kind = kind, .tok = t, .enc = e, .header_end = -1 };
    for (int i = 0; i < IDS; i++) {
        const char *name = needs[kind][i];
        if (i == BOS && bos >= 0) c->id[i] = bos;
        else if (!name) c->id[i] = -1;
        else c->id[i] = i == OTHER_END ? tok_named(t, name) : need(c, tok_file, name);
    }
    if (kind == CHAT_LLAMA3) c->header_end = need(c, tok_file, "<|end_header_id|>");
    return c;
}

void chat_free(Chat *c)
{
    if (!c) return;
    buf_free(&c->joined);
    buf_free(&c->text);
    free(c);
}

int chat_bos(const Chat *c) { return c->id[BOS]; }
int chat_end_id(const Chat *c) { return c->id[END]; }

void chat_stops(const Chat *c, unsigned char *stop)
{
    static const int ends[] = { BOS, USER, USER_END, ANSWER, END, OTHER_END };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (c->id[ends[i]] >= 0) stop[c->id[ends[i]]] = 1;
    if (c->header_end >= 0) stop[c->header_end] = 1;
}

/* ---- steps --------------------------------------------------------------------------- */

void chatids_cut(ChatIds *c, size_t n)
{
    if (c->ids.n > n) c->ids.n = c->mask.n = n;
}

void chatids_free(ChatIds *c)
{
    tokout_free(&c->ids);
    buf_free(&c->mask);
    *c = (ChatIds){0};
}

static void mask_to(ChatIds *out, int mask)             /* the ids that have no mask yet */
{
    size_t n = out->ids.n - out->mask.n;
    buf_reserve(&out->mask, n);
    memset(out->mask.s + out->mask.n, mask, n);
    out->mask.n += n;
    out->mask.s[out->mask.n] = 0;
}

static void put_id(ChatIds *out, int id, int mask)
{
    out->ids.width = 4;
    tokout_add(&out->ids, (uint32_t)id);
    mask_to(out, mask);
}

static void put_text(Chat *c, ChatIds *out, const char *s, size_t n, int mask)
{
    out->ids.width = 4;
    tok_encode_valid(c->enc, s, n, &out->ids);
    mask_to(out, mask);
}

/* A text after the words that stand before it in its turn, encoded as one. */
static void put_joined(Chat *c, ChatIds *out, const char *before, size_t len, const char *s,
                       size_t n)
{
    buf_clear(&c->joined);
    buf_add(&c->joined, before, len);
    buf_add(&c->joined, s, n);
    put_text(c, out, c->joined.s, c->joined.n, 0);
}

/* A whole turn of the system or a user, in the templates where roles are words. */
static void put_turn(Chat *c, ChatIds *out, const char *role, const char *s, size_t n)
{
    put_id(out, c->id[USER], 0);
    if (c->kind == CHAT_LLAMA3) {
        put_text(c, out, role, strlen(role), 0);
        put_id(out, c->header_end, 0);
        put_joined(c, out, "\n\n", 2, s, n);
        put_id(out, c->id[USER_END], 0);
        return;
    }
    char *head = xasprintf("%s\n", role);
    put_joined(c, out, head, strlen(head), s, n);
    free(head);
    put_id(out, c->id[USER_END], 0);
    put_text(c, out, "\n", 1, 0);
}

void chat_begin(Chat *c, ChatIds *out)
{
    if (c->id[BOS] >= 0) put_id(out, c->id[BOS], 0);
}

void chat_user(Chat *c, ChatIds *out, const char *system, size_t len, const char *s, size_t n)
{
    if (c->kind != CHAT_NANOCHAT) {
        if (system) put_turn(c, out, "system", system, len);
        put_turn(c, out, "user", s, n);
        return;
    }
    put_id(out, c->id[USER], 0);
    if (system) {
        buf_clear(&c->text);
        buf_add(&c->text, system, len);
        buf_str(&c->text, "\n\n");
        put_joined(c, out, c->text.s, c->text.n, s, n);
    } else {
        put_text(c, out, s, n, 0);
    }
    put_id(out, c->id[USER_END], 0);
}

void chat_answer(Chat *c, ChatIds *out)
{
    put_id(out, c->id[ANSWER], 0);
    if (c->kind == CHAT_NANOCHAT) return;
    const char *word = c->kind == CHAT_CHATML ? "assistant\n" : "assistant";
    put_text(c, out, word, strlen(word), 0);
    if (c->kind != CHAT_LLAMA3) return;
    put_id(out, c->header_end, 0);
    put_text(c, out, "\n\n", 2, 0);
}

void chat_part(Chat *c, ChatIds *out, PartKind k, const char *s, size_t n)
{
    static const int begin[] = { -1, CALL, RESULT }, end[] = { -1, CALL_END, RESULT_END };
    int mask = k != PART_OUTPUT;
    if (k != PART_TEXT) put_id(out, c->id[begin[k]], mask);
    put_text(c, out, s, n, mask);
    if (k != PART_TEXT) put_id(out, c->id[end[k]], mask);
}

void chat_end(Chat *c, ChatIds *out)
{
    put_id(out, c->id[END], 1);
    if (c->kind == CHAT_CHATML) put_text(c, out, "\n", 1, 0);
}

void chat_sampled(ChatIds *out, const uint32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++) put_id(out, (int)id[i], 1);
}

/* ---- from JSON ------------------------------------------------------------------------- */

/* "message 2: ..." */
static char *wrong(int message, const char *what)
{
    return xasprintf("message %d: %s", message, what);
}

/* The content of a user or system message, which is a string. */
static char *text_of(const Json *m, int at, const Json **text)
{
    *text = json_get(m, "content");
    if (!*text) return wrong(at, "has no \"content\"");
    if ((*text)->kind != J_STR) return wrong(at, "the content is not a string");
    return NULL;
}

static char *render_part(Chat *c, ChatIds *out, const Json *p, int at, int k)
{
    const Json *type = json_get(p, "type"), *text = json_get(p, "text");
    const char *bad = NULL;
    int kind = 0;
    if (p->kind != J_OBJ) bad = "is not an object";
    else if (!type || type->kind != J_STR) bad = "has no \"type\" that is a string";
    else if (!text || text->kind != J_STR) bad = "has no \"text\" that is a string";
    while (!bad && kind < PART_KINDS && !json_is_str(type, part_names[kind])) kind++;
    if (kind == PART_KINDS) bad = "is neither text, python nor python_output";
    else if (!bad && kind != PART_TEXT && c->id[CALL] < 0)
        bad = "is for tools, which this template lacks";
    if (bad) return xasprintf("message %d: part %d %s", at, k, bad);
    chat_part(c, out, (PartKind)kind, text->s, text->len);
    return NULL;
}

char *chat_content(Chat *c, ChatIds *out, const Json *m, int at)
{
    const Json *content = json_get(m, "content");
    if (!content) return wrong(at, "has no \"content\"");
    if (content->kind != J_STR && content->kind != J_ARR)
        return wrong(at, "the content is neither a string nor a list of parts");
    if (content->kind == J_STR) chat_part(c, out, PART_TEXT, content->s, content->len);
    int k = 1;
    if (content->kind == J_ARR)
        for (const Json *p = content->child; p; p = p->next, k++) {
            char *bad = render_part(c, out, p, at, k);
            if (bad) return bad;
        }
    return NULL;
}

static char *render_answer(Chat *c, ChatIds *out, const Json *m, int at)
{
    chat_answer(c, out);
    char *bad = chat_content(c, out, m, at);
    if (!bad) chat_end(c, out);
    return bad;
}

static char *check_role(const Json *m, int at, const char *want)
{
    const Json *role = json_get(m, "role");
    if (m->kind != J_OBJ) return wrong(at, "is not an object");
    if (!role || role->kind != J_STR) return wrong(at, "has no \"role\" that is a string");
    if (json_is_str(role, want)) return NULL;
    Buf b = {0};
    json_str(&b, role->s, role->len < 40 ? role->len : 40);
    char *why = xasprintf("message %d: the role is %s where \"%s\" should be", at, b.s, want);
    buf_free(&b);
    return why;
}

/* The messages from m on, `n` of them; `at` is the number of the first. */
static char *render(Chat *c, ChatIds *out, const Json *m, int n)
{
    const Json *first = NULL, *text;
    char *bad;
    int at = 1;
    if (n > 0 && json_is_str(json_get(m, "role"), "system")) {
        if ((bad = text_of(m, at, &first))) return bad;
        m = m->next;
        at++;
    }
    if (at > n) return first ? wrong(1, "a system message alone") : xstrdup("no messages");
    chat_begin(c, out);
    for (bool user = true; at <= n; m = m->next, at++, user = !user) {
        if ((bad = check_role(m, at, user ? "user" : "assistant"))) return bad;
        if (!user) {
            if ((bad = render_answer(c, out, m, at))) return bad;
            continue;
        }
        if ((bad = text_of(m, at, &text))) return bad;
        chat_user(c, out, first ? first->s : NULL, first ? first->len : 0, text->s, text->len);
        first = NULL;
    }
    return NULL;
}

char *chat_render(Chat *c, ChatIds *out, const Json *messages, bool completion, size_t most)
{
    int n = messages->n;
    size_t from = out->ids.n;
    if (completion && n > 0) {
        const Json *last = messages->child;
        while (last->next) last = last->next;
        char *bad = check_role(last, n, "assistant");
        if (bad) return bad;
        n--;
    }
    char *bad = render(c, out, messages->child, n);
    if (bad) return bad;
    if (out->ids.n - from > most) {
        for (size_t i = from + most; i < out->ids.n; i++) out->mask_cut += out->mask.s[i] != 0;
        out->cut += out->ids.n - from - most;
        chatids_cut(out, from + most);
    }
    if (completion) chat_answer(c, out);
    return NULL;
}

/* ---- from ids ---------------------------------------------------------------------------- */

static void add_text(Chat *c, const uint32_t *id, size_t n, PartKind k,
                     void (*part)(void *, PartKind, const char *, size_t), void *arg)
{
    buf_clear(&c->text);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *s = tok_bytes(c->tok, (int)id[i], &len);
        if (!tok_is_special(c->tok, (int)id[i])) buf_add(&c->text, s, len);
    }
    if (k == PART_TEXT && c->text.n == 0) return;
    buf_clear(&c->joined);
    utf8_repair(&c->joined, c->text.n ? c->text.s : "", c->text.n);
    part(arg, k, c->joined.n ? c->joined.s : "", c->joined.n);
}

/* The number of ids from id[0], a special token, that make a part: 0 if none does. *inner of them
 * are its text. A result that the end of the answer cuts off is one: a tool's words are not the
 * assistant's. */
static size_t part_at(const Chat *c, const uint32_t *id, size_t n, PartKind *k, size_t *inner)
{
    int end;
    if ((int)id[0] == c->id[CALL]) *k = PART_PYTHON, end = c->id[CALL_END];
    else if ((int)id[0] == c->id[RESULT]) *k = PART_OUTPUT, end = c->id[RESULT_END];
    else return 0;
    size_t i = 1;
    while (i < n && !tok_is_special(c->tok, (int)id[i])) i++;
    *inner = i - 1;
    if (i < n && (int)id[i] == end) return i + 1;
    return i == n && *k == PART_OUTPUT ? n : 0;
}

void chat_parts(Chat *c, const uint32_t *id, size_t n,
                void (*part)(void *arg, PartKind k, const char *s, size_t n), void *arg)
{
    size_t from = 0;
    for (size_t i = 0; i < n; ) {
        PartKind k = PART_TEXT;
        size_t inner, len = 0;
        if (tok_is_special(c->tok, (int)id[i])) len = part_at(c, id + i, n - i, &k, &inner);
        if (!len) { i++; continue; }
        add_text(c, id + from, i - from, PART_TEXT, part, arg);
        add_text(c, id + i + 1, inner, k, part, arg);
        from = i += len;
    }
    add_text(c, id + from, n - from, PART_TEXT, part, arg);
}
