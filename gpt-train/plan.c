#include "plan.h"
#include "gpt/micro.h"
#include "options.h"
#include "run.h"
#ifdef HAVE_CUDNN
#include "ops/cuda/cudnn.h"
#endif
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MICRO_TOKENS 8192       /* B * T chosen: more gains little on a CPU and takes memory */

/* nanochat's scaling laws measure every model against the one of depth 12. */
static void sizes(Plan *p, int64_t batch)
{
    Config rows = p->cfg, *c = &rows;
    c->T = p->T;                /* work is that of rows, not of the longest context */
    Config d12 = config_depth(12, opt.aspect_ratio, head_size(c), c->T, c->V,
                              c->window);
    p->a = (AutoSizes){
        .scaling_params = config_scaling_params(c),
        .scaling_params_d12 = config_scaling_params(&d12),
        .ratio = opt.ratio,
        .flops_per_token = config_flops_per_token(c),
        .target_flops = opt.target_flops,
        .steps_given = opt.steps ? opt.steps : opt.hours > 0 ? SCHED_OPEN : 0,
        .tokens_given = opt.tokens,
        .batch_given = batch,
        .weight_decay = opt.weight_decay,
    };
    auto_sizes(&p->a);
}

/* A horizon that only the dial set, and data so small that it would be taken more than EPOCHS
 * times: then it is taken EPOCHS times, in EPOCH_STEPS steps each or more, if it has as many rows.
 * (Up to about 4 epochs are worth nearly as much as new data, beyond 16 hardly anything:
 * Muennighoff et al. 2023.) Returns the number of epochs to plan for, 0: the dial's tokens. */
#define EPOCHS 8
#define EPOCH_STEPS 64
static double fit_small_data(Plan *p, uint64_t data_rows)
{
    double tokens = (double)data_rows * p->T, times = (double)p->a.target_tokens / tokens;
    int chosen = opt.steps || opt.epochs > 0 || opt.tokens || opt.target_flops > 0 ||
                 opt.hours > 0 || opt_given("ratio") || opt.rescan;
    if (chosen || !data_rows || times <= EPOCHS) return opt.epochs;
    int64_t batch = p->a.total_batch;
    while (!opt.total_batch && batch > 1 && (double)batch * EPOCH_STEPS > tokens) batch /= 2;
    if (batch != p->a.total_batch) sizes(p, batch);
    note(1, "the data has %.0f tokens, which the dial's horizon would take %.0f times: planned are "
         "%d (see --epochs, --ratio)", tokens, times, EPOCHS);
    return EPOCHS;
}

static int64_t nearest_multiple(int64_t x, int64_t of)
{
    int64_t k = (x + of / 2) / of;
    return (k ? k : 1) * of;
}

static int largest_divisor(int64_t n, int64_t at_most)
{
    int64_t d = at_most < 1 ? 1 : at_most < n ? at_most : n;
    while (n % d) d--;
    return (int)d;
}

static void refuse_batch(int64_t total, int64_t T, int64_t micro)
{
    char ranks[48] = "";
    if (opt.ranks > 1) snprintf(ranks, sizeof ranks, " times %d ranks", opt.ranks);
    if (opt.B)
        die_usage("--total-batch-size: %" PRId64
                  " is not a multiple of --device-batch-size %d times T %" PRId64
                  "%s = %" PRId64 " tokens", total, opt.B, T, ranks, micro);
    die_usage("--total-batch-size: %" PRId64 " is not a multiple of T%s, %" PRId64 " tokens",
              total, ranks, micro);
}

/* The total batch as given must be whole micro-batches of all ranks; an automatic one is made so. A
 * run that is resumed on another number of ranks may need smaller ones than it had. */
static void fit_batch(Plan *p)
{
    int64_t T = p->T, R = opt.ranks, total = opt.total_batch;
    if (opt.resume && opt.B && total % (R * T) == 0) opt.B = largest_divisor(total / (R * T), opt.B);
    int64_t micro = (opt.B ? opt.B : 1) * T * R;
    if (total && total % micro) refuse_batch(total, T, micro);
    p->B = opt.B;
    if (!total) {
        int64_t at_first = p->a.total_batch, rows = at_first / (T * R);
        if (p->B > rows && p->B > 1) {
            p->B = rows ? (int)rows : 1;
            note(1,
                 "--device-batch-size: %d rows are more than the automatic total batch of %" PRId64
                 " tokens; taking %d",
                 opt.B, at_first, p->B);
        }
        total = nearest_multiple(at_first, (p->B ? p->B : 1) * T * R);
        if (total != at_first) {
            note(1,
                 "automatic total batch: %" PRId64 " tokens made %" PRId64 ", whole micro-batches",
                 at_first, total);
            sizes(p, total);
        }
    }
    p->rows = total / T;
    if (!p->B) p->B = largest_divisor(p->rows / R, MICRO_TOKENS / T);
    p->accum = p->rows / (p->B * R);
    if (p->B * T > INT_MAX / 4)
        die_usage("--device-batch-size: %d rows of T %" PRId64 " are too many", p->B, T);
}

