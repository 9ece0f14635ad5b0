/* The options that define a run: into state.json, back from it, checked against the command
 * line. */
#include "base/err.h"
#include "options.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What state.json keeps. SOFT: a resume may say otherwise. RL: only of runs with --rl.
 * LATE: older runs do not have it; they had what is the default. */
enum { SOFT = 1, RL = 2, LATE = 4 };
typedef struct Kept { const char *name; int how; } Kept;
static const Kept kept[] = {
    { "depth", 0 }, { "aspect-ratio", 0 }, { "head-dim", 0 }, { "max-seq-len", 0 },
    { "window-pattern", 0 }, { "sft", 0 }, { "steps", 0 }, { "epochs", 0 }, { "tokens", 0 }, { "target-flops", 0 },
    { "hours", 0 }, { "ratio", 0 },
    { "device-batch-size", 0 }, { "total-batch-size", 0 }, { "embedding-lr", 0 },
    { "unembedding-lr", 0 }, { "matrix-lr", 0 }, { "scalar-lr", 0 }, { "lr-scale", 0 },
    { "weight-decay", 0 }, { "schedule", 0 },
    { "optimizer", LATE }, { "lr", LATE }, { "beta1", LATE }, { "beta2", LATE },
    { "adam-eps", LATE },
    { "warmup-steps", 0 }, { "warmdown-ratio", 0 }, { "final-lr-frac", 0 }, { "dtype", 0 }, { "device", SOFT | LATE },
    { "seed", 0 }, { "shuffle", 0 }, { "rescan", SOFT }, { "clip-norm", 0 }, { "ema", 0 },
    { "freeze", 0 }, { "lora", LATE }, { "dropout", LATE }, { "doc-mask", 0 }, { "skip-nonfinite", SOFT }, { "check-every", SOFT },
    { "train", SOFT }, { "val", SOFT },
    { "save-every", SOFT }, { "keep", SOFT }, { "keep-best", SOFT }, { "metrics", SOFT }, { "eval-every", SOFT },
    { "eval-tokens", SOFT }, { "sample-every", SOFT }, { "sample-prompt", SOFT },
    { "rl", SOFT | RL }, { "reward", SOFT | RL }, { "reward-timeout", SOFT | RL }, { "examples", RL },
    { "samples", RL }, { "max-tokens", RL }, { "temperature", RL }, { "top-k", RL },
    { "no-tools", RL }, { "grpo", RL }, { "grpo-epochs", RL }, { "clip", RL },
    { "kl", RL }, { "advantage-eps", RL }, { "norm", RL }, { "eval-prompts", RL },
    { "eval-samples", RL }, { "log-rollouts", SOFT | RL },
};
enum { NKEPT = sizeof kept / sizeof *kept };

static void str_json(Buf *b, const char *s)
{
    if (s) json_str(b, s, strlen(s));
    else buf_str(b, "null");
}

static void value_json(Buf *b, const Opt *o)
{
    const StrList *l = o->to;
    switch (o->kind) {
    case O_FLAG: buf_str(b, *(int *)o->to ? "true" : "false"); break;
    case O_INT: buf_printf(b, "%d", *(int *)o->to); break;
    case O_LONG: buf_printf(b, "%" PRId64, *(int64_t *)o->to); break;
    case O_FLOAT: json_num(b, *(double *)o->to); break;
    case O_STR: case O_CHOICE: str_json(b, *(const char **)o->to); break;
    case O_LIST:
        for (int i = 0; i < l->n; i++) {
            buf_str(b, i ? ", " : "[");
            str_json(b, l->s[i]);
        }
        buf_str(b, l->n ? "]" : "[]");
        break;
    default: abort();
    }
}

void options_json(Buf *b)
{
    for (int i = 0; i < NKEPT; i++) {
        if ((kept[i].how & RL) && !opt.rl) continue;
        buf_printf(b, "%s\"%s\": ", i ? ", " : "{", kept[i].name);
        value_json(b, options_find(kept[i].name));
    }
    buf_char(b, '}');
}

static void need_utf8(const char *name, const char *s)
{
    if (s && utf8_valid(s, strlen(s)) < strlen(s))
        die_usage("--%s: '%s' is not UTF-8: state.json could not keep it for a resume", name, s);
}

