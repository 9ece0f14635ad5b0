/* model.h -- a model: its configuration, its parameters in one block with a table, its forward
 * pass.
 *
 * The table says where each parameter lies; matrices of one shape lie side by side, so that the
 * optimizer works on stacks. A checkpoint, an export and the optimizer groups are loops over the
 * table. Names are the originals'.
 *
 * With a real Act all parameters are one array of reals w, all gradients another, g. With a
 * bfloat16 one, parameters are kept in three ways (Keep), which are three sections of the one
 * numbering that Param.off counts in:
 *   KEEP_HALF   [0, nhalf)           bfloat16s, in c; gradients too, in gh, and both moments
 *   KEEP_SPLIT  [nhalf, nact)        reals in two halves (ops.h, Store), c and lo; gradients reals
 *   KEEP_REAL   [nact, n)            reals, in w; gradients reals
 * Whoever handles them asks for a Store: of one parameter, or of a whole section.
 *
 * A Model owns its arrays. Functions die on what no caller can mend (no memory, a bad file);
 * config_check() returns what is wrong as text.
 */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H
#include "base/json.h"
#include "gpt/narrow.h"
#include "gpt/tape.h"

typedef struct Family Family;

/* What only the Llama family has; names of Hugging Face's config.json. */
typedef struct LlamaConfig {
    int F;                          /* intermediate_size */
    int E, top, Fe;                 /* num_experts (0: dense), num_experts_per_tok,
                                       moe_intermediate_size */
    int qk_norm, tied, norm_top;    /* by model_type; tie_word_embeddings; norm_topk_prob */
    double eps, theta, aux;         /* rms_norm_eps, rope_theta, router_aux_loss_coef */
    double init;                    /* initializer_range */
    double dropout, attn_dropout;   /* of embeddings and of what attention adds; of its weights */
    struct Rope {                   /* rope_scaling; none if factor is 0 */
        enum RopeKind { ROPE_YARN, ROPE_LLAMA3, ROPE_LINEAR } kind;
        int original;               /* original_max_position_embeddings */
        double factor, fast, slow;  /* beta_fast and beta_slow, llama3's high_freq_factor and
                                       low_freq_factor: turns within the original context */
        double attention;           /* attention_factor, YaRN's */
        int minimind;               /* see llama_rope.c */
    } rope;
} LlamaConfig;

typedef struct Config {
    const Family *family;
    int T;                          /* longest context */
    int V, Vp;                      /* vocab_size; as stored, nanochat's padded to a multiple of 64 */
    int L, H, K, C;                 /* layers, heads, key/value heads, channels */
    int D;                          /* head size; 0: C / H. See head_size() */
    char window[33]; /* nanochat, window_pattern: S and L, tiled over the layers; the last is L */
    Narrow stored;                  /* what the weights' file gets; fp32 but in an export */
    LlamaConfig llama;
} Config;

static inline int head_size(const Config *c) { return c->D ? c->D : c->C / c->H; }

/* The depth dial: C = depth * aspect rounded up to head_dim, H = K = C / head_dim, L = depth. */
Config config_depth(int depth, int aspect, int head_dim, int T, int V, const char *window);
const char *config_check(const Config *c);                  /* NULL if it is sound */
int config_window(const Config *c, int layer);              /* tokens before i that i sees */
int config_has_ve(const Config *c, int layer);
void config_json(const Config *c, Buf *b);                  /* config.json, the family's keys */
/* NULL, or what is wrong. The family is that of model_type, if there is one. */
const char *config_parse(Config *c, const Json *j);
/* Counts from the parameter table, nothing allocated on a device. FLOPs: a multiply and an add
 * are 2. */
int64_t config_params(const Config *c, int group); /* parameters of a ParamGroup; -1: all */
int64_t config_active_params(const Config *c);  /* those that one token meets */
/* Bytes of keys and values of B rows of T positions, in numbers of `size` bytes. */
double config_cache_bytes(const Config *c, int64_t B, int64_t T, size_t size);
int64_t config_scaling_params(const Config *c);             /* transformer matrices + lm_head */
int64_t config_matmul_params(const Config *c); /* all linear maps, gates included, embeddings not */
double config_flops_per_token(const Config *c);             /* forward and backward */
double config_decode_flops(const Config *c,
                           int64_t context); /* one token, the context-th with it */
