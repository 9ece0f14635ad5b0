/* weights.h -- the tensors of a model directory: of one safetensors file, or of several that
 * model.safetensors.index.json lists ({"weight_map": {tensor: file, ...}}, as Hugging Face has
 * them).
 *
 * Every listed file must be there, be sound, and have the tensors that the index says; no tensor
 * may be in two of them. Otherwise dies, naming file and tensor. */
#ifndef GPT_WEIGHTS_H
#define GPT_WEIGHTS_H
#include "gpt/safetensors.h"

#define WEIGHTS_INDEX "model.safetensors.index.json"

typedef struct Weights {
    char *name;                     /* for messages: the one file, or the index */
    struct WeightFile { char *path; StFile *f; } *file;
    int n;
} Weights;

Weights *weights_file(const char *path);
Weights *weights_index(const char *path);           /* its files are in the same folder */
void weights_close(Weights *w);
/* The tensor of that name and, in *file, which of the files has it; NULL: none has. */
const StTensor *weights_find(const Weights *w, const char *name, int *file);
int64_t weights_elements(const Weights *w);         /* of all tensors */

#endif
