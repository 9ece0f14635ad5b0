/* A conversation that goes on, past the context ten times over: ids, turns left out, logits. */
#include "gpt/decode.h"
#include "tap.h"
#include "text/talk.h"
#include <math.h>

enum { T = 64 };
static const double tol = sizeof(real) == 8 ? 1e-12 : 5e-5;
static const Ops *ops;
static Model *m;
static Tape tape;
static Tok *tok;
static Arena arena;

static const Json *parse(const char *s, size_t n)
{
    const char *err;
    size_t at;
    arena_reset(&arena);
    const Json *j = json_parse(&arena, s, n, &err, &at);
    if (!j) die("%.*s: %s", (int)n, s, err);
    return j;
}

static int same(const ChatIds *a, const ChatIds *b)
{
    return a->ids.n == b->ids.n && !memcmp(a->ids.id, b->ids.id, 4 * a->ids.n);
}

/* What was loaded renders as chat_render() does it, and is saved as it was. */
static void loaded(Chat *chat)
{
#define BY(who, content) "{\"role\":\"" who "\",\"content\":" content "}"
    static const char *const rows[] = {
        "{\"messages\":[" BY("user", "\"a\"") "]}\n",
        "{\"messages\":[" BY("system", "\"s\"") "," BY("user", "\"a\"") ","
        BY("assistant", "\"b\"") "," BY("user", "\"<|bos|>\"") "]}\n",
        "{\"messages\":[" BY("user", "\"a\\u0000\"") ","
        BY("assistant", "[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"python\",\"text\":\"1\"},"
           "{\"type\":\"python_output\",\"text\":\"1\"}]") "," BY("user", "\"\"") "]}\n",
    };
    Talk t = { .chat = chat };
    for (int i = 0; i < 3; i++) {
        ChatIds want = {0};
        Buf out = {0};
        const Json *row = parse(rows[i], strlen(rows[i]));
        chat_render(chat, &want, json_get(row, "messages"), false, SIZE_MAX);
        chat_answer(chat, &want);
        char *bad = talk_load(&t, json_get(row, "messages"));
        talk_prompt(&t, T, 1, 0);
        ok(!bad && same(&t.ids, &want), "conversation %d has the ids of training", i + 1);
        talk_json(&t, &out);
        ok(strcmp(out.s, rows[i]) == 0, "and is saved as it was");
        chatids_free(&want);
        buf_free(&out);
    }
    static const char wrong[] = "[{\"role\":\"bot\",\"content\":\"\"}]";
    const Json *bad = parse(wrong, strlen(wrong));
    char *why = talk_load(&t, bad);
    ok(why && strstr(why, "message 1") && t.n == 0, "what is wrong is told");
    free(why);
    talk_free(&t);
}

/* Sampled ids stay what they were, though the text would be encoded otherwise. */
static void kept(void)
{
    static const uint32_t pair[1][2] = { { 'a', 'b' } };
    Tok *merged = tok_from_merges(pair, 1);
    TokEnc *e = tokenc_new(merged);
    Talk t = { .chat = chat_new(merged, "t", e, CHAT_NANOCHAT, -1) };
    static const uint32_t answer[] = { 'a', 'b' };
    talk_user(&t, "ab", 2);
    talk_answer(&t, answer, 2);
    talk_user(&t, "q", 1);
    talk_prompt(&t, T, 1, 1);
    const uint32_t *id = chatids(&t.ids);
    ok(id[2] == 256 && id[5] == 'a' && id[6] == 'b',
       "[a][b] is not encoded again as [ab], which a user's ab is");
    chat_free(t.chat);
    talk_free(&t);
    tokenc_free(e);
    tok_free(merged);
}

/* ---- through a model ------------------------------------------------------------------ */

/* Of 20,000 turns only those that fit are looked at again. */
static void many(Chat *chat)
{
    Talk t = { .chat = chat };
    static const uint32_t answer[] = { 'o', 'k' };
    for (int i = 0; i < 20000; i++) {
        talk_user(&t, "hi", 2);
        if (i < 19999) talk_answer(&t, answer, 2);
    }
    size_t left_out = talk_prompt(&t, T, 4, 1);         /* 1 + 8 k + 5 ids of k turns */
    ok(left_out == 19999 - 6 && t.ids.ids.n == 54, "%zu turns left out, %zu ids", left_out,
       t.ids.ids.n);
    ok(talk_prompt(&t, T, 4, 1) == 0 && t.ids.ids.n == 54, "and no more the next time");
    talk_free(&t);
}

typedef struct Run { uint32_t id[T]; int n; uint32_t answer[T]; int made; double worst; } Run;

