/* ckpt_optim.h -- between ckpt.c and ckpt_optim.c: optimizer-RANK.safetensors. Each rank's file has
 * the moments that are its to keep; those of a table are some of its rows, and the files have them in
 * the order of ranks. */
#ifndef GPT_CKPT_OPTIM_H
#define GPT_CKPT_OPTIM_H
#include "gpt/ckpt_dir.h"
#include "gpt/optim.h"
#include "gpt/safetensors.h"

StWriter *optim_writer(const Optim *o);                 /* this rank's file, not yet written */
void optim_write(Commit *c, StWriter *w, const Optim *o);       /* frees w */

/* All files of a checkpoint; within a snapshot. Dies if one is missing or is not of it. */
typedef struct OptimFiles OptimFiles;
OptimFiles *optim_open(const char *dir);
/* This rank's moments, and the step; closes them. Dies if they are another model's. */
void optim_read(OptimFiles *v, Optim *o);

/* ckpt.c: n numbers from the device into the file, in pieces that fit chunk [CKPT_CHUNK]. */
void ckpt_copy_out(StWriter *w, const Ops *ops, Store from, int64_t n, real *chunk);
/* Elements [first, first + n) of t to the device, likewise. */
void ckpt_copy_in(const StFile *f, const StTensor *t, int64_t first, int64_t n, const Ops *ops,
                  Store to, real *chunk);
void ckpt_need_reals(const StTensor *t, const char *path);      /* dies if it has other numbers */
/* A tensor of p's: what are bfloat16s here are in the file as well. */
void ckpt_add_kept(StWriter *w, const Param *p, const char *name, int ndim, const int64_t *dim);

#endif
