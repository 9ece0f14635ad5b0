/* Items answered in words: answers are sampled, then graded. */
#include "answer.h"
#include "chat.h"
#include "gpt/rl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Answer { Ids ids; bool ended; } Answer;

static void on_token(void *arg, int sample, int id)
{
    ids_add(&((Answer *)arg)[sample].ids, (uint32_t)id);
}

static void on_end(void *arg, int sample, int id) { ((Answer *)arg)[sample].ended = id >= 0; }

static void sample(Trial *t, const Ids *prompt, Answer *a)
{
    Subject *s = t->s;
    int *ids = xreallocarray(NULL, prompt->n, sizeof *ids);
    for (size_t i = 0; i < prompt->n; i++) ids[i] = (int)prompt->id[i];
    uint64_t key[2] = { xxh3(t->name, strlen(t->name)), t->score.items };
    double temperature = opt.temperature >= 0 ? opt.temperature : opt.samples > 1 ? 1 : 0;
    GenJob job = {
        .model = s->dir, .prompt = ids, .n = (int)prompt->n, .samples = opt.samples,
        .batch = opt.batch ? opt.batch : 16, .max_tokens = opt.max_tokens,
        .pick = { .temperature = temperature, .top_k = opt.top_k }, .seed = (uint64_t)opt.seed,
        .stream = xxh3(key, sizeof key), .stop = s->stop, .token = on_token, .end = on_end, .arg = a,
        .tool = t->tool,
    };
    gen_run(t->gen, &job);
    free(ids);
}

/* ---- an answer's parts */

typedef struct Parts {
    Buf text;                   /* of the text parts */
    Buf json;                   /* all parts, as in a conversation's content */
    int calls, results;
    PartKind last;
} Parts;

static void on_part(void *arg, PartKind k, const char *s, size_t n)
{
    Parts *p = arg;
    if (k == PART_TEXT) buf_add(&p->text, s, n);
    p->calls += k == PART_PYTHON;
    p->results += k == PART_OUTPUT && p->last == PART_PYTHON;
    p->last = k;
    buf_printf(&p->json, "%s{\"type\": \"%s\"", p->json.n ? ", " : "", part_names[k]);
    rec_str(&p->json, "text", s, n);
    buf_char(&p->json, '}');
}

static bool right(const Item *it, Str text)
{
    if (it->check != CHECK_PROGRAM) return answer_right(it, text);
    Buf b = {0};
    answer_program(it, text, &b);
    bool passed = runner_run(b.s, b.n);
    buf_free(&b);
    return passed;
}

static int grade(Trial *t, const Item *it, const Answer *a, Buf *record)
{
    Parts p = { .last = PART_TEXT };
    int start = tok_special(t->s->tok, SP_PYTHON_START), begun = 0;
    chat_parts(t->chat, a->ids.id, a->ids.n, on_part, &p);
    for (size_t i = 0; i < a->ids.n; i++) begun += (int)a->ids.id[i] == start;
    int r = right(it, (Str){ p.text.s ? p.text.s : "", p.text.n });
    t->score.answers++;
    t->score.unfinished += !a->ended;
    t->score.called += begun > 0;
    t->score.well_formed += p.results > 0;
    buf_printf(record, "%s{\"right\": %s, \"finish\": \"%s\", \"calls\": %d, \"results\": %d, "
               "\"tokens\": %zu, \"content\": [%s]}", record->s[record->n - 1] == '[' ? "" : ", ",
               r ? "true" : "false", a->ended ? "stop" : "length", begun, p.results, a->ids.n,
               p.json.s ? p.json.s : "");
    buf_free(&p.text);
    buf_free(&p.json);
    return r;
}

void words_item(Trial *t, const Item *it)
{
    int T = t->s->m->cfg.T, answer = opt.max_tokens < T / 2 ? opt.max_tokens : T / 2, n = 0;
    Ids prompt = {0};
    Buf b = {0};
    Answer *a = xcalloc((size_t)opt.samples, sizeof *a);
    trial_prompt(t, it, (size_t)(T - answer), &prompt);
    sample(t, &prompt, a);
    item_begin(&b, t, t->score.items, it);
    rec_str(&b, "want", it->want.s, it->want.n);
    buf_str(&b, ", \"answers\": [");
    for (int i = 0; i < opt.samples; i++) n += grade(t, it, &a[i], &b);
    buf_str(&b, "]}");
    if (t->items) rec_write(t->items, &b);
    t->score.items++;
    t->score.right += (double)n / opt.samples;
    for (int i = 0; i < PASSES && 1 << i <= opt.samples; i++)
        t->score.pass[i] += pass_at(opt.samples, n, 1 << i);
    for (int i = 0; i < opt.samples; i++) ids_free(&a[i].ids);
    free(a);
    buf_free(&b);
    ids_free(&prompt);
}
