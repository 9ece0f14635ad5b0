/* gpt-eval -- measures a model: JSON lines, one per task. */
#include "gpt/ckpt.h"
#include "gpt/ends.h"
#include "eval.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

static const char *model_dir, *adapter, *output = "-", *device = "auto", *dtype = "auto";
static int threads, ema;
EvalOptions opt = { .samples = 1, .max_tokens = 512, .top_k = 50, .seed = 42, .temperature = -1 };

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_STR('m', "model", &model_dir, "DIR", "the model directory"),
    OPT_FLAG(0, "ema", &ema, "the running mean of its weights that gpt-train --ema kept"),
    OPT_STR(0, "adapter", &adapter, "DIR", "with the LoRA adapter in DIR"),
    OPT_STR('o', "output", &output, "FILE", "write to FILE; - is stdout"),
    OPT_LONG(0, "limit", &opt.limit, "N", 0, 1e15,
             "only the first N rows or items of a task; 0: all (of a task made here: 256)"),
    OPT_INT('B', "batch", &opt.batch, "ROWS", 0, 1 << 24,
            "rows, choices or samples at a time; 0: about 8192 tokens, 16 samples. Memory, not "
            "results"),
    OPT_FLAG(0, "doc-mask", &opt.doc_mask,
             "task bpb: documents in a row do not see each other, as with gpt-train --doc-mask"),
    OPT_HEAD("Task chat"),
    OPT_INT(0, "samples", &opt.samples, "N", 1, 1 << 20,
            "answers sampled for each item that is answered in words"),
    OPT_FLOAT(0, "temperature", &opt.temperature, "X", 0, DBL_MAX,
              "0: the likeliest answer; without it 0 for one sample, 1 for several"),
    OPT_INT(0, "top-k", &opt.top_k, "K", 0, 1 << 30, "draw among the K likeliest; 0: among all"),
    OPT_INT('n', "max-tokens", &opt.max_tokens, "N", 1, 1 << 30, "at most N tokens in an answer"),
    OPT_LONG('s', "seed", &opt.seed, "N", 0, 0x1p53, "same seed, same items and answers"),
    OPT_FLAG(0, "no-tools", &opt.no_tools, "calls of the calculator are not answered"),
    OPT_STR(0, "items", &opt.items, "FILE", "write one JSON object for each item to FILE"),
    OPT_STR(0, "runner", &opt.runner, "FILE", "program that runs the programs of humaneval"),
    OPT_FLAG(0, "unsafe", &opt.unsafe, "run them even where no sandbox can be made"),
    OPT_HEAD("Machine"),
    OPT_INT('j', "threads", &threads, "N", 0, 4096, "threads; 0: all there are"),
    OPT_STR('d', "device", &device, "NAME", "auto, cpu, cuda or cuda:N"),
    OPT_CHOICE(0, "dtype", &dtype, "auto|fp32|bf16", "number type of activations"),
    OPT_END
};

static Subject open_subject(void)
{
    Subject s = { .dir = model_dir };
    ops_advice = "fewer rows at a time (--batch) take less";
    s.m = ckpt_model(model_dir, ops_open(device, dtype, threads),
                     ema ? CKPT_EMA : 0);
    if (adapter) s.lora = ckpt_lora_for(adapter, s.m, model_dir);
    s.tok = ckpt_tok(model_dir);
    ends_check(model_dir, s.tok, &s.m->cfg);
    s.stop = xcalloc((size_t)s.m->cfg.V, 1);
    ends_stops(model_dir, s.tok, s.m->cfg.V, s.stop);
    s.enc = tokenc_new(s.tok);
    tape_init(&s.tape, s.m->ops);
    return s;
}

static void close_subject(Subject *s)
{
    tape_free(&s->tape);
    tokenc_free(s->enc);
    lora_free(s->lora);
    model_free(s->m);
    tok_free(s->tok);
    free(s->stop);
}

typedef struct Command {
    const char *name, *operands;
    void (*run)(Subject *s, const StrList *operands, Out *out);
} Command;
static const Command commands[] = {
    { "bpb", "ROWS ...", bpb_task },
    { "chat", "TASK ...", chat_task },
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };

static const Command *find_command(const char *name)
{
    for (int i = 0; i < NCOMMANDS; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    Buf known = {0};
    for (int i = 0; i < NCOMMANDS; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", commands[i].name);
    die_usage("unknown task '%s'; known: %s", name, known.s);
}

int main(int argc, char **argv)
{
    ops_begin(argv);
    int n = opt_parse(
        argc, argv, "-m DIR [options] bpb ROWS ...\n-m DIR [options] chat TASK ...",
        "Measure a model. bpb: bits per byte on row shards (files, patterns, directories).\n"
        "chat: answers to questions; TASK is arithmetic, counting, spelling (made here), or a\n"
        "file of rows, or NAME=FILE with NAME gsm8k, mmlu, arc-easy, arc-challenge, humaneval.",
        opts);
    if (n < 1) die_usage("which task? bpb ROWS ..., or chat TASK ...");
    const Command *c = find_command(argv[1]);
    StrList operands = { (const char **)argv + 2, n - 1 };
    if (!model_dir || !*model_dir) die_usage("which model? give -m DIR");
    if (operands.n < 1) die_usage("%s: what on? give %s", c->name, c->operands);
    Subject s = open_subject();
    Out *out = out_open(output, 0);
    c->run(&s, &operands, out);
    out_close(out);
    close_subject(&s);
    return 0;
}
