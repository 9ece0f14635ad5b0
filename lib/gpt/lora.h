/* lora.h -- low-rank adapters of a model's linear maps (Hu et al. 2021, arXiv 2106.09685):
 *
 *     y = x W^T + s (x A^T) B^T,    A [r,C] random at first, B [O,r] zero, s = alpha / r
 *
 * W is as it is: a model that was made without gradients stays without. The adapter's own
 * parameters are a Model as far as tables, arrays, optimizer and checkpoint go, but one that has no
 * forward pass: that of the adapted model runs it. Names are those of Hugging Face's PEFT.
 *
 * What can be adapted are the linear maps of attention, MLP and experts; routers, gates of value
 * embeddings, embeddings and lm_head are not. A layer's experts are adapted together. */
#ifndef GPT_LORA_H
#define GPT_LORA_H
#include "gpt/model.h"

typedef struct LoraSpec {
    int r;
    double alpha;
    char *targets;                  /* separated by commas, malloced; see lora_new() */
} LoraSpec;

/* "r=8,alpha=16,targets=q,v", any of the three left out: 8, 2 r, "q,v". Text of what is wrong, or
 * NULL. */
const char *lora_parse(LoraSpec *s, const char *text);
char *lora_text(const LoraSpec *s);             /* what lora_parse() reads as s; malloced */
void lora_spec_free(LoraSpec *s);

typedef struct Lora {
    Model *m, *p;                   /* adapted; the adapter's parameters, owned */
    int r;
    double alpha;
    LowRank *low;                   /* [nlow], one for a matrix of m */
    const Param **of; int nlow;     /* [nlow] that matrix */
} Lora;

/* An adapter whose parameters are 0, attached to m. A target is "all"; q, k, v, o, gate, up or
 * down, by which both families' maps are meant; the last part of a module's name ("c_fc"); or a
 * pattern (fnmatch) that its whole name matches ("model.layers.[01].*"). NULL, and *bad what is
 * wrong, if one matches no map. m may be of the counting back-end. */
Lora *lora_new(Model *m, const LoraSpec *s, int train, const char **bad);
void lora_free(Lora *l);                        /* m goes on without; NULL is nothing */
void lora_attach(Lora *l, int on);              /* off: m is as it was before */
void lora_init(Lora *l, uint64_t seed);         /* A uniform in +-1/sqrt(C), as PEFT has it; B 0 */
/* W += s B A in all of them, summed in double; notes the adapter in m->merged; takes it off. */
void lora_merge(Lora *l);
int lora_merged(const Model *m, uint64_t hash); /* is the adapter of this model_hash() in m? */
char *lora_targets(const Lora *l);              /* for the configuration; the shortest; malloced */

/* The module of a matrix, "model.layers.0.self_attn.q_proj"; malloced. */
char *lora_module(const Param *w);
#define LORA_PREFIX "base_model.model."         /* before a module's name in an adapter's file */

#endif
