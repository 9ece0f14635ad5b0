/* optim.h -- MuonAdamW: nanochat's optimizer groups over a model's parameter table.
 *
 * Muon (Jordan 2024) with Nesterov momentum, row equilibration, five Polar Express steps (Amsel et
 * al. 2025, arXiv 2505.16932), variance reduction (NorMuon) and cautious weight decay on every
 * matrix of the blocks; AdamW (Loshchilov, Hutter 2019) on the rest. The exact step is nanochat's.
 *
 * The parameter block is cut into spans: a stack of equal matrices, or a run of neighbours of one
 * AdamW group. Padding inside a run is zero, has no gradient, and stays zero. */
#ifndef GPT_OPTIM_H
#define GPT_OPTIM_H
#include "gpt/model.h"

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
} OptimSettings;

typedef struct OptimSpan {
    int first, count;               /* parameters of the table */
    ParamGroup group;
    int muon;                       /* else AdamW */
    int frozen;                     /* left alone; its moments stay 0 */
    int64_t off, n;                 /* in the parameter block, and in m1 */
    int64_t off2, n2;               /* in m2: AdamW n2 = n; Muon n2 = count max(rows, cols) */
} OptimSpan;

typedef struct Optim {
    Model *m;
    OptimGroup group[PG_COUNT];
    int adamw;                      /* nothing goes by Muon */
    OptimSpan *span; int nspan;
    real *m1, *m2;                  /* device: m1 [m->n] first moments, Muon's momentum among them;
                                       m2 [n2] second moments, per row or column for a matrix */
    int64_t n2;
    real *ema; double ema_decay;    /* [m->n] running mean of the weights, from optim_new() on; or
                                       NULL */
    void *tmp; size_t ntmp;
    int64_t t;                      /* steps done */
} Optim;

Optim *optim_new(Model *m, const OptimSettings *s);     /* moments zero; m must be for training */
void optim_free(Optim *o);
void optim_groups(OptimGroup g[PG_COUNT], const OptimSettings *s, int C); /* the table of groups */
/* Where p's second moments lie in m2, and how many there are. */
int64_t optim_second(const Optim *o, const Param *p, int64_t *n);
/* One step from m->g, learning rates times lr_mult; Muon's momentum and weight decay as given.
 * Refreshes the compute copies. m->g is spent. */
void optim_step(Optim *o, double lr_mult, double momentum, double muon_wd);
/* Does Muon train p? */
static inline int optim_muon(int adamw, const Param *p) { return !adamw && p->group == PG_MATRIX; }
/* min(1, most / (norm + 1e-6)): what a gradient is multiplied by to be no longer than most. */
double clip_factor(double norm, double most);
double grad_norm(const Model *m);   /* sqrt of the sum of squares of all gradients; waits */
double weight_norm(const Model *m); /* the same of the parameters */
size_t optim_bytes(const Model *m, const OptimSettings *s); /* what optim_new() takes there */

#endif
