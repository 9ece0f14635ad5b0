/* Fine-tuning on conversations: what differs from pretraining besides options' defaults. */
#include "gpt/ckpt.h"
#include "options.h"
#include "run.h"
#include <inttypes.h>
#include <stdlib.h>

void inherit_rates(Arena *keep)
{
    const Json *state = ckpt_state(opt.init, keep), *o = json_get(state, "options");
    char *file = xasprintf("%s/state.json", opt.init);
    if (o) options_inherit(o, file, keep);
    else warn("%s: weights only: rates and batch are those of a new run", opt.init);
    free(file);
}

void sft_require(const Data *d)
{
    if (!d->head.masks)
        die("%s: rows without loss masks: --sft needs rows of conversations, made by tok-encode "
            "--chat and pack-rows --sft", d->path[0]);
}

/* The buffers are those of t steps: the bias corrections of AdamW must go on from there. Rates and
 * decay are this run's; so is the average of weights, if there is one. */
void sft_warm(Run *r)
{
    char *path = ckpt_path(opt.init, "optimizer-0.safetensors");
    real *ema = r->o->ema;
    if (!path && !opt.fresh_optimizer)
        warn("%s: no optimizer-0.safetensors: the optimizer begins afresh", opt.init);
    if (path && !opt.fresh_optimizer) {
        r->o->ema = NULL;
        ckpt_optim(opt.init, r->o);
        r->o->ema = ema;
        r->st.warm = r->o->t;
    }
    free(path);
}
