/* gpt-sample -- continue prompts with a model. */
#include "converse.h"
#include "text/talk.h"
#include "writer.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *model_dir, *adapter, *file, *output = "-", *device = "auto", *dtype = "auto";
static StrList texts, stops, stop_texts;
static Settings set = {
    .max_tokens = 256, .samples = 1, .top_k = 50, .temperature = 1.0, .seed = 42, .top_p = 1,
    .penalty = 1
};
static int beam, score;
static double length_penalty;
static int batch = 16, threads, json, jsonl, want_ids, want_logprobs, no_bos, echo, ema;
static const char *system_text, *template, *tool;
static int chat, chat_jsonl, no_tools, strict;

static const Opt opts[] = {
    OPT_HEAD("Prompts (without -p and -f: standard input, one prompt per line)"),
    OPT_STR('m', "model", &model_dir, "DIR", "the model directory"),
    OPT_FLAG(0, "ema", &ema, "the running mean of its weights that gpt-train --ema kept"),
    OPT_STR(0, "adapter", &adapter, "DIR", "with the LoRA adapter in DIR"),
    OPT_LIST('p', "prompt", &texts, "TEXT", "continue TEXT; may be repeated"),
    OPT_STR('f', "file", &file, "FILE", "the whole of FILE is one prompt"),
    OPT_FLAG(0, "jsonl-in", &jsonl, "read objects with \"prompt\", one per line; implies --json"),
    OPT_FLAG(0, "no-bos", &no_bos, "do not put <|bos|> before the prompt"),
    OPT_HEAD("Conversations"),
    OPT_FLAG(0, "chat", &chat, "talk: a message per line, /help lists the commands"),
    OPT_FLAG(0, "chat-jsonl", &chat_jsonl,
             "read objects with \"messages\", one per line; write the assistant's next message"),
    OPT_STR(0, "system", &system_text, "TEXT", "the system message, where there is none"),
    OPT_CHOICE(0, "template", &template, CHAT_NAMES,
               "how turns are marked; if not given, as the tokenizer's tokens tell"),
    OPT_FLAG(0, "no-tools", &no_tools, "the model's calls are not answered"),
    OPT_STR(0, "tool", &tool, "CMD",
            "answer them with this command, a line in and a line out, not the calculator"),
    OPT_FLAG(0, "strict-context", &strict, "refuse where old turns would be left out"),
    OPT_HEAD("Sampling"),
    OPT_INT('n', "max-tokens", &set.max_tokens, "N", 0, SETTING_MAX,
            "at most N new tokens; the end of the context may come first"),
    OPT_INT(0, "samples", &set.samples, "N", 1, SETTING_MAX, "N samples of each prompt"),
    OPT_FLOAT(0, "temperature", &set.temperature, "X", 0, DBL_MAX, "0: always the likeliest token"),
    OPT_INT(0, "top-k", &set.top_k, "K", 0, SETTING_MAX,
            "draw among the K likeliest; 0: among all"),
    OPT_FLOAT(0, "top-p", &set.top_p, "P", 0, 1,
              "draw among the likeliest whose probabilities reach P; 1: among all"),
    OPT_FLOAT(0, "min-p", &set.min_p, "P", 0, 1,
              "draw no token less likely than P times the likeliest"),
    OPT_FLOAT(0, "repetition-penalty", &set.penalty, "R", PENALTY_MIN, PENALTY_MAX,
              "make tokens that were there already less likely; 1: do not"),
    OPT_LONG('s', "seed", &set.seed, "N", 0, 0x1p53, "same seed, same samples"),
    OPT_INT(0, "beam", &beam, "N", 1, 1024,
            "beam search with N beams in place of drawing; --samples: that many of the best"),
    OPT_FLOAT(0, "length-penalty", &length_penalty, "A", -10, 10,
              "with --beam: sums of log-probabilities are divided by length^A"),
    OPT_FLAG(0, "score", &score, "generate nothing: print the prompts' own log-probabilities"),
    OPT_LIST(0, "stop-token", &stops, "TOKEN",
             "also end at TOKEN, a special token or text that is one token"),
    OPT_LIST(0, "stop", &stop_texts, "TEXT",
             "also end before TEXT, which is not printed; may be repeated"),
    OPT_INT(0, "batch", &batch, "N", 1, 65536,
            "decode at most N samples at once (memory, not results)"),
    OPT_HEAD("Output"),
    OPT_STR('o', "output", &output, "FILE", "write to FILE; - is stdout"),
    OPT_FLAG(0, "echo", &echo, "print the prompt before each sample"),
    OPT_FLAG(0, "json", &json, "one JSON object per sample"),
    OPT_FLAG(0, "ids", &want_ids, "with the token ids; implies --json"),
    OPT_FLAG(0, "logprobs", &want_logprobs, "with the tokens' log-probabilities; implies --json"),
    OPT_HEAD("Machine"),
    OPT_STR('d', "device", &device, "DEVICE", "auto, cpu, cuda or cuda:N"),
    OPT_CHOICE(0, "dtype", &dtype, "auto|fp32|bf16", "number type of activations"),
    OPT_INT('j', "threads", &threads, "N", 0, 4096, "0: all there are"),
    OPT_END
};

