/* Saving the run: its newest checkpoint, earlier ones, and the best model so far. */
#include "gpt/ckpt.h"
#include "gpt/ends.h"
#include "options.h"
#include "rl.h"
#include <inttypes.h>
#include <stdlib.h>

/* --force: what was kept of the run that was here belongs to its checkpoint, and goes when that is
 * about to be replaced; before it, lest a kill in between leaves them to the new one. */
static void forget_older(Run *r)
{
    if (r->over && is_first() && ckpt_forget(opt.out)) r->failed_saves++;
    r->over = 0;
}

/* The model with its tokenizer, or the adapter alone. The tokenizer goes in with the first save, from
 * memory: its file may be gone by then. */
static int save(Run *r, const char *dir, const Optim *o, int with_tok, const char *state,
                const char *clock)
{
    Buf tok = {0};
    if (r->lora)
        return ckpt_save_lora(dir, r->lora, opt.init, r->base_hash, o, state, clock);
    if (with_tok) tok_print(r->tok, &tok);
    int bad = ckpt_save(dir, r->m, o, with_tok ? &tok : NULL, state, clock);
    buf_free(&tok);
    return bad;
}

/* What other programs need beside a model of the Llama family; where its texts begin and end is as
 * it was for the model that the run began with. */
static void write_ends(Run *r)
{
    const char *from = run_source();
    int V = r->m->cfg.V;
    if (r->has_ends || r->lora || r->m->cfg.family != &llama_family) return;
    unsigned char *stop = xcalloc((size_t)V, 1);
    ends_stops(from, r->tok, V, stop);
    ends_write(opt.out, &r->m->cfg, r->tok, ends_bos(from, r->tok, &r->m->cfg), stop);
    free(stop);
    r->has_ends = 1;
}

static void keep_saved(Run *r)
{
    if (opt.keep && is_first() && ckpt_keep(opt.out, r->st.step, opt.keep)) r->failed_saves++;
}

void run_keep_again(Run *r)
{
    if (opt.resume && opt.keep && !ckpt_kept(opt.out, r->st.step)) keep_saved(r);
}

int run_save(Run *r)
{
    Buf state = {0}, clock = {0};
    if (r->train) data_look(r->train);                /* nothing learnt from damaged rows is kept */
    health_weights(r);
    forget_older(r);
    if (r->rl) rl_state_json(r, &state);
    else state_json(r, &state);
    clock_json(r, &clock);
    metrics_sync(r);                    /* a resume relies on the records up to here */
    int bad = save(r, opt.out, r->o, !r->has_tok, state.s, clock.s);
    buf_free(&state);
    buf_free(&clock);
    if (bad) {
        r->failed_saves++;
        return -1;
    }
    r->has_tok = 1;
    if (is_first()) write_ends(r);
    r->saved = r->st.step;
    r->unsaved = 0;
    note(2, "step %" PRId64 ": saved in %s", r->st.step, opt.out);
    keep_saved(r);
    return 0;
}

void run_save_best(Run *r)
{
    if (!is_first()) return;
    char *dir = xasprintf("%s/" CKPT_BEST, opt.out);
    forget_older(r);
    run_mean(r);                                /* what was evaluated */
    int bad = save(r, dir, NULL, 1, NULL, NULL);
    run_mean(r);
    if (bad) r->failed_saves++;
    else note(2, "step %" PRId64 ": the best so far, saved in %s", r->st.step, dir);
    free(dir);
}
