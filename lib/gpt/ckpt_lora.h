/* ckpt_lora.h -- between ckpt.c and ckpt_lora.c: adapters' files. */
#ifndef GPT_CKPT_LORA_H
#define GPT_CKPT_LORA_H
#include "gpt/ckpt.h"
#include "gpt/safetensors.h"

enum { CKPT_CHUNK = 1 << 20 };      /* elements on the host at a time */

/* adapter_config.json. base: the model's directory. */
void lora_config_json(const Lora *l, const char *base, Buf *b);
/* The tensor of p's name and shape to the device, through chunk [CKPT_CHUNK]; dies if it is not
 * there or is another. path is for messages. */
void ckpt_read(const StFile *f, const char *path, const Param *p, const Ops *ops, Store to,
               real *chunk);

#endif
