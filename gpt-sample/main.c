/* gpt-sample -- continue prompts with a model. */
#include "gpt/ckpt.h"
#include "gpt/decode.h"
#include "base/map.h"
#include "writer.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *model_dir, *file, *output = "-", *device = "auto", *dtype = "auto";
static StrList texts, stops;
static Settings set = {
    .max_tokens = 256, .samples = 1, .top_k = 50, .temperature = 1.0, .seed = 42
};
static int batch = 16, threads, json, jsonl, want_ids, no_bos, echo, ema;

static const Opt opts[] = {
    OPT_HEAD("Prompts (without -p and -f: standard input, one prompt per line)"),
    OPT_STR('m', "model", &model_dir, "DIR", "the model directory"),
    OPT_FLAG(0, "ema", &ema, "the running mean of its weights that gpt-train --ema kept"),
    OPT_LIST('p', "prompt", &texts, "TEXT", "continue TEXT; may be repeated"),
    OPT_STR('f', "file", &file, "FILE", "the whole of FILE is one prompt"),
    OPT_FLAG(0, "jsonl-in", &jsonl, "read objects with \"prompt\", one per line; implies --json"),
    OPT_FLAG(0, "no-bos", &no_bos, "do not put <|bos|> before the prompt"),
    OPT_HEAD("Sampling"),
    OPT_INT('n', "max-tokens", &set.max_tokens, "N", 0, SETTING_MAX,
            "at most N new tokens; the end of the context may come first"),
    OPT_INT(0, "samples", &set.samples, "N", 1, SETTING_MAX, "N samples of each prompt"),
    OPT_FLOAT(0, "temperature", &set.temperature, "X", 0, DBL_MAX, "0: always the likeliest token"),
    OPT_INT(0, "top-k", &set.top_k, "K", 0, SETTING_MAX,
            "draw among the K likeliest; 0: among all"),
    OPT_LONG('s', "seed", &set.seed, "N", 0, 0x1p53, "same seed, same samples"),
    OPT_LIST(0, "stop-token", &stops, "TOKEN",
             "also end at TOKEN, a special token or text that is one token"),
    OPT_INT(0, "batch", &batch, "N", 1, 65536,
            "decode at most N samples at once (memory, not results)"),
    OPT_HEAD("Output"),
    OPT_STR('o', "output", &output, "FILE", "write to FILE; - is stdout"),
    OPT_FLAG(0, "echo", &echo, "print the prompt before each sample"),
    OPT_FLAG(0, "json", &json, "one JSON object per sample"),
    OPT_FLAG(0, "ids", &want_ids, "with the token ids; implies --json"),
    OPT_HEAD("Machine"),
    OPT_STR('d', "device", &device, "DEVICE", "auto, cpu, cuda or cuda:N"),
    OPT_CHOICE(0, "dtype", &dtype, "auto|fp32", "number type of activations"),
    OPT_INT('j', "threads", &threads, "N", 0, 4096, "0: all there are"),
    OPT_END
};

typedef struct Session {
    Model *m;
    Tok *tok;
    TokEnc *enc;
    Gen *gen;
    Writer *w;
    unsigned char *stop;            /* [V] */
    Ids ids;
    Map seen;                       /* hash of a prompt's ids -> how often it came */
} Session;

static Prompts *open_prompts(int operands, char **argv)
{
    if (operands > 0)
        die_usage("unexpected operand '%s': a prompt is given with -p, a file with -f", argv[1]);
    if (!model_dir || !*model_dir) die_usage("which model? give -m DIR");
    if (texts.n && file) die_usage("-p and -f cannot be combined");
    if (texts.n && jsonl) die_usage("-p and --jsonl-in cannot be combined");
    json = json || jsonl || want_ids;
    if (echo && json) die_usage("--echo is for text: JSON has the prompt");
    if (texts.n) return prompts_texts(&texts);
    if (file && !jsonl) return prompts_file(file);
    if (!file && isatty(0)) note(1, "type prompts, one per line; Ctrl-D ends");
    return prompts_lines(file ? file : "-", jsonl);
}

static void open_model(Session *s)
{
    s->m = ckpt_model(model_dir, ops_open(device, dtype, threads), ema ? CKPT_EMA : 0);
    s->tok = ckpt_tok(model_dir);
    if (tok_vocab(s->tok) != s->m->cfg.V)
        die("%s: the tokenizer has %d tokens, but the model's vocab_size is %d", model_dir,
            tok_vocab(s->tok), s->m->cfg.V);
    s->enc = tokenc_new(s->tok);
    s->gen = gen_new(s->m);
}

