/* tok-encode -- documents to a token stream, and back. */
#include "base/err.h"
#include "base/cpu.h"
#include "base/io.h"
#include "base/opt.h"
#include "decode.h"
#include "encode.h"
#include "show.h"
#include "stats.h"
#include "text/convert.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static StrList tok_files;
static const char *tok_file, *output = "-", *pattern;
static const char *invalid = "replace", *bos, *eos;
static int decode, as_text, raw, no_bos, show, stats, convert;
static const char *template = "nanochat";
static int threads, text, allow_special, deny_special, shards, chat, completion;
static int64_t max_tokens, shard_size;
enum { CHAT_TOKENS = 2048 };            /* of a conversation, unless --max-tokens says otherwise */

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_LIST('t', "tokenizer", &tok_files, "FILE", "the tokenizer (needed; two with --stats)"),
    OPT_STR('o', "output", &output, "FILE", "write to FILE; - is stdout"),
    OPT_FLAG(0, "ids", &as_text, "text instead of a token stream: a document's ids on a line"),
    OPT_INT('j', "threads", &threads, "N", 0, 1024, "threads; 0: one for each processor"),
    OPT_FLAG(0, "text", &text, "plain text in: each file is one document"),
    OPT_CHOICE(0, "invalid", &invalid, "replace|error",
               "bytes that are not UTF-8: U+FFFD in their place, or end"),
    OPT_STR(0, "bos", &bos, "NAME", "begin each document with this special token, not <|bos|>"),
    OPT_FLAG(0, "no-bos", &no_bos, "do not begin each document with <|bos|>"),
    OPT_STR(0, "eos", &eos, "NAME", "end each document with this special token"),
    OPT_FLAG(0, "allow-special", &allow_special,
             "a special token's name in text is that token, not ordinary text"),
    OPT_FLAG(0, "deny-special", &deny_special, "a special token's name in text is an error"),
    OPT_LONG(0, "max-tokens", &max_tokens, "N", 0, 1e15,
             "cut each document to N tokens, <|bos|> among them; 0: whole (--chat: 2048)"),
    OPT_LONG(0, "shard-size", &shard_size, "N", 0, 1e15,
             "begin another file after N tokens: FILE is numbered; 0: one file"),
    OPT_INT(0, "shards", &shards, "N", 0, 4096, "N files that take documents in turn; 0: one file"),
    OPT_FLAG(0, "decode", &decode, "tokens in, documents out"),
    OPT_FLAG(0, "raw", &raw, "decode to the bare bytes, with nothing between documents"),
    OPT_HEAD("Conversations"),
    OPT_FLAG(0, "chat", &chat, "\"messages\" in; the token stream has loss masks"),
    OPT_FLAG(0, "completion", &completion, "leave out the last answer, all but its header"),
    OPT_CHOICE(0, "template", &template, CHAT_NAMES, "how turns are marked"),
    OPT_HEAD("Looking at tokenizers"),
    OPT_FLAG(0, "show", &show, "show the tokens of documents, with --decode of token streams"),
    OPT_FLAG(0, "stats", &stats, "count tokens; with a second -t, compare the two"),
    OPT_FLAG(0, "convert", &convert, "convert tokenizer IN to OUT: .tok, .tiktoken or .json"),
    OPT_STR(0, "pattern", &pattern, "NAME",
            "what .tiktoken files lack: nanochat, gpt2, llama3, cl100k or qwen2"),
    OPT_END
};

static Tok *tok;

/* The id of a special token; -1: no name given. */
static int special_id(const char *name)
{
    if (!name)
        return -1;
    int id = tok_named(tok, name);
    if (id >= 0) return id;
    die("%s: has no special token %s", tok_file, name);
}

/* Bytes in a batch; smaller ones are for tests. */
static size_t block_size(void)
{
    const char *s = getenv("PIPEGPT_BLOCK");
    long n = s ? atol(s) : 0;
    return n > 0 && n <= 1 << 26 ? (size_t)n : 1 << 20;
}

