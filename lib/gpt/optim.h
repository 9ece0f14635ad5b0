/* optim.h -- MuonAdamW: nanochat's optimizer groups over a model's parameter table.
 *
 * Muon (Jordan 2024) with Nesterov momentum, row equilibration, five Polar Express steps (Amsel et
 * al. 2025, arXiv 2505.16932), variance reduction (NorMuon) and cautious weight decay on every
 * matrix of the blocks; AdamW (Loshchilov, Hutter 2019) on the rest. The exact step is nanochat's.
 *
 * The parameters are cut into spans: a stack of equal matrices, or a run of neighbours of one
 * AdamW group that are kept alike. Padding inside a run is zero, has no gradient, and stays zero.
 * Moments are reals, those of KEEP_HALF parameters bfloat16s, rounded to the nearest each step, as
 * in the original.
 *
 * Several ranks share the work and the moments (Rajbhandari et al. 2020, arXiv 1910.02054, its second
 * stage): of a stack each rank has whole matrices, of a larger table rows, and updates those from the
 * sum of all ranks' gradients; then all have all weights again. What is small every rank updates. A
 * rank may have none of a stack. */
#ifndef GPT_OPTIM_H
#define GPT_OPTIM_H
#include "gpt/model.h"
#include "ops/comm.h"

typedef struct OptimGroup {
    double lr, beta1, beta2, eps, wd;
} OptimGroup; /* lr before the schedule */

typedef struct OptimSettings {
    double embedding_lr, unembedding_lr, matrix_lr, scalar_lr;      /* 0.3, 0.008, 0.02, 0.5 */
    double batch_scale;             /* sqrt(B / 524288): multiplies those four */
    double lr_scale;                /* multiplies every rate, that of smear and backout too */
    double weight_decay;            /* Muon's, already scaled; the schedule multiplies it */
    int adamw;                      /* AdamW for everything, by the next four; else those above */
    double lr, beta1, beta2, eps;   /* with weight_decay and lr_scale; what decays is everything */
    double ema;                     /* decay per step of the weights' running mean; 0: none */
    const Comm *comm;               /* NULL: one rank */
} OptimSettings;

typedef struct OptimSpan {
    int first, count;               /* parameters of the table */
    ParamGroup group;
    int muon;                       /* else AdamW */
    int frozen;                     /* left alone; its moments stay 0 */
    Keep keep;
    int64_t off, n;                 /* in the parameters' numbering */
    int64_t unit, units;            /* elements of what goes to one rank, a row or a matrix; how many */
    int64_t part;                   /* units for each rank, as in comm.h; 0: every rank updates all */
    int64_t own, nown;              /* units from own on are this rank's */
    int64_t side;                   /* second moments of a unit: AdamW unit, Muon max(rows, cols) */
    int64_t off1, off2;             /* where the moments of its own units lie: in m1 and m2, or h1 and
                                       h2 if KEEP_HALF */
} OptimSpan;

typedef struct Optim {
    Model *m;
    OptimGroup group[PG_COUNT];
    int adamw;                      /* nothing goes by Muon */
    OptimSpan *span; int nspan;
    const Comm *comm;
    real *m1, *m2;                  /* device: [n1] first moments, Muon's momentum among them; [n2]
                                       second ones, per row or column for a matrix */
    uint16_t *h1, *h2;              /* [nh] both, of KEEP_HALF parameters */
    int64_t n1, n2, nh;
    real *ema; double ema_decay;    /* [m->n] running mean of the weights, from optim_new() on; or
                                       NULL */
    void *tmp; size_t ntmp;         /* scratch of Muon, */
    Tape *pool;                     /* or, with this, from there; see optim_pool() */
    int64_t t;                      /* steps done */
} Optim;

Optim *optim_new(Model *m, const OptimSettings *s);     /* moments zero; m must be for training */
/* From now on scratch comes from t's arrays, which are idle between passes. */
void optim_pool(Optim *o, Tape *t);
void optim_free(Optim *o);
void optim_groups(OptimGroup g[PG_COUNT], const OptimSettings *s, int C); /* the table of groups */
/* p's first (k 0) or second (1) moments, as far as this rank has them: n from element `at` on. */
Store optim_moment(const Optim *o, const Param *p, int k, int64_t *at, int64_t *n);
/* Is it for this rank to save them? What every rank has the first one saves. */
int optim_saves(const Optim *o, const Param *p);
/* Before a step of several ranks: of each gradient's parts the rank's own become the sum over ranks,
 * the others are spent. */
void optim_reduce(Optim *o);
/* *sum (device) += the squares of all gradients, which were reduced, in as far as they are this
 * rank's: the ranks' sums add up to those of one. */
void optim_squares(const Optim *o, double *sum);
/* One step from m's gradients, learning rates times lr_mult; Muon's momentum and weight decay as
 * given. The gradients are spent. */
void optim_step(Optim *o, double lr_mult, double momentum, double muon_wd);
/* Does Muon train p? */
static inline int optim_muon(int adamw, const Param *p) { return !adamw && p->group == PG_MATRIX; }
/* min(1, most / (norm + 1e-6)): what a gradient is multiplied by to be no longer than most. */
double clip_factor(double norm, double most);
void grad_scale(Model *m, double by);   /* all gradients, by that */
void grad_squares(const Model *m, double *out);     /* *out, on the device, += their sum */
double grad_norm(const Model *m);   /* sqrt of the sum of squares of all gradients; waits */
double weight_norm(const Model *m); /* the same of the parameters */
size_t optim_bytes(const Model *m, const OptimSettings *s); /* what optim_new() takes there */

#endif
