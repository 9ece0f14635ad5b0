/* state.json of a run of reinforcement learning. */
#include "options.h"
#include "rl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void num(Buf *b, const char *key, double x)
{
    buf_printf(b, "  \"%s\": ", key);
    json_num(b, x);
    buf_str(b, ",\n");
}

void rl_state_json(const Run *r, Buf *b)
{
    const Rl *rl = r->rl;
    buf_printf(b,
               "{\n  \"version\": 1,\n  \"kind\": \"rl\",\n  \"step\": %" PRId64
               ",\n  \"updates\": %" PRId64 ",\n  \"skipped_steps\": %" PRId64
               ",\n  \"judged_steps\": %" PRId64 ",\n",
               r->st.step, rl->updates, r->st.skipped, rl->judged_steps);
    num(b, "reward_ema", rl->reward_ema);
    num(b, "pass_at_1", rl->pass);
    num(b, "best_pass_at_1", rl->best_pass);
    num(b, "val_step", r->st.val_step < 0 ? NAN : (double)r->st.val_step);
    buf_printf(b, "  \"prompts\": {\"count\": %zu, \"xxh3\": \"%016" PRIx64 "\"},\n", rl->train.n,
               rl->train.hash);
    if (rl->ref) {
        buf_str(b, "  \"reference\": {\"dir\": ");
        json_str(b, rl->ref_dir, strlen(rl->ref_dir));
        buf_printf(b, ", \"xxh3\": \"%016" PRIx64 "\"},\n", rl->ref_hash);
    }
    lora_state_json(r, b);
    buf_str(b, "  \"options\": ");
    options_json(b);
    buf_str(b, "\n}");
}

static uint64_t get_hash(const Json *o, const char *what, const char *file)
{
    const Json *h = o ? json_get(o, "xxh3") : NULL;
    if (!h || h->kind != J_STR || h->len != 16 || strspn(h->s, "0123456789abcdef") != 16)
        die("%s: '%s' is missing or without its xxh3", file, what);
    return strtoull(h->s, NULL, 16);
}

void rl_state_restore(Run *r, const Json *j, const char *file)
{
    Rl *rl = r->rl;
    int64_t version = state_int(j, "version", file);
    if (version != 1) die("%s: version %" PRId64 "; this program reads 1", file, version);
    if (!json_is_str(json_get(j, "kind"), "rl")) die("%s: not of a run with --rl", file);
    r->st.step = state_int(j, "step", file);
    r->st.skipped = state_int(j, "skipped_steps", file);
    r->st.val_step = isnan(state_num(j, "val_step", file)) ? -1 : state_int(j, "val_step", file);
    rl->updates = state_int(j, "updates", file);
    rl->judged_steps = state_int(j, "judged_steps", file);
    rl->reward_ema = state_num(j, "reward_ema", file);
    rl->pass = state_num(j, "pass_at_1", file);
    rl->best_pass = state_num(j, "best_pass_at_1", file);
    int64_t rounds = opt.grpo ? opt.grpo_epochs : 1, most;
    if (r->st.skipped > r->st.step || rl->judged_steps > r->st.step || r->st.val_step > r->st.step ||
        (opt.steps && r->st.step > opt.steps) || !isfinite(rl->reward_ema) ||
        __builtin_mul_overflow(r->st.step, rounds, &most) || rl->updates > most)
        die("%s: step %" PRId64 ": its counts cannot be of one run", file, r->st.step);
    if (opt.kl <= 0) return;
    const Json *ref = json_get(j, "reference"), *dir = ref ? json_get(ref, "dir") : NULL;
    rl->ref_hash = get_hash(ref, "reference", file);
    if (!dir || dir->kind != J_STR || memchr(dir->s, 0, dir->len))
        die("%s: 'reference' is without its dir", file);
    rl->ref_dir = strndup(dir->s, dir->len);
    if (!rl->ref_dir) die("out of memory");
}

void rl_state_check(const Run *r, const Json *j, const char *file)
{
    const Json *p = json_get(j, "prompts");
    int64_t n = 0;
    if (p) json_int(json_get(p, "count"), &n);
    if (get_hash(p, "prompts", file) != r->rl->train.hash || n != (int64_t)r->rl->train.n)
        die("--rl: %s has other prompts (%zu) than the run in %s began with (%" PRId64
            "): a resume needs the same", opt.rl, r->rl->train.n, opt.out, n);
}