/* What begins a document or conversation; -1: nothing. */
static int first_id(void)
{
    int id = no_bos ? -1 : bos ? special_id(bos) : tok_special(tok, SP_BOS);
    if (chat) {
        Chat *c = chat_new(tok, tok_file, NULL, chat_kind(template), bos ? id : -1);
        id = chat_bos(c);
        chat_free(c);
    } else if (id < 0 && !no_bos) {
        die("%s: has no <|bos|>; use --bos NAME or --no-bos", tok_file);
    }
    return id;
}

static int policy(void)                         /* for bytes that are not UTF-8 */
{
    return strcmp(invalid, "error") ? DOCS_REPLACE : DOCS_STRICT;
}

static int64_t longest(void)                    /* document, in tokens; 0: any */
{
    return chat && !opt_given("max-tokens") ? CHAT_TOKENS : max_tokens;
}

static void encode_all(int n, char **argv)
{
    Encode e = { .tok = tok, .tok_file = tok_file, .output = output, .ids = as_text, .text = text,
                 .threads = threads ? threads : cpu_count(), .max_tokens = longest(),
                 .invalid = policy(),
                 .special = allow_special ? SPECIAL_ALLOW : deny_special ? SPECIAL_DENY
                                                                         : SPECIAL_ORDINARY,
                 .shards = shards, .shard_size = shard_size, .block = block_size(),
                 .chats = chat, .completion = completion, .template = chat_kind(template) };
    e.eos = special_id(eos);
    e.bos = first_id();
    encode_run(&e, argv + 1, n);
    if (e.cut && !chat)
        note(1, "%" PRIu64 " tokens past --max-tokens were dropped", e.cut);
    if (e.cut && chat)
        note(1, "%" PRIu64 " tokens past %" PRId64 " (--max-tokens) were dropped, %" PRIu64
             " of them with loss mask 1", e.cut, e.max_tokens, e.counting_cut);
    if (chat) {
        note(1, "%" PRIu64 " conversations, %" PRIu64 " tokens, %" PRIu64 " with loss mask 1, %"
             PRIu64 " invalid sequences replaced", e.documents, e.tokens, e.counting, e.replaced);
        return;
    }
    note(1, "%" PRIu64 " documents, %" PRIu64 " bytes, %" PRIu64 " tokens, %.3f bytes a token, %"
         PRIu64 " invalid sequences replaced", e.documents, e.bytes, e.tokens,
         e.tokens ? (double)e.bytes / (double)(e.tokens + e.cut) : 0, e.replaced);
}

/* ---- what is to be done, and the options that go with it ------------------------------ */

enum { ENCODE = 1, CHAT = 2, DECODE = 4, SHOW = 8, SHOW_CHAT = 16, SHOW_STREAM = 32, STATS = 64,
       CONVERT = 128, SHOWS = SHOW | SHOW_CHAT | SHOW_STREAM, CHATS = CHAT | SHOW_CHAT };

/* Options that do not act in all of them. */
static const struct { const char *name; int with; } acts[] = {
    { "chat", CHATS }, { "decode", DECODE | SHOW_STREAM }, { "show", SHOWS },
    { "tokenizer", ~CONVERT }, { "output", ~CONVERT }, { "ids", ENCODE | CHAT | DECODE | SHOWS },
    { "text", ENCODE | STATS }, { "invalid", ENCODE | CHATS | SHOW | STATS },
    { "bos", ENCODE | CHAT }, { "no-bos", ENCODE | SHOW }, { "eos", ENCODE },
    { "allow-special", ENCODE }, { "deny-special", ENCODE },
    { "max-tokens", ENCODE | CHATS | SHOW }, { "shards", ENCODE | CHAT },
    { "shard-size", ENCODE | CHAT }, { "raw", DECODE }, { "completion", CHATS },
    { "template", CHATS }, { "pattern", CONVERT } };

