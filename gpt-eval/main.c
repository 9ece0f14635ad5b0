/* gpt-eval -- measures a model: one JSON line per task. */
#include "gpt/bpb.h"
#include "gpt/ckpt.h"
#include "base/progress.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char *model_dir, *output = "-", *device = "auto", *dtype = "auto";
static int64_t limit;
static int batch, threads;

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_STR('m', "model", &model_dir, "DIR", "the model directory"),
    OPT_STR('o', "output", &output, "FILE", "write to FILE; - is stdout"),
    OPT_LONG(0, "limit", &limit, "ROWS", 0, 1e15, "only the first ROWS rows; 0: all"),
    OPT_INT('B', "batch", &batch, "ROWS", 0, 1 << 24,
            "rows at a time; 0: about 8192 tokens. Memory, not results"),
    OPT_INT('j', "threads", &threads, "N", 0, 4096, "threads; 0: all there are"),
    OPT_STR('d', "device", &device, "NAME", "auto, cpu, cuda or cuda:N"),
    OPT_CHOICE(0, "dtype", &dtype, "auto|fp32", "number type of activations"),
    OPT_END
};

typedef struct Subject { Model *m; Tok *tok; Tape tape; } Subject;

static Subject open_subject(void)
{
    Subject s;
    s.m = ckpt_model(model_dir, ops_open(device, dtype, threads), 0);
    s.tok = ckpt_tok(model_dir);
    if (tok_vocab(s.tok) != s.m->cfg.V)
        die("%s: the tokenizer has %d tokens, but the model's vocab_size is %d", model_dir,
            tok_vocab(s.tok), s.m->cfg.V);
    tape_init(&s.tape, s.m->ops);
    return s;
}

static void close_subject(Subject *s)
{
    tape_free(&s->tape);
    model_free(s->m);
    tok_free(s->tok);
}

/* A batch at a time, so that progress shows. */
static Bpb bpb_of(Subject *s, const Data *d, uint64_t rows, int B)
{
    BpbEval e;
    Bpb sum = {0};
    Progress p = { .what = "bpb", .unit = "rows", .total = rows };
    bpb_eval_init(&e, s->m->ops, B, (int)d->head.T);
    progress(&p, 0);
    for (uint64_t r = 0; r < rows; ) {
        uint64_t n = rows - r < (uint64_t)B ? rows - r : (uint64_t)B;
        bpb_rows(&e, s->m, &s->tape, d, r, n, tok_byte_lengths(s->tok), &sum);
        r += n;
        progress(&p, r);
    }
    progress_end(&p);
    bpb_eval_free(&e);
    return sum;
}

static void num(Buf *b, const char *key, double x)
{
    buf_printf(b, ", \"%s\": ", key);
    json_num(b, x);
}

static void task_bpb(Subject *s, const StrList *shards, Out *out)
{
    Data *d = data_open(shards);
    data_require(d, tok_hash(s->tok), s->m->cfg.V, 0);
    int T = s->m->cfg.T;
    if (d->head.T > (uint32_t)T)
        die("%s: rows of T %" PRIu32 ", but the model in %s has a context of %d", d->path[0],
            d->head.T, model_dir, T);
    uint64_t rows = limit && (uint64_t)limit < d->head.rows ? (uint64_t)limit : d->head.rows;
    int most = INT_MAX / 4 / (int)d->head.T, B = batch ? batch : 8192 / (int)d->head.T;
    if (B < 1) B = 1;
    if (B > most) die_usage("--batch: %d rows of T %" PRIu32 " are too many", B, d->head.T);
    if ((uint64_t)B > rows) B = (int)rows;
    Bpb r = bpb_of(s, d, rows, B);
    Buf b = {0};
    buf_str(&b, "{\"task\": \"bpb\"");
    num(&b, "bpb", bpb_value(&r));
    num(&b, "loss", bpb_loss(&r));
    buf_printf(
        &b, ", \"tokens\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"rows\": %" PRIu64 ", \"model\": ",
        r.tokens, r.bytes, r.rows);
    json_str(&b, model_dir, strlen(model_dir));
    buf_str(&b, "}\n");
    out_write(out, b.s, b.n);
    buf_free(&b);
    data_free(d);
}

typedef struct Task {
    const char *name, *operands;
    void (*run)(Subject *s, const StrList *operands, Out *out);
} Task;
static const Task tasks[] = { { "bpb", "ROWS ...", task_bpb } };
enum { NTASKS = sizeof tasks / sizeof *tasks };

static const Task *find_task(const char *name)
{
    Buf known = {0};
    for (int i = 0; i < NTASKS; i++) {
        if (!strcmp(tasks[i].name, name)) return &tasks[i];
        buf_printf(&known, "%s%s", i ? ", " : "", tasks[i].name);
    }
    die_usage("unknown task '%s'; known: %s", name, known.s);
}

int main(int argc, char **argv)
{
    int n = opt_parse(
        argc, argv, "-m DIR [options] bpb ROWS ...",
        "Measure a model. Task bpb: bits per byte on row shards (files, patterns, directories).",
        opts);
    if (n < 1) die_usage("which task? bpb ROWS ...");
    const Task *t = find_task(argv[1]);
    StrList operands = { (const char **)argv + 2, n - 1 };
    if (!model_dir || !*model_dir) die_usage("which model? give -m DIR");
    if (operands.n < 1) die_usage("%s: what on? give %s", t->name, t->operands);
    Subject s = open_subject();
    Out *out = out_open(output, 0);
    t->run(&s, &operands, out);
    out_close(out);
    close_subject(&s);
    return 0;
}
