/* prompts.h -- where gpt-sample's prompts come from, one at a time, each with its settings.
 *
 * A bad line dies: "FILE: line N: why" (exit 1). Text may hold NUL: n rules. */
#ifndef GPT_SAMPLE_PROMPTS_H
#define GPT_SAMPLE_PROMPTS_H
#include "base/io.h"
#include "base/json.h"
#include "base/opt.h"

enum { SETTING_MAX = 1 << 30 };     /* of the whole numbers */
#define PENALTY_MIN 0.001           /* of repetitions */
#define PENALTY_MAX 1000

typedef struct Settings {
    int max_tokens, samples, top_k;
    double temperature, top_p, min_p, penalty;
    int64_t seed;
    int own_seed;                   /* the line named its seed */
} Settings;

typedef struct Prompt {
    const char *text; size_t n;     /* this and row live until the next prompt_next() */
    const Json *row;                /* the whole object, with JSON Lines input */
    const Json *messages;           /* of a conversation, in place of text */
    size_t dropped;                 /* its turns that do not fit; the caller's */
    const char *where;              /* for messages: "stdin: line 3", "prompt 2" */
    Settings set;
} Prompt;

typedef struct Prompts Prompts;

Prompts *prompts_texts(const StrList *texts);           /* each -p */
Prompts *prompts_file(const char *path);                /* -f: the whole file is one prompt */
/* A line is a prompt, an object with "prompt", or one with "messages". */
enum { LINES_TEXT, LINES_JSON, LINES_CHAT };
Prompts *prompts_lines(const char *path, int kind);
bool prompt_next(Prompts *p, const Settings *defaults, Prompt *out);
const char *prompts_name(const Prompts *p);
void prompts_free(Prompts *p);

#endif