static int what_to_do(void)
{
    if (show + stats + convert > 1)
        die_usage("only one of --show, --stats and --convert");
    if (chat && decode)
        die_usage("only one of --chat and --decode");
    if (convert || stats) return convert ? CONVERT : STATS;
    if (show) return chat ? SHOW_CHAT : decode ? SHOW_STREAM : SHOW;
    return chat ? CHAT : decode ? DECODE : ENCODE;
}

/* How what is to be done was asked for: "--chat --show". */
static const char *asked(int work)
{
    switch (work) {
    case CHAT: return "--chat";
    case DECODE: return "--decode";
    case SHOW: return "--show";
    case SHOW_CHAT: return "--chat --show";
    case SHOW_STREAM: return "--decode --show";
    case STATS: return "--stats";
    case CONVERT: return "--convert";
    default: return NULL;
    }
}

static bool is_set(const char *name)
{
    for (const Opt *o = opts; o->kind != O_END; o++)
        if (o->kind == O_FLAG && !strcmp(o->name, name)) return *(const int *)o->to;
    return opt_given(name);
}

static void check_options(int work)
{
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (acts[i].with & work || !is_set(acts[i].name)) continue;
        if (work == ENCODE)
            die_usage("--%s: only with %s", acts[i].name, asked(acts[i].with & -acts[i].with));
        die_usage("--%s: not with %s", acts[i].name, asked(work));
    }
    if (bos && no_bos)
        die_usage("only one of --bos and --no-bos");
    if (allow_special && deny_special)
        die_usage("only one of --allow-special and --deny-special");
    if (shards && shard_size)
        die_usage("only one of --shards and --shard-size");
    if ((shards || shard_size) && (as_text || !strcmp(output, "-")))
        die_usage("--shards and --shard-size are for token streams in files: -o FILE");
    if (work != CONVERT && !tok_files.n)
        die_usage("no tokenizer; use -t FILE");
    if (tok_files.n > (work == STATS ? 2 : 1))
        die_usage(work == STATS ? "--stats compares two tokenizers, not more"
                                : "two tokenizers only go with --stats");
}

static void show_them(int n, char **argv)
{
    ShowOptions o = { .output = output, .ids = as_text, .stream = decode, .bos = !no_bos,
                      .chats = chat, .completion = completion, .invalid = policy(),
                      .most = longest() ? (size_t)longest() : SIZE_MAX,
                      .template = chat_kind(template) };
    show_all(tok, tok_file, n, argv, &o);
}

static void count_them(int n, char **argv)
{
    Tok *other = tok_files.n > 1 ? tok_load(tok_files.s[1]) : NULL;
    StatsOptions o = { { tok, other }, { tok_file, other ? tok_files.s[1] : NULL }, output, text,
                       policy() };
    stats_all(&o, n, argv);
    tok_free(other);
}

int main(int argc, char **argv)
{
    int n = opt_parse(argc, argv, "-t FILE [options] [FILE ...]",
                      "Encode documents (JSON Lines) as tokens, or decode tokens.", opts);
    int work = what_to_do();
    check_options(work);
    if (work == CONVERT) {
        if (n != 2)
            die_usage("--convert takes two files, IN and OUT");
        tok_convert(argv[1], argv[2], pattern);
        return 0;
    }
    for (int i = 0; i < tok_files.n; i++) io_reads(tok_files.s[i]);
    tok_file = tok_files.s[0];
    tok = tok_load(tok_file);
    if (work & SHOWS)
        show_them(n, argv);
    else if (work == STATS)
        count_them(n, argv);
    else if (work == DECODE)
        decode_all(&(Decode){ tok, tok_file, output, as_text, raw }, n, argv);
    else
        encode_all(n, argv);
    tok_free(tok);
    return 0;
}