SchedKind plan_schedule(void)
{
    return !strcmp(opt.schedule, "cosine") ? SCHED_COSINE :
           !strcmp(opt.schedule, "minimind") ? SCHED_MINIMIND :
           !strcmp(opt.schedule, "constant") ? SCHED_CONSTANT :
           !strcmp(opt.schedule, "sft") ? SCHED_SFT : SCHED_NANOCHAT;
}

void plan_horizon(Plan *p, int64_t steps)
{
    p->open = 0;
    p->a.steps = p->sched.n = opt.steps = steps;
    if (__builtin_mul_overflow(p->a.total_batch, steps, &p->a.total_tokens))
        p->a.total_tokens = INT64_MAX;
}

/* As many steps as take each row `epochs` times. The last may take some once more, from the
 * beginning of the next epoch. */
static void fit_epochs(Plan *p, double epochs, uint64_t data_rows)
{
    double steps = ceil(epochs * (double)data_rows / (double)p->rows);
    if (!data_rows) die_usage("--epochs: of what? give --train ROWS");
    p->a.steps = steps < (double)SCHED_OPEN ? (int64_t)steps : SCHED_OPEN;
    if (__builtin_mul_overflow(p->a.total_batch, p->a.steps, &p->a.total_tokens))
        p->a.total_tokens = INT64_MAX;
}

/* AdamW's decay is as given; Muon's is scaled by batch and horizon. */
void plan_optim(Plan *p, double weight_decay)
{
    int adamw = !strcmp(opt.optimizer, "adamw");
    p->os = (OptimSettings){
        .embedding_lr = opt.embedding_lr,
        .unembedding_lr = opt.unembedding_lr,
        .matrix_lr = opt.matrix_lr,
        .scalar_lr = opt.scalar_lr,
        .batch_scale = p->a.batch_lr_scale,
        .lr_scale = opt.lr_scale,
        .weight_decay = adamw ? opt.weight_decay : weight_decay,
        .adamw = adamw,
        .lr = opt.lr,
        .beta1 = opt.beta1,
        .beta2 = opt.beta2,
        .eps = opt.adam_eps,
        .ema = opt.ema,
        .comm = comm_pretend(opt.ranks),
    };
    optim_groups(p->group, &p->os, p->cfg.C);
}

void plan_make(Plan *p, const Config *cfg, int T, uint64_t data_rows)
{
    *p = (Plan){ .cfg = *cfg, .T = T };
    const char *bad = config_check(cfg);
    if (bad) die_usage("no such model: %s", bad);
    sizes(p, opt.total_batch);
    double epochs = fit_small_data(p, data_rows);
    fit_batch(p);
    if (epochs > 0) fit_epochs(p, epochs, data_rows);
    if (p->a.steps < 1)
        die_usage("the horizon is less than one step of %" PRId64
                  " tokens: give --steps or a smaller --total-batch-size",
                  p->a.total_batch);
    plan_optim(p, p->a.weight_decay_scaled);
    p->sched = (Sched){ plan_schedule(), p->a.steps, opt.warmup, opt.warmdown, opt.final_lr,
                        p->a.weight_decay_scaled, 1 / (double)p->a.steps };
    if (opt.epochs > 0) p->sched.per_step = (double)p->rows / (opt.epochs * (double)data_rows);
    p->params = config_params(cfg, -1);
    opt.depth = cfg->L;
    opt.head_dim = head_size(cfg);
    opt.window = cfg->window;
    opt.T = T;
    opt.B = p->B;
    opt.total_batch = p->a.total_batch;
    p->open = !opt.steps && opt.hours > 0;
    if (!p->open) opt.steps = p->a.steps;
    if (!opt.eval_tokens) opt.eval_tokens = 8 * p->a.total_batch;
}

int plan_model(void)
{
    return (opt.lora ? 0 : MODEL_TRAIN) | (strcmp(opt.optimizer, "adamw") ? 0 : MODEL_MASTERS);
}

int plan_freeze(Model *m)
{
    int frozen = 0;
    for (int i = 0; i < opt.freeze.n; i++)
        if (!model_freeze(m, opt.freeze.s[i]))
            die_usage("--freeze: '%s' matches no tensor", opt.freeze.s[i]);
    for (int i = 0; i < m->nparam; i++) frozen += m->param[i].frozen;
    if (frozen == m->nparam) die_usage("--freeze: nothing is left to train");
    return frozen;
}

Lora *plan_lora(Model *m, int train)
{
    LoraSpec s;
    if (!opt.lora) return NULL;
    const char *bad = lora_parse(&s, opt.lora);
    Lora *l = bad ? NULL : lora_new(m, &s, train, &bad);
    if (!l) die_usage("--lora: %s", bad);
    lora_spec_free(&s);
    return l;
}

