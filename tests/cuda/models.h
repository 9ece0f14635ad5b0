/* models.h -- small models of two layers for the tests of this folder. */
#ifndef MODELS_H
#define MODELS_H
#include "gpt/llama.h"

/* experts: how many, of which two are picked; 0: dense, and tied */
static inline Config small_llama(int T, int V, int experts, double dropout)
{
    Config c = { .family = &llama_family, .T = T, .V = V, .Vp = V, .L = 2, .H = 4, .K = 2, .C = 64,
                 .D = 32 };
    c.llama = (LlamaConfig){ .F = 150, .E = experts, .top = experts ? 2 : 0,
                             .dropout = dropout, .attn_dropout = 2 * dropout,
                             .Fe = experts ? 40 : 0, .qk_norm = 1, .tied = !experts, .norm_top = 1,
                             .eps = 1e-6, .theta = 10000, .aux = 0.01, .init = 0.02 };
    return c;
}
#endif