static void check_chat(void)
{
    if (chat && chat_jsonl) die_usage("--chat and --chat-jsonl cannot be combined");
    bool some = system_text || opt_given("template") || no_tools || tool || strict;
    if (some && !chat && !chat_jsonl)
        die_usage("--system, --template, --no-tools, --tool and --strict-context go with --chat or "
                  "--chat-jsonl");
    if (no_tools && tool) die_usage("--tool and --no-tools cannot be combined");
    if ((chat || chat_jsonl) && (texts.n || jsonl || no_bos || echo))
        die_usage("-p, --jsonl-in, --no-bos and --echo are not for conversations");
    if ((chat || chat_jsonl) && stop_texts.n)
        die_usage("--stop is not for conversations, where --stop-token is");
    if (chat && (file || json || want_ids || want_logprobs || set.samples != 1))
        die_usage("-f, --json, --ids, --logprobs and --samples are not for --chat");
}

static void check_search(void)
{
    static const char *const draws[] = { "temperature", "top-k", "top-p", "min-p", "seed" };
    bool talks = chat || chat_jsonl;
    if (opt_given("length-penalty") && !beam) die_usage("--length-penalty goes with --beam");
    if (beam && score) die_usage("--beam and --score cannot be combined");
    if (talks && (beam || score)) die_usage("--beam and --score are not for conversations");
    for (size_t i = 0; beam && i < sizeof draws / sizeof *draws; i++)
        if (opt_given(draws[i])) die_usage("--beam draws nothing: --%s has no meaning", draws[i]);
    if (score && (echo || stop_texts.n || set.samples != 1))
        die_usage("--score generates nothing: --echo, --stop and --samples have no meaning");
}

static void check_model(int operands, char **argv)
{
    if (operands > 0)
        die_usage("unexpected operand '%s': a prompt is given with -p, a file with -f", argv[1]);
    if (!model_dir || !*model_dir) die_usage("which model? give -m DIR");
}

static Prompts *open_prompts(void)
{
    if (texts.n && file) die_usage("-p and -f cannot be combined");
    if (texts.n && jsonl) die_usage("-p and --jsonl-in cannot be combined");
    json = json || jsonl || want_ids || want_logprobs || chat_jsonl;
    if (echo && json) die_usage("--echo is for text: JSON has the prompt");
    if (texts.n) return prompts_texts(&texts);
    if (file && !jsonl && !chat_jsonl) return prompts_file(file);
    if (!file && isatty(0)) note(1, "type prompts, one per line; Ctrl-D ends");
    return prompts_lines(file ? file : "-",
                         chat_jsonl ? LINES_CHAT : jsonl ? LINES_JSON : LINES_TEXT);
}

/* The ids of a prompt, in ids. */
static void encode(Session *s, const Prompt *p, Ids *ids)
{
    int T = s->m->cfg.T;
    bool bos = !no_bos && s->bos >= 0;
    ids->n = 0;
    if (bos) ids_add(ids, (uint32_t)s->bos);
    uint64_t bad = tok_encode(s->enc, p->text, p->n, ids);
    if (bad)
        warn("%s: not valid UTF-8: %llu replacement characters put in", p->where,
             (unsigned long long)bad);
    if (ids->n == 0)
        die("%s: an empty prompt%s", p->where, s->bos >= 0 ? " needs <|bos|>: omit --no-bos" :
            ", and this model's texts begin with nothing else");
    if (ids->n > (size_t)T + (score != 0))      /* nothing follows the last one of a score's */
        die("%s: the prompt is %zu tokens%s, but the context of %s is %d: shorten the prompt",
            p->where, ids->n, bos ? " with <|bos|>" : "", model_dir, T);
}

