/* rl.h -- reinforcement learning: prompts, answers that the model samples to them, rewards from a
 * filter, the loss of groups of answers (lib/gpt/rl.h), the step.
 *
 * Everything random is drawn from a stream named by the seed, the step and the use, so that a resume
 * needs no state of it. What was sampled is trained on as ids, never as text encoded anew. */
#ifndef TRAIN_RL_H
#define TRAIN_RL_H
#include "base/filter.h"
#include "gpt/rl.h"
#include "run.h"
#include "text/chat.h"

/* rl_prompts.c -- all in memory: about 4 bytes a token, and the rows as they stand. */
typedef struct Prompt {
    Ids ids;                        /* up to where the answer begins */
    char *text; size_t text_len;    /* the last user's words, or the whole prompt */
    char *row; size_t row_len;      /* as in the file: the reward's reference */
} Prompt;
typedef struct Prompts {
    Prompt *p; size_t n, cap, longest;      /* longest: ids of a prompt */
    uint64_t hash;                  /* of all rows: a resume needs the same ones */
} Prompts;
/* Adds rows {"messages": [...]}, of which an assistant's last message is left out, or {"prompt":
 * "..."}, for models without turns. bos: the id that begins such a text, -1 none; most: ids that a
 * prompt may have. Dies "FILE: line N: why". */
void prompts_read(Prompts *v, const char *path, TokEnc *enc, Chat *chat, int bos, size_t most);
void prompts_free(Prompts *v);

/* rl_sample.c */
typedef struct Answer {
    Ids ids;                        /* the end token too, if it was drawn */
    Buf mask;                       /* a byte per id: 1 it was drawn, 0 a tool put it there */
    double *logp, *ref; size_t cap; /* per id, of the model at temperature 1; 0 where mask is 0;
                                       --kl: of the reference, once it was asked */
    double entropy;                 /* sum over the drawn ids, of the whole distribution; nats */
    int ended;                      /* 0: cut */
    double reward;                  /* NAN: not judged */
} Answer;
/* Samples n answers to p from stream. 0 if a signal came in between. */
int rl_sample(Run *r, const Prompt *p, Answer *a, int n, double temperature, uint64_t stream);
void answers_free(Answer *a, int n);

/* rl_reward.c: the filter, and the file of --log-rollouts */
typedef struct Judge Judge;
Judge *judge_open(const Tok *tok, Chat *chat, int64_t step);    /* step < 0: a new run */
/* The rewards of n answers to each of k prompts, a [k,n]; phase is for the log. 0: a signal came.
 * Dies if the filter fails, once the run is saved. */
int judge(Judge *j, Run *r, const Prompt *const *p, Answer *a, int k, int n, const char *phase);
void judge_end(Judge *j, Run *r);   /* nothing more is asked; ends the run if there were more answers */
int judge_failed(const Judge *j);   /* the log could not be written */
void judge_close(Judge *j);

enum { RL_PASSES = 22 };            /* k = 1, 2, 4, ... of pass@k */
typedef struct Passed {             /* of an evaluation, all means over prompts */
    double at[RL_PASSES], reward;
    int kinds;                      /* entries of `at` */
    int64_t prompts, unjudged;
} Passed;

typedef struct RlLog {              /* one step's numbers */
    double loss, kl, reward, deviation, entropy, grad_norm, seconds;
    double lr, lr_mult;
    double check;                   /* --check-every: log-probabilities computed again, the largest
                                       difference; NAN */
    int judged, unjudged;           /* answers */
    int equal;                      /* groups whose rewards are all equal: they teach nothing */
    int cut, clipped;               /* answers cut by --max-tokens; tokens clipped */
    int64_t tokens, drawn;          /* of the answers; those that the model chose */
} RlLog;

/* What a run of reinforcement learning has besides. */
typedef struct Rl {
    Prompts train, val;
    TokEnc *enc;
    Chat *chat;                     /* NULL: the tokenizer has no turns */
    Tool tool; int has_tool;
    unsigned char *stop;            /* [V] */
    Judge *judge;
    Model *ref; char *ref_dir;      /* --kl: of --init, where it was; NULL */
    uint64_t ref_hash;              /* of its weights */
    RlSettings loss;
    real *wt;                       /* host [B,T]: targets' weights, or their losses */
    double mem_cache;               /* bytes of what decoding keeps, and of the reference model */
    /* kept in state.json */
    int64_t updates;                /* steps of the optimizer */
    double reward_ema;              /* of the steps' mean rewards, factor 0.9, biased to 0 */
    int64_t judged_steps;           /* steps with any reward: how many reward_ema has seen */
    double pass, best_pass;         /* pass@1 of the last evaluation (of step st.val_step), the best */
} Rl;

/* rl_open.c */
Rl *rl_new(void);
void rl_prepare(Run *r, const Config *c);       /* prompts, plan */
void rl_begin(Run *r);              /* filter, buffers: once the model is there */
void rl_free(Run *r);

/* rl_step.c: one step, a [examples, samples] its answers; 0 if a signal came in between: then nothing has changed */
int rl_step(Run *r, Answer *a, RlLog *s);

/* rl_run.c */
int rl_loop(Run *r);                /* the signal, or 0 */

/* rl_state.c */
void rl_state_json(const Run *r, Buf *b);
void rl_state_restore(Run *r, const Json *j, const char *file);
void rl_state_check(const Run *r, const Json *j, const char *file);    /* the same prompts? */

/* rl_log.c */
void rl_log_step(Run *r, const RlLog *s);
void rl_log_eval(Run *r, const Passed *e);
void rl_show(Run *r, const RlLog *s);
double rl_reward_mean(const Rl *rl);            /* of the last steps; NaN: none yet */
void rl_plan_text(const Run *r, Buf *b);
void rl_plan_json(const Run *r, Buf *b);        /* members of an object */
#endif