/* Besides what a model asks for: what the process holds now, before there is a model (code,
 * libraries, tables, the tokenizer; some 100 KB more or less each time), or where that is not known
 * what it mostly is; and the code, stacks and records that a run adds, as measured. */
static double program_bytes(void)
{
    const double run = 1.5e6;
    double pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*s %lf", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return run + (pages > 0 ? pages * (double)sysconf(_SC_PAGESIZE) : 6e6);
}

/* what cuDNN's attention keeps, if it is used */
static double cudnn_bytes(const Config *c, int B)
{
#ifdef HAVE_CUDNN
    if (!cudnn_used() || !strcmp(opt.dtype, "fp32")) return 0;
    return (double)cudnn_scratch(&(CudnnShape){ B, c->T, c->H, c->K, c->D, 0 });
#else
    return (void)c, (void)B, 0;
#endif
}
/* What the CUDA back-end keeps for itself, a block for each of: products; sorting, 4 numbers a key and
 * 1,024 for as many, keys being tokens or experts that tokens have; one operation, 3 a token for
 * smear's gradient, 2 a head for a value gate's, 1 an expert for the routing's; partial sums, a number
 * a channel for every 64 tokens of a gain's, one a channel and expert for every 256 of the routing's;
 * attention's gradient, 2 a head. CUDA's own context, some 500 MB, comes on top. */
static double cuda_bytes(const Config *c, int64_t N)
{
    const LlamaConfig *l = &c->llama;
    const int64_t keys = N * (l->E ? l->top : 1), chunks = (keys + 1023) / 1024,
                  dgate = (N + 255) / 256 * l->E * c->C, gain = (N + 63) / 64 * c->C;
    const double op = (double)N * fmax(fmax(3, l->E), 2 * c->K);
    return (32 << 20) + 4 * (4. * (double)keys + 1024. * (double)chunks + op +
                             fmax((double)dgate, (double)gain) + 2. * (double)N * c->H);
}

static double kept_bytes(const OpsKept *k)
{
    return (double)k->packed + (double)k->stage + (double)k->scratch + (double)k->rows;
}

static int64_t lora_count(const Lora *l)
{
    int64_t n = 0;
    for (int i = 0; i < l->p->nparam; i++) n += l->p->param[i].n;
    return n;
}

/* One micro-batch and one optimizer step on a back-end that only adds up. */
void plan_count(Plan *p)
{
    const Ops *real_ops = ops_open(ranks_device(), opt.dtype, opt.threads);
    OpsCount n = { .room = real_ops->room };
    Ops count = *ops_count(&n, opt.dtype);
    count.muon_tmp = real_ops->muon_tmp;
    const Ops *ops = &count;
    int N = p->B * p->T;
    Model *m = model_new(ops, &p->cfg, plan_model());
    m->dropping = !opt.rl;
    plan_freeze(m);
    Lora *l = plan_lora(m, 1);
    Model *trained = l ? l->p : m;
    p->mem_weights = model_bytes(m) + (l ? model_bytes(l->p) : 0);
    p->mem_grads = model_grad_bytes(trained);
    p->lora_params = l ? lora_count(l) : 0;
    p->lora_maps = l ? l->nlow : 0;
    Optim *o = optim_new(trained, &p->os);
    p->mem_optim = (double)(optim_bytes(trained, &p->os) - o->ntmp);     /* lent, see optim_pool() */
    Micro u;
    micro_init(&u, ops, p->B, p->T, opt.doc_mask);
    Tape t;
    tape_init(&t, ops);
    optim_pool(o, &t);
    t.on = 1;
    t.recompute = opt.recompute;
    Var *h = model_forward_docs(m, &t, u.x, u.doc, p->B, p->T);
    model_loss(m, &t, h, u.y, u.wt, N, u.loss, 1);
    tape_backward(&t);
    p->flops_fwd = n.flops_fwd;
    p->flops_bwd = n.flops_bwd;
    optim_step(o, 1, 0.9, 0);
    p->mem_acts = (double)t.bytes;
    p->flops_opt = n.flops_opt;
    p->mem_program = program_bytes() + kept_bytes(&n.kept) +
                     (double)N * (2 * sizeof(int32_t) + sizeof(real));      /* run_batch() */
    if (!strncmp(real_ops->name, "cuda", 4))
        p->mem_program = cuda_bytes(&p->cfg, N) + cudnn_bytes(&p->cfg, p->B) +
                         (double)n.fp8_scratch + (double)n.fp8_weights;
    if (!strcmp(opt.dtype, "fp8") && !n.fp8_weights)
        die_usage("--dtype fp8: none of this model's linear maps has sizes that are multiples of 16 and "
                  "at least 128");
    p->mem_total = (double)n.mem_peak + p->mem_program;
    tape_free(&t);
    micro_free(&u);
    optim_free(o);
    lora_free(l);
    model_free(m);
}