double config_prefill_flops(const Config *c, int64_t context);  /* the first `context` tokens */

typedef enum {
    PG_LM_HEAD,
    PG_WTE,
    PG_VALUE_EMBEDS,
    PG_RESID,
    PG_X0,
    PG_SMEAR,
    PG_MATRIX,
    PG_NORM,                        /* gains */
    PG_COUNT
} ParamGroup;

/* See above. A family says KEEP_HALF of tables that are bfloat16s in the original: it holds while a
 * model trains, unless MODEL_MASTERS is asked for; KEEP_SPLIT of what linear maps read. */
typedef enum Keep { KEEP_HALF, KEEP_SPLIT, KEEP_REAL, KEEP_COUNT } Keep;

typedef struct Param {
    const char *name;
    int rows, cols;                 /* a vector [n] has rows n, cols 1, ndim 1 */
    int ndim;
    ParamGroup group;
    Keep keep;
    int64_t off, n;                 /* in elements */
    enum ParamInit { INIT_CONST, INIT_NORMAL, INIT_UNIFORM, INIT_LINEAR } init;
    int frozen;                     /* not trained: its Var has no gradient */
    double a, b; /* CONST a; NORMAL deviation a; UNIFORM [a,b); LINEAR from a to b */
    Var var;
} Param;

typedef struct Stack {
    int first, count, rows, cols;
    int64_t off;
} Stack; /* PG_MATRIX params of one shape */

typedef struct Cache Cache;         /* decode.h */

typedef struct Model {
    Config cfg;
    const Ops *ops;
    Param *param; int nparam;
    Stack *stack; int nstack;
    int64_t n, nhalf, nact;         /* elements in all, padding between tensors included; see above */
    real *w;                        /* [n - nact] */
    Act *c; uint16_t *lo;           /* [nact]; [nact - nhalf] */
    real *g; uint16_t *gh;          /* [n - nhalf]; [nhalf]. NULL: not for training */
    real *rope;
    int rope_T; /* cos and sin of rope_T positions [rope_T][D/2][2]; grown on demand */
    double *sum;                    /* device, one: what grad_norm() adds up in; NULL like gradients */
    real *aux;                      /* device [L]: the auxiliary losses of the last pass that
                                       records, before their coefficient; NULL without experts */
    double aux_scale;               /* what the gradient of their sum is multiplied by; 1 */
    int dropping;                   /* passes that record drop, as the configuration says, by numbers */
    uint64_t drop_seed, drop_row;   /* of this seed; the first row has this one, see ops/drop.h, */
    const uint64_t *drop_from;      /* plus this one, which is on the device; NULL: 0 */
    Var *lm_head;                   /* [Vp,C]; the embedding where the two are tied */
    void *fam;                      /* what the family keeps: its Vars by layer */
    char *merged;                   /* hashes of the adapters that its weights took in, malloced;
                                       NULL: none. See lora.h */
    void (*on_act)(void *arg, const char *name, Var *x);
    void *on_act_arg; /* tests: see activations */
} Model;

/* With gradients; with masters of what the original keeps as bfloat16s: where steps are small, or
 * numbers must come out as they went in, rounding would lose them. Implied without MODEL_TRAIN. */
