/* Golden case F, tool use: nanochat's generation loop with a scripted model. Ours runs its own loop
 * on a small random model whose logits are replaced by the script. */
#include "golden.h"
#include "gpt/decode.h"
#include "tap.h"
#include <string.h>

enum { MOST = 256, ROWS = 8, SILENT = 32 };     /* past the end of its script the model wants 32 */

typedef struct Run {
    const Json *scripts;
    int V, n[ROWS], id[ROWS][MOST], mask[ROWS][MOST];
} Run;

static const Json *nth(const Json *arr, int i)
{
    const Json *j = arr->child;
    while (j && i-- > 0) j = j->next;
    return j;
}

static int number(const Json *j)
{
    int64_t x;
    if (!json_int(j, &x)) die("not a number");
    return (int)x;
}

/* All rows share the first position. */
static void script(void *arg, int sample, int made, real *l)
{
    Run *r = arg;
    const Json *want = nth(nth(r->scripts, made ? sample : 0), made);
    for (int i = 0; i < r->V; i++) l[i] = 0;
    l[want ? number(want) : SILENT] = 1;
}

static void put(Run *r, int sample, int id, int mask)
{
    int k = r->n[sample]++;
    if (sample >= ROWS || k >= MOST) abort();
    r->id[sample][k] = id;
    r->mask[sample][k] = mask;
}

static void on_token(void *arg, int sample, int id) { put(arg, sample, id, 1); }
static void on_forced(void *arg, int sample, int id) { put(arg, sample, id, 0); }
static void on_end(void *arg, int sample, int id) { (void)arg, (void)sample, (void)id; }

static int same(const Json *want, const int *got, int n)
{
    if (want->n != n) return 0;
    const Json *j = want->child;
    for (int i = 0; i < n; i++, j = j->next)
        if (number(j) != got[i]) return 0;
    return 1;
}

static void check(Gen *g, const Tool *tool, const Json *row)
{
    static Run r;
    const Json *prompt = json_get(row, "prompt"), *scripts = json_get(row, "scripts");
    unsigned char stop[512] = { 0 };
    int ids[MOST], good = 1;
    memset(&r, 0, sizeof r);
    r.V = g->m->cfg.V;
    r.scripts = scripts;
    stop[tok_special(tool->tok, SP_BOS)] = stop[tok_special(tool->tok, SP_ASSISTANT_END)] = 1;
    for (int i = 0; i < prompt->n; i++) ids[i] = number(nth(prompt, i));
    for (int s = 0; s < scripts->n; s++)
        for (int i = 0; i < prompt->n; i++) put(&r, s, ids[i], 0);
    GenJob j = { .model = "scripted", .prompt = ids, .n = prompt->n, .samples = scripts->n,
                 .max_tokens = (int)num(row, "max_tokens"), .batch = 3, .stop = stop, .tool = tool,
                 .token = on_token, .forced = on_forced, .end = on_end, .logits = script,
                 .arg = &r };
    gen_run(g, &j);
    for (int s = 0; s < scripts->n; s++)
        good = good && same(nth(json_get(row, "batch_result"), s), r.id[s], r.n[s]) &&
               same(nth(json_get(row, "batch_mask"), s), r.mask[s], r.n[s]);
    ok(good, "%s", json_get(row, "name")->s);
}

int main(void)
{
    Tok *t = tok_from_merges(NULL, 0);
    TokEnc *e = tokenc_new(t);
    Tool tool;
    if (!tool_init(&tool, t, e)) die("no tokens for tools");
    Config c = { .family = &nanochat_family, .T = 128, .V = tok_vocab(t), .Vp = 320, .L = 1, .H = 1,
                 .K = 1, .C = 32, .window = "L" };
    Model *m = model_new(ops_open("cpu", "fp32", 1), &c, 0);
    model_init(m, 1);
    Gen *g = gen_new(m);
    Arena a = { 0 };
    Buf line = { 0 };
    In *in = in_open("tests/golden/data/f_tool_use.jsonl");
    while (in_line(in, &line)) {
        const char *err;
        size_t at;
        arena_reset(&a);
        const Json *row = json_parse(&a, line.s, line.n, &err, &at);
        if (!row) die("%s", err);
        check(g, &tool, row);
    }
    in_close(in);
    buf_free(&line);
    arena_free(&a);
    gen_free(g);
    model_free(m);
    tokenc_free(e);
    tok_free(t);
    return done();
}