static void on_token(void *arg, int s, int id)
{
    Run *r = arg;
    (void)s;
    r->id[r->n++] = r->answer[r->made++] = (uint32_t)id;
}

static void on_end(void *arg, int s, int id) { (void)arg, (void)s, (void)id; }

/* The logits of the next token against those of a fresh forward pass over all that went before. */
static void on_logits(void *arg, int s, int made, real *l)
{
    Run *r = arg;
    int V = m->cfg.V;
    (void)s, (void)made;
    tape_reset(&tape);
    int *idx = tape_mem(&tape, (size_t)r->n * sizeof *idx);
    ops->put(idx, r->id, (size_t)r->n * sizeof *idx);
    real *all = model_logits(m, &tape, model_forward(m, &tape, idx, 1, r->n, NULL), NULL, r->n);
    real *want = xreallocarray(NULL, (size_t)r->n * (size_t)V, sizeof *want);
    ops->get(want, all, (size_t)r->n * (size_t)V * sizeof *want);
    tape_reset(&tape);
    for (int i = 0; i < V; i++) {
        double d = fabs((double)l[i] - (double)want[(size_t)(r->n - 1) * (size_t)V + (size_t)i]);
        if (!(d <= r->worst)) r->worst = isnan(d) ? INFINITY : d;
    }
    free(want);
}

static void long_chat(Chat *chat, int system)
{
    Talk t = { .chat = chat };
    Run r = { .n = 0 };
    Gen *g = gen_new(m);
    unsigned char *stop = xcalloc((size_t)m->cfg.V, 1);
    int tokens = 0, broken = 0, left_out = 0, turns = 0;
    chat_stops(chat, stop);
    if (system) talk_system(&t, "Be kind", 7);
    for (; tokens < 10 * T; turns++) {
        char text[40];
        int len = snprintf(text, sizeof text, "%.*s%d", turns % 13, "abcdefghijklmn", turns);
        talk_user(&t, text, (size_t)len);
        left_out += (int)talk_prompt(&t, T, 12, 1);
        const uint32_t *id = chatids(&t.ids);
        size_t n = t.ids.ids.n, bos = 0;
        for (size_t i = 0; i < n; i++) bos += id[i] == (uint32_t)tok_special(tok, SP_BOS);
        broken += n + 12 > T || bos != 1 || id[0] != (uint32_t)tok_special(tok, SP_BOS);
        if (system) broken += memcmp(id + 2, (const uint32_t[]){ 'B', 'e', ' ' }, 12) != 0;
        memcpy(r.id, id, n * sizeof *id);
        r.n = (int)n, r.made = 0;
        GenJob j = { .model = "toy", .prompt = (const int *)id, .n = r.n, .samples = 1, .batch = 1,
                     .max_tokens = 12, .pick = { .temperature = 1 }, .seed = (uint64_t)turns,
                     .keep = 1, .stop = stop, .token = on_token, .end = on_end,
                     .logits = on_logits, .arg = &r };
        gen_run(g, &j);
        talk_answer(&t, r.answer, (size_t)r.made);
        tokens += r.n;
    }
    ok(!broken && left_out > 0, "%d turns, %d of them left out: one bos, room for an answer%s",
       turns, left_out, system ? ", the system message" : "");
    ok(r.worst <= tol, "logits as of a fresh run on the turns that are left: %.1e", r.worst);
    free(stop);
    gen_free(g);
    talk_free(&t);
}

int main(void)
{
    tok = tok_from_merges(NULL, 0);
    TokEnc *e = tokenc_new(tok);
    Chat *chat = chat_new(tok, "bytes", e, CHAT_NANOCHAT, -1);
    Config c = { .family = &nanochat_family, .T = T, .V = tok_vocab(tok), .Vp = 320, .L = 2, .H = 2,
                 .K = 1, .C = 32, .window = "SL" };
    ops = ops_cpu(1);
    m = model_new(ops, &c, 0);
    tape_init(&tape, ops);
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        Rng rng;
        rng_init(&rng, 1, (uint64_t)i);
        real *w = xreallocarray(NULL, (size_t)p->n, sizeof *w);
        for (int64_t k = 0; k < p->n; k++) w[k] = (real)(0.3 * rng_normal(&rng));
        model_set(m, p, w);
        free(w);
    }
    loaded(chat);
    kept();
    many(chat);
    long_chat(chat, 0);
    long_chat(chat, 1);
    tape_free(&tape);
    model_free(m);
    chat_free(chat);
    tokenc_free(e);
    tok_free(tok);
    arena_free(&arena);
    return done();
}
