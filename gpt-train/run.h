/* run.h -- one training run: what it holds, its step, its loop, its records. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H
#include "gpt/bpb.h"
#include "gpt/decode.h"
#include "gpt/micro.h"
#include "base/progress.h"
#include "ops/comm.h"
#include "mlog.h"
#include "plan.h"
#include <signal.h>

/* What a resume needs besides weights and optimizer. Random numbers need no place here: every one
 * is drawn from a stream named by the seed and its use. Nothing here depends on the clock. */
typedef struct RunState {
    int64_t step;                   /* steps done */
    uint64_t pos;                   /* rows taken: a position of data.h */
    int64_t skipped;                /* steps without a target that counts */
    int64_t nonfinite;              /* steps whose loss or gradient was not finite, left out */
    uint64_t targets;               /* targets trained on */
    int64_t warm;                   /* steps of the optimizer before this run: --sft */
    double loss_mean, loss_var;     /* of late, for the z-score */
    double loss_ema;                /* of the steps' losses, factor 0.9, biased to 0 at the start */
    double val_bpb, best_bpb;       /* NaN: not evaluated yet */
    int64_t val_step;               /* step of val_bpb; -1: not evaluated yet */
} RunState;
static inline int64_t state_updates(const RunState *s)     /* steps of the optimizer in this run */
{
    return s->step - s->skipped - s->nonfinite;
}

/* What depends on the clock is not in RunState: nothing that is trained may come to depend on it,
 * but through --hours, once. */
typedef struct RunClock {
    double before, began;           /* seconds of earlier sessions; now_seconds() of this one's start */
    double eval;                    /* seconds of the last evaluation */
    double step;                    /* seconds a step takes from end to end, a running mean; 0: none */
    int64_t from_step;              /* --hours: the steps after this one are measured; 0: none yet */
    double measured;                /* their seconds */
} RunClock;

typedef struct Run {
    Plan plan;
    RunState st;
    const Ops *ops;
    const Comm *comm;               /* for arrays of ops */
    Model *m; Optim *o;
    Model *trained;                 /* what the optimizer works on: m, or lora's parameters */
    Lora *lora; uint64_t base_hash; /* NULL: none; of m's weights, which do not move */
    Tok *tok; int has_tok;          /* the directory holds it already */
    int has_ends;                   /* and what ends.h writes beside it */
    int64_t saved;                  /* step of the checkpoint there; -1: none of this run */
    int over;                       /* --force: an earlier run is there, and not yet overwritten */
    int unsaved;                    /* it lacks an evaluation made since, of the same step */
    Data *train, *val;              /* val NULL: none */
    Tape tape;
    int32_t *x, *y;                 /* host [B,T]: the micro-batch */
    int32_t *doc;                   /* with --doc-mask: where each token's document starts */
    Micro micro;                    /* the same on the device */
    BpbEval eval;
    Gen *gen;                       /* made for the first sample */
    struct Rl *rl;                  /* rl.h; NULL: training on rows */
    MetricsLog log;
    Buf line;                       /* the record being written */
    RunClock clock;
    int failed_saves;
    Progress progress;
    Buf shown;                      /* the step line */
} Run;

/* One step's numbers, for its record. loss is NaN for a step that had no target or was skipped;
 * loss_z: by how many deviations it is above the mean of the last ones. */
typedef struct StepLog {
    double aux_loss;                /* of the experts' load, beside the loss */
    double loss, loss_z, lr_mult, momentum, weight_decay, grad_norm, seconds;
    double lr;                      /* of the matrices */
    uint64_t tokens;
} StepLog;

/* To the end, or to --stop-at, or to a signal; saves. Returns the signal, or 0. */
int run_loop(Run *r);
int64_t run_end(const Run *r);      /* the step where it ends or pauses */
int run_every(int64_t n, int64_t step, int64_t last);   /* at step, or at the last one? n 0: never */
void run_save_due(Run *r);          /* after a step: by --save-every, or asked for */
void run_save_last(Run *r);         /* dies if that fails */
/* What is measured and shown is the running mean of the weights, if there is one: between two of these
 * the model has it for its weights. */
void run_mean(Run *r);

/* main.c: the directory that the model comes from; NULL: none */
const char *run_source(void);

/* ranks.c: of the ranks of a run (ops/comm.h). All answer alike where ranks have to. */
void ranks_begin(void);             /* once the options are there: which rank, threads */
const char *ranks_device(void);     /* --device, or this rank's own; once a resume has restored it */
static inline int is_first(void) { return comm_host()->rank == 0; }
int ranks_stop(void);               /* the signal that is to end the run; 0: none at any rank */
int ranks_any(int x);               /* is it so at any rank? */
double ranks_first(double x);       /* what rank 0 has */
void ranks_equal(const Run *r);     /* dies unless all have the same weights */
Bpb ranks_bpb(const Bpb *b);        /* of all ranks' rows */
void ranks_options(void);           /* dies on what several ranks cannot do */
/* Where this rank's micro-batch i of the step begins; the position of its row i. */
uint64_t ranks_turn(const Run *r, int64_t i);
uint64_t ranks_row(const Run *r, uint64_t i);

