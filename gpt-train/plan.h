/* plan.h -- what a run settles before its first step: sizes, batch, horizon, rates, memory. */
#ifndef TRAIN_PLAN_H
#define TRAIN_PLAN_H
#include "gpt/lora.h"
#include "gpt/optim.h"
#include "gpt/sched.h"

typedef struct Plan {
    Config cfg;
    int T;                          /* tokens of a row; at most cfg.T */
    int B;                          /* rows per micro-batch */
    int64_t accum;                  /* micro-batches per step, of each rank */
    int64_t rows;                   /* rows per step: B * accum * opt.ranks */
    AutoSizes a;                    /* total_batch, steps, learning-rate and weight-decay scale */
    int open;                       /* --hours, not planned yet: steps is SCHED_OPEN */
    Sched sched;
    OptimSettings os;
    OptimGroup group[PG_COUNT];
    int64_t params;
    int64_t lora_params;            /* of the adapter that is trained; 0: all of the model is */
    int lora_maps;                  /* linear maps that it adapts */
    /* by the counting back-end; bytes */
    double mem_weights, mem_grads, mem_optim, mem_acts, mem_program, mem_total;
    double flops_fwd, flops_bwd;    /* of one micro-batch */
    double flops_opt;               /* of one step of the optimizer */
} Plan;

/* cfg: the model's; T: of the rows; data_rows: 0 if not known. Takes the rest from the options and puts what it chose back into them. Exit 2
 * if the command line cannot be met. */
void plan_make(Plan *p, const Config *cfg, int T, uint64_t data_rows);
void plan_optim(Plan *p, double weight_decay);  /* p->os and p->group, from the options */
void plan_horizon(Plan *p, int64_t steps);      /* an open plan's number of steps, measured */
SchedKind plan_schedule(void);      /* that of --schedule */
void plan_count(Plan *p);           /* memory and work; allocates nothing of the model's size */
/* The adapter of --lora on m, its parameters 0; NULL: none. Exit 2 if it makes no sense */
Lora *plan_lora(Model *m, int train);
int plan_model(void);               /* how the model is to be made: model_new() */
int plan_freeze(Model *m);          /* by --freeze; how many tensors. Exit 2 if it makes no sense */
void plan_groups(const Config *cfg, int64_t n[PG_COUNT]);       /* parameters per group */
extern const char *const group_name[PG_COUNT];

/* The plan as text, and as the members of a JSON object (no braces). data_rows 0: not known. */
void plan_text(const Plan *p, uint64_t data_rows, Buf *b);
void plan_json(const Plan *p, uint64_t data_rows, Buf *b);

#endif