static int stop_id(Session *s, const char *name)
{
    for (int i = 0; i < SP_COUNT; i++)
        if (strcmp(name, special_names[i]) == 0 && tok_special(s->tok, i) >= 0)
            return tok_special(s->tok, i);
    s->ids.n = 0;
    tok_encode(s->enc, name, strlen(name), &s->ids);
    if (s->ids.n != 1)
        die_usage("--stop-token '%s': neither a special token nor text of one token (but of %zu)",
                  name, s->ids.n);
    return (int)s->ids.id[0];
}

/* <|user_start|> ends a sample too: a model that goes on to the next turn would talk to itself. */
static void set_stops(Session *s)
{
    static const int ends[] = { SP_BOS, SP_ASSISTANT_END, SP_USER_START };
    s->stop = xcalloc((size_t)s->m->cfg.V, 1);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int id = tok_special(s->tok, ends[i]);
        if (id >= 0) s->stop[id] = 1;
    }
    for (int i = 0; i < stops.n; i++) s->stop[stop_id(s, stops.s[i])] = 1;
}

/* The ids of a prompt, in s->ids. */
static void encode(Session *s, const Prompt *p)
{
    int bos = tok_special(s->tok, SP_BOS), T = s->m->cfg.T;
    s->ids.n = 0;
    if (!no_bos) {
        if (bos < 0) die("%s: the tokenizer has no <|bos|>: give --no-bos", model_dir);
        ids_add(&s->ids, (uint32_t)bos);
    }
    uint64_t bad = tok_encode(s->enc, p->text, p->n, &s->ids);
    if (bad)
        warn("%s: not valid UTF-8: %llu replacement characters put in", p->where,
             (unsigned long long)bad);
    if (s->ids.n == 0) die("%s: an empty prompt needs <|bos|>: omit --no-bos", p->where);
    if (s->ids.n > (size_t)T)
        die("%s: the prompt is %zu tokens%s, but the context of %s is %d: shorten the prompt",
            p->where, s->ids.n, no_bos ? "" : " with <|bos|>", model_dir, T);
}

/* What names a prompt's random numbers: its ids, and how many equal prompts came before. So a
 * prompt's samples do not depend on which others stand beside it, and equal prompts differ. A line
 * with a seed of its own depends on that alone. */
static uint64_t stream_of(Session *s, const Prompt *p)
{
    uint64_t key[2] = { xxh3(s->ids.id, s->ids.n * sizeof *s->ids.id), 0 };
    if (!p->set.own_seed) key[1] = (uint64_t)(*map_put(&s->seen, key, sizeof *key))++;
    return xxh3(key, sizeof key);
}

static void sample(Session *s, const Prompt *p)
{
    encode(s, p);
    int n = (int)s->ids.n;
    int *prompt = xreallocarray(NULL, (size_t)n, sizeof *prompt);
    for (int i = 0; i < n; i++) prompt[i] = (int)s->ids.id[i];
    GenJob job = {
        .model = model_dir, .prompt = prompt, .n = n, .samples = p->set.samples,
        .max_tokens = p->set.max_tokens, .batch = batch,
        .pick = { .temperature = p->set.temperature, .top_k = p->set.top_k },
        .seed = (uint64_t)p->set.seed, .stream = stream_of(s, p), .stop = s->stop,
        .token = writer_token, .end = writer_end, .arg = s->w,
    };
    writer_prompt(s->w, p, n, p->set.samples < batch ? p->set.samples : batch);
    gen_run(s->gen, &job);
    free(prompt);
}

static void close_session(Session *s)
{
    writer_free(s->w);
    gen_free(s->gen);
    tokenc_free(s->enc);
    tok_free(s->tok);
    model_free(s->m);
    ids_free(&s->ids);
    map_free(&s->seen);
    free(s->stop);
}

static double per_second(int64_t n, double t) { return t > 0 ? (double)n / t : 0; }

int main(int argc, char **argv)
{
    int n = opt_parse(argc, argv, "-m DIR [options]", "Continue prompts with a model.", opts);
    Prompts *prompts = open_prompts(n, argv);
    Session s = { 0 };
    open_model(&s);
    set_stops(&s);
    Out *out = out_open(output, 0);
    s.w = writer_new(out, s.tok, (json ? W_JSON : 0) | (want_ids ? W_IDS : 0) | (echo ? W_ECHO : 0),
                     strcmp(output, "-") == 0 && isatty(1));
    Prompt p;
    uint64_t count = 0;
    for (; prompt_next(prompts, &set, &p); count++) sample(&s, &p);
    if (count == 0) die("%s: no prompts", prompts_name(prompts));
    out_close(out);
    const Gen *g = s.gen;
    note(2, "%llu prompts; %lld prompt tokens, %.1f/s; %lld new tokens, %.1f/s",
         (unsigned long long)count, (long long)g->prompt_tokens,
         per_second(g->prompt_tokens, g->prompt_seconds),
         (long long)g->new_tokens, per_second(g->new_tokens, g->new_seconds));
    close_session(&s);
    prompts_free(prompts);
    return 0;
}