/* step.c */
void run_batch(Run *r);             /* ids of a micro-batch, here and on the device; the tape */
void run_buffers(Run *r);           /* all that the loop needs, once model and data are there */
/* One step; dies if it is not finite. 0 if a signal came in between: then nothing has changed. */
int run_step(Run *r, StepLog *s);
/* Adds to the gradient that of (sum of losses) / valid over B rows from pos on; B at most plan.B. */
void step_batch(Run *r, uint64_t pos, int B, uint64_t valid);

/* health.c */
/* This step's loss or norm is x: names the row, and dies unless --skip-nonfinite bears one more. */
void health_bad(Run *r, const char *what, double x, uint64_t valid);
void health_weights(Run *r);        /* dies if they are not finite: nothing to save */
double health_spike(RunState *s, double loss);      /* its z-score, NaN in the first steps */
/* The step's first micro-batch again, with the weights of now and in fp32 (if the run is in fp32:
 * with the plain C kernels): says how far loss and gradient are off. */
void health_check(Run *r);

/* save.c: 0, or -1 with the reason told, the old checkpoint still whole, and the failure counted */
int run_save(Run *r);
void run_keep_again(Run *r);         /* resumed: what a kill between save and --keep left out */
void run_save_best(Run *r);         /* the weights as they are, into DIR/best */

/* horizon.c: --hours. Plans the number of steps when enough of them are measured; then saves. */
void horizon_step(Run *r, const StepLog *s);

/* stop.c */
extern volatile sig_atomic_t stopped_by;        /* the signal that is to end the run; 0: none yet */
extern volatile sig_atomic_t save_asked;        /* SIGUSR1 has come */
void signals_begin(void);                       /* at the start; those that stop: for the loop */
void stop_on_signals(void);

/* sft.c: rates of the model in --init, if it says how it was trained; dies on rows without masks;
 * the optimizer's buffers. */
void inherit_rates(Arena *keep);
void sft_require(const Data *d);
void sft_warm(Run *r);

/* lora.c: of a run that trains an adapter, whose directory has no model. Each does nothing without. */
void lora_option(Arena *keep);      /* --adapter DIR: --lora says what it is */
void lora_base(const Json *state, const char *file, Arena *keep);   /* a resume: --init is the model */
void lora_open(Run *r, const Json *state, const char *file);        /* r->lora, r->trained */
void lora_state_json(const Run *r, Buf *b);
void lora_merge_run(void);          /* --merge */

/* state.c */
void state_json(const Run *r, Buf *b);
/* Fills r->st from state.json; dies naming the file if it is not what it must be. The member
 * "options" is for options_restore(). */
void state_restore(Run *r, const Json *j, const char *file);
int64_t state_int(const Json *j, const char *key, const char *file);     /* a count, or it dies */
double state_num(const Json *j, const char *key, const char *file);      /* null: NaN */
void clock_json(const Run *r, Buf *b);
void clock_restore(Run *r, const Json *j, const char *file);    /* j NULL: nothing to go by */
double clock_seconds(const Run *r);             /* of training, all sessions */

/* show.c: the step line, and status.json for other terminals */
void show_step(Run *r, const StepLog *s);
void show_pace(Run *r);             /* a step is done */
double show_eta(const Run *r);                  /* seconds left; NaN: not known */
double loss_mean(const Run *r);                 /* of the last steps; NaN: none yet */
void status_write(const Run *r, const StepLog *s, const char *phase);   /* s NULL: none yet */
void status_show(const char *dir, int json);    /* gpt-train --status */

/* state_data.c */
void state_data_json(const Data *d, Buf *b);
/* Brings the shards into the order of the run that is resumed; dies on other rows. */
void state_data(Data *d, const Json *state, const char *file);

/* metrics.c: one JSON object a line, flushed */
void metrics_config(Run *r);
void metrics_step(Run *r, const StepLog *s, const Bpb *val);   /* val NULL: not evaluated now */
void metrics_eval(Run *r, const Bpb *val);      /* before the first step, or made up for later */
void metrics_plan(Run *r);                      /* --hours: the number of steps is known now */
void metrics_sync(Run *r);
void metrics_sample(Run *r, const char *prompt, const char *text, size_t n);

void metrics_check(Run *r, const Ops *ops, double loss, double grad);  /* differences */

/* sample.c: continues every prompt greedily, to stderr and to the metrics */
void sample_all(Run *r);

#endif