/* The same of a conversation, in talk->ids; old turns are left out if need be. */
static void render(Session *s, Talk *talk, Prompt *p)
{
    int T = s->m->cfg.T, quarter = T / 4 > 0 ? T / 4 : 1;
    char *bad = talk_load(talk, p->messages);
    if (bad) die("%s: %s", p->where, bad);
    if (talk->n == 0 || talk->turn[talk->n - 1].answered)
        die("%s: the last message must be a user's", p->where);
    if (system_text && !talk->has_system) talk_system(talk, system_text, strlen(system_text));
    p->dropped = talk_prompt(talk, T, p->set.max_tokens < quarter ? p->set.max_tokens : quarter,
                             !strict);
    size_t n = talk->ids.ids.n;
    if (n > (size_t)T)
        die("%s: the %s %zu tokens, but the context of %s is %d", p->where,
            strict ? "conversation is" : "last message alone makes", n, model_dir, T);
    if (p->dropped)
        note(1, "%s: the context is full: the oldest %zu turn%s left out", p->where, p->dropped,
             p->dropped == 1 ? " is" : "s are");
}

/* Print what the model says of the prompt's tokens, but for the first, which nothing is before. */
static void print_score(Session *s, Writer *w, const Prompt *p, const Ids *ids)
{
    int n = (int)ids->n;
    real *lp = xreallocarray(NULL, (size_t)n, sizeof *lp);
    if (n > 1) gen_score(s->gen, (const int *)ids->id, n, lp);
    writer_prompt(w, p, n, 1);
    writer_score(w, ids, lp);
    free(lp);
}

static void sample(Session *s, Writer *w, Talk *talk, Ids *ids, Prompt *p)
{
    const uint32_t *id;
    size_t n;
    if (p->messages) render(s, talk, p), id = chatids(&talk->ids), n = talk->ids.ids.n;
    else encode(s, p, ids), id = ids->id, n = ids->n;
    if (score) {
        print_score(s, w, p, ids);
        return;
    }
    if (beam && p->set.samples > beam)
        die("%s: %d samples of %d beams: give --beam %d", p->where, p->set.samples, beam,
            p->set.samples);
    GenJob job = session_job(s, id, n, &p->set);
    job.token = writer_token, job.end = writer_end, job.arg = w;
    if (stop_texts.n) job.enough = writer_enough;
    if (want_logprobs) job.logprob = writer_logprob;
    writer_prompt(w, p, (int)n, p->set.samples < batch ? p->set.samples : batch);
    if (beam) gen_beam(s->gen, &job, beam, length_penalty);
    else gen_run(s->gen, &job);
}

static double per_second(int64_t n, double t) { return t > 0 ? (double)n / t : 0; }

static void sample_all(Session *s, Prompts *prompts)
{
    Out *out = out_open(output, 0);
    Writer *w = writer_new(out, s->tok, s->chat,
                           (json ? W_JSON : 0) | (want_ids ? W_IDS : 0) | (echo ? W_ECHO : 0) |
                           (want_logprobs ? W_LOGPROBS : 0),
                           strcmp(output, "-") == 0 && isatty(1));
    writer_stops(w, &stop_texts);
    Talk talk = { .chat = s->chat };
    Ids ids = {0};
    Prompt p;
    uint64_t count = 0;
    for (; prompt_next(prompts, &set, &p); count++) sample(s, w, &talk, &ids, &p);
    if (count == 0) die("%s: no prompts", prompts_name(prompts));
    out_close(out);
    const Gen *g = s->gen;
    note(2, "%llu prompts; %lld prompt tokens, %.1f/s; %lld new tokens, %.1f/s",
         (unsigned long long)count, (long long)g->prompt_tokens,
         per_second(g->prompt_tokens, g->prompt_seconds),
         (long long)g->new_tokens, per_second(g->new_tokens, g->new_seconds));
    writer_free(w);
    talk_free(&talk);
    ids_free(&ids);
    prompts_free(prompts);
}

int main(int argc, char **argv)
{
    ops_begin(argv);
    int n = opt_parse(argc, argv, "-m DIR [options]", "Continue prompts with a model, or chat.",
                      opts);
    check_model(n, argv);
    check_chat();
    check_search();
    for (int i = 0; i < stop_texts.n; i++)
        if (!*stop_texts.s[i]) die_usage("--stop '': an empty text is everywhere");
    Prompts *prompts = chat ? NULL : open_prompts();
    Session s = { .batch = batch };
    ops_advice = "fewer samples at a time (--batch) take less";
    session_open(&s, model_dir, ema ? CKPT_EMA : 0, adapter, ops_open(device, dtype, threads));
    if (chat || chat_jsonl) session_chat(&s, template, tool, no_tools);
    for (int i = 0; i < stops.n; i++) session_stop(&s, stops.s[i]);
    Converse c = { .set = set, .system = system_text, .output = output, .strict = strict };
    if (chat) converse(&s, &c);
    else sample_all(&s, prompts);
    session_close(&s);
    return 0;
}
