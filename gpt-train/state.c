/* state.json: written from a RunState, read back to the last bit. */
#include "options.h"
#include "run.h"
#include "base/progress.h"
#include <inttypes.h>
#include <math.h>

static void num(Buf *b, const char *key, double x)
{
    buf_printf(b, "  \"%s\": ", key);
    json_num(b, x);
    buf_str(b, ",\n");
}

void state_json(const Run *r, Buf *b)
{
    const RunState *s = &r->st;
    uint64_t in;
    buf_printf(b,
               "{\n  \"version\": 1,\n  \"step\": %" PRId64 ",\n  \"rows_taken\": %" PRIu64
               ",\n  \"epoch\": %" PRIu64 ",\n  \"skipped_steps\": %" PRId64
               ",\n  \"nonfinite_steps\": %" PRId64 ",\n  \"targets\": %" PRIu64 ",\n",
               s->step, s->pos, data_epoch(r->train, s->pos, &in), s->skipped,
               s->nonfinite, s->targets);
    if (s->warm) buf_printf(b, "  \"warm_steps\": %" PRId64 ",\n", s->warm);
    num(b, "loss_ema", s->loss_ema);
    num(b, "loss_mean", s->loss_mean);
    num(b, "loss_var", s->loss_var);
    num(b, "val_bpb", s->val_bpb);
    num(b, "best_val_bpb", s->best_bpb);
    num(b, "val_step", s->val_step < 0 ? NAN : (double)s->val_step);
    lora_state_json(r, b);
    buf_str(b, "  \"data\": ");
    state_data_json(r->train, b);
    buf_str(b, ",\n  \"options\": ");
    options_json(b);
    buf_str(b, "\n}");
}

int64_t state_int(const Json *j, const char *key, const char *file)
{
    int64_t x;
    if (!json_int(json_get(j, key), &x) || x < 0)
        die("%s: '%s' is missing or not a count", file, key);
    return x;
}

double state_num(const Json *j, const char *key, const char *file)
{
    const Json *v = json_get(j, key);
    if (v && v->kind == J_NULL) return NAN;
    if (!v || v->kind != J_NUM) die("%s: '%s' is missing or not a number", file, key);
    return v->num;
}

/* What no run can have written: a file that was edited, or put together from two. */
static const char *impossible(const RunState *s)
{
    uint64_t rows, targets, T = (uint64_t)opt.T;
    if (s->skipped > s->step || s->nonfinite > s->step - s->skipped)
        return "more steps skipped than done";
    if (T == 0 || opt.total_batch < 1 || (uint64_t)opt.total_batch % T)
        return "a total batch that is not whole rows";
    if (__builtin_mul_overflow((uint64_t)s->step, (uint64_t)opt.total_batch / T, &rows) ||
        s->pos != rows)
        return "rows_taken is not that of its steps";
    if (__builtin_mul_overflow(rows, T, &targets) || s->targets > targets)
        return "more targets than tokens";
    if (!isfinite(s->loss_ema)) return "loss_ema is not a number";
    if ((s->val_step < 0) != isnan(s->val_bpb) || isnan(s->val_bpb) != isnan(s->best_bpb) ||
        s->best_bpb > s->val_bpb || s->val_step > s->step)
        return "val_bpb, best_val_bpb and val_step cannot be of one run";
    return opt.steps && s->step > opt.steps ? "more steps than planned" : NULL;
}

void state_restore(Run *r, const Json *j, const char *file)
{
    int64_t version = state_int(j, "version", file);
    if (version != 1) die("%s: version %" PRId64 "; this program reads 1", file, version);
    r->st = (RunState){
        .step = state_int(j, "step", file),
        .pos = (uint64_t)state_int(j, "rows_taken", file),
        .skipped = state_int(j, "skipped_steps", file),
        .nonfinite = state_int(j, "nonfinite_steps", file),
        .targets = (uint64_t)state_int(j, "targets", file),
        .warm = json_get(j, "warm_steps") ? state_int(j, "warm_steps", file) : 0,
        .loss_ema = state_num(j, "loss_ema", file),
        .loss_mean = state_num(j, "loss_mean", file),
        .loss_var = state_num(j, "loss_var", file),
        .val_bpb = state_num(j, "val_bpb", file),
        .best_bpb = state_num(j, "best_val_bpb", file),
        .val_step = isnan(state_num(j, "val_step", file)) ? -1 : state_int(j, "val_step", file),
    };
    const char *bad = impossible(&r->st);
    if (bad) die("%s: step %" PRId64 ": %s", file, r->st.step, bad);
}

/* ---- clock.json */

double clock_seconds(const Run *r)
{
    return r->clock.before + (r->clock.began > 0 ? now_seconds() - r->clock.began : 0);
}

void clock_json(const Run *r, Buf *b)
{
    buf_printf(b, "{\"version\": 1, \"step\": %" PRId64 ", \"seconds\": %.3f}", r->st.step,
               clock_seconds(r));
}

void clock_restore(Run *r, const Json *j, const char *file)
{
    if (!j) return;
    int64_t version = state_int(j, "version", file), step = state_int(j, "step", file);
    if (version != 1) die("%s: version %" PRId64 "; this program reads 1", file, version);
    if (step != r->st.step)
        die("%s: of step %" PRId64 ", but state.json is of step %" PRId64, file, step, r->st.step);
    r->clock.before = state_num(j, "seconds", file);
    if (!(r->clock.before >= 0 && r->clock.before < 1e12))
        die("%s: 'seconds' is not a time", file);
}
