/* optim.h -- MuonAdamW: nanochat's optimizer groups over a model's parameter table.
 *
 * Muon (Jordan 2024) with Nesterov momentum, row equilibration, five Polar Express steps (Amsel et
 * al. 2025, arXiv 2505.16932), variance reduction (NorMuon) and cautious weight decay on every matrix of the
 * blocks; AdamW (Loshchilov, Hutter 2019) on the rest. The exact step is nanochat's. */
#ifndef GPT_OPTIM_H
#define GPT_OPTIM_H
#include "gpt/model.h"

typedef struct OptimGroup { double lr, beta1, beta2, eps, wd; } OptimGroup;     /* lr before the schedule */

typedef struct OptimSettings {
    double embedding_lr, unembedding_lr, matrix_lr, scalar_lr;      /* 0.3, 0.008, 0.02, 0.5 */
    double batch_scale;             /* sqrt(B / 524288): multiplies those four */
    double weight_decay;            /* Muon's, already scaled; the schedule multiplies it */
} OptimSettings;

typedef struct Optim {
    Model *m;
    OptimGroup group[PG_COUNT];
    real *m1, *m2;                  /* [m->n]: first and second moments; Muon's momentum is in m1; its
                                       second moments of stack s begin at m2 + stack off */
    void *tmp; size_t ntmp;
    int64_t t;                      /* steps done */
} Optim;

Optim *optim_new(Model *m, const OptimSettings *s);
void optim_free(Optim *o);
void optim_groups(OptimGroup g[PG_COUNT], const OptimSettings *s, int C);       /* the table of groups */
/* One step from m->g, learning rates times lr_mult; Muon's momentum and weight decay as given.
 * Refreshes the compute copies. m->g is spent. */
void optim_step(Optim *o, double lr_mult, double momentum, double muon_wd);
double grad_norm(Model *m);         /* sqrt of the sum of squares of all gradients; waits */
size_t optim_bytes(const Model *m); /* what optim_new() allocates on the device */

#endif