void options_keepable(void)
{
    for (int i = 0; i < NKEPT; i++) {
        const Opt *o = options_find(kept[i].name);
        const StrList *l = o->to;
        if (o->kind == O_STR) need_utf8(o->name, *(const char **)o->to);
        for (int k = 0; o->kind == O_LIST && k < l->n; k++) need_utf8(o->name, l->s[k]);
    }
}

static int list_from(StrList *l, const Json *j, Arena *keep)
{
    const char **s = arena_alloc(keep, ((size_t)j->n + 1) * sizeof *s);
    int n = 0;
    for (const Json *e = j->child; e; e = e->next) {
        if (e->kind != J_STR || memchr(e->s, 0, e->len)) return 0;
        s[n++] = arena_strndup(keep, e->s, e->len);
    }
    *l = (StrList){ s, n };
    return 1;
}

/* The saved value into the option's variable; 0 if it has the wrong kind or range. */
static int value_from(const Opt *o, const Json *j, Arena *keep)
{
    int64_t x;
    if (!j) return 0;
    switch (o->kind) {
    case O_FLAG: *(int *)o->to = j->b; return j->kind == J_BOOL;
    case O_INT: case O_LONG:
        if (!json_int(j, &x) || (double)x < o->lo || (double)x > o->hi) return 0;
        if (o->kind == O_INT) *(int *)o->to = (int)x;
        else *(int64_t *)o->to = x;
        return 1;
    case O_FLOAT:
        if (j->kind != J_NUM || !(j->num >= o->lo && j->num <= o->hi)) return 0;
        *(double *)o->to = j->num;
        return 1;
    case O_STR: case O_CHOICE:
        if (j->kind == J_NULL && o->kind == O_STR) {
            *(const char **)o->to = NULL;
            return 1;
        }
        if (j->kind != J_STR || memchr(j->s, 0, j->len)) return 0;
        *(const char **)o->to = arena_strndup(keep, j->s, j->len);
        return 1;
    case O_LIST: return j->kind == J_ARR && list_from(o->to, j, keep);
    default: return 0;
    }
}

void options_inherit(const Json *saved, const char *file, Arena *keep)
{
    static const char *const name[] = { "embedding-lr", "unembedding-lr", "matrix-lr", "scalar-lr",
                                        "total-batch-size", "optimizer", "lr", "beta1", "beta2",
                                        "adam-eps" };
    enum { OLD = 5 };               /* of these every run has the first */
    if (opt.lora || opt.adapter) {              /* the rates are the model's, not an adapter's */
        const Json *batch = json_get(saved, "total-batch-size");
        if (!opt_given("total-batch-size") && batch)
            value_from(options_find("total-batch-size"), batch, keep);
        return;
    }
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!opt_given(name[i]) && (i < OLD || json_get(saved, name[i])) &&
            !value_from(options_find(name[i]), json_get(saved, name[i]), keep))
            die("%s: options: '%s' is missing or not what it must be", file, name[i]);
}

void options_restore(const Json *saved, const char *file, Arena *keep)
{
    Buf want = {0}, have = {0};
    int rl = json_get(saved, "rl") != NULL;
    if (opt.rl && !rl) die_usage("--rl: the run in %s is on rows", file);
    for (int i = 0; i < NKEPT; i++) {
        if ((kept[i].how & RL) && !rl) continue;
        const Opt *o = options_find(kept[i].name);
        int given = opt_given(o->name);
        if (given && (kept[i].how & SOFT)) continue;
        buf_clear(&want);
        value_json(&want, o);
        const Json *there = json_get(saved, o->name);
        if (!(!there && (kept[i].how & LATE)) && !value_from(o, there, keep))
            die("%s: options: '%s' is missing or not what it must be", file, o->name);
        buf_clear(&have);
        value_json(&have, o);
        if (given && strcmp(want.s, have.s) && strcmp(want.s, "\"auto\""))
            die_usage(
                "--%s: %s, but the run in %s has %s; leave it out, or start a new run with --init",
                o->name, want.s, file, have.s);
    }
    buf_free(&want);
    buf_free(&have);
}