enum { MODEL_TRAIN = 1, MODEL_MASTERS = 2 };
Model *model_new(const Ops *ops, const Config *c, int how);         /* parameters zero */
void model_free(Model *m);
void model_init(Model *m, uint64_t seed); /* initial values; same for any back-end */
Param *model_find(const Model *m, const char *name);                /* NULL if there is none */
void model_set(Model *m, const Param *p, const real *host);         /* p->n values */
void model_get(const Model *m, const Param *p, real *host);
uint64_t model_hash(const Model *m); /* of all weights, in their order */
/* No gradients for tensors whose name matches (fnmatch); before optim_new(). Returns how many. */
int model_freeze(Model *m, const char *pattern);
void model_exchange(Model *m, real *w); /* weights for w [n], and back by a second time */
/* A section of weights or of gradients, and how many elements that is. */
Store model_weights(const Model *m, Keep k, int64_t *n);
Store model_grads(const Model *m, Keep k, int64_t *n);
int64_t model_section(const Model *m, Keep k, int64_t *n);          /* the same: where it begins */
double model_bytes(const Model *m);     /* of weights */
double model_grad_bytes(const Model *m);
void model_zero_grad(Model *m);
void model_positions(Model *m, int T); /* rotary table for positions < T */

/* The stack of blocks: ids idx [B,T] (device) -> normed hidden states [B*T, C]. With a cache the
 * rows continue at their cached positions, and the cache takes up what they add. */
Var *model_forward(Model *m, Tape *t, const int *idx, int B, int T, Cache *cache);
/* The same with the documents of a row kept apart, as doc [B,T] (device, see ops.h) says; without a
 * cache. doc NULL: a row is one. */
Var *model_forward_docs(Model *m, Tape *t, const int *idx, const int *doc, int B, int T);
/* loss [B*T] for targets tgt (-1: ignored); see nn_loss. scale 0: no gradient. */
void model_loss(Model *m, Tape *t, Var *x, const int *tgt, const real *wt, int N, real *loss,
                double scale);
/* logits [N,V] (device) of N rows of x chosen by rows [N] (device indices into x; NULL: the first
 * N) */
real *model_logits(Model *m, Tape *t, Var *x, const int *rows, int N);

/* What a family gives. Its name is for messages. */
struct Family {
    const char *name;
    double softcap;                 /* of the logits; 0: none */
    int shorter;                    /* rows to train on may be shorter than T */
    int prev;                       /* a cache keeps each row's last embedding */
    const char *(*check)(const Config *c);
    const char *(*parse)(Config *c, const Json *j);
    void (*json)(const Config *c, Buf *b);
    int (*window)(const Config *c, int layer);
    /* rotary frequencies [D/2]; returns what cosine and sine are multiplied by */
    double (*rotary)(const Config *c, double *freq);
    void (*params)(Model *m);       /* fills the table from m->cfg */
    void (*bind)(Model *m);         /* fills m->fam and m->lm_head once the arrays are there */
    Var *(*forward)(Model *m, Tape *t, const int *idx, const int *doc, int B, int T, Cache *cache);
};
extern const Family nanochat_family, llama_family;

/* For families, while they read config.json: the integer of a key, from lo to hi; fallback if it is
 * absent or null and fallback is not negative. Text of what is wrong goes to *bad, once. */
enum { MAX_DIM = 1 << 24, MAX_LAYERS = 4096 };
int config_int(const Json *j, const char *key, int lo, int hi, int fallback, const char **bad);
double config_num(const Json *j, const char *key, double lo, double hi, double fallback,
                  const char **bad);
int config_bool(const Json *j, const char *key, int fallback, const char **bad);
/* Text made to last until the next call. */
const char *config_wrong(const char *fmt, ...) PRINTF(1, 2);

/* For families, while they list their parameters (KEEP_SPLIT for matrices, KEEP_REAL for what has
 * one dimension, if nothing else is said then): matrices of one shape one after the other. Vars
 * are found by name afterwards (model_var dies on a name that is not there: our mistake). */
Param *param_add(Model *m, ParamGroup g, int ndim, int rows, int cols, const char *name_fmt, ...)
    PRINTF(6, 7);
void params_free(Model *m);
/* For what has a table of parameters: its stacks, arrays and Vars, all zero. */
void model_arrays(Model *m, int how);
void model_want_aux(Model *m); /* m->aux, if there are experts */
Var *model_var(Model *m, const char *name_fmt, ...) PRINTF(2, 3);
void model_seen(Model *m, const char *name, Var *x); /* tells on_act, if there is one */

#endif
