/* shape.h -- the models that the benches know: nanochat's of a depth, or with a name one of the Llama
 * family: a preset of gpt-train's, qwen3-0.6b, or a config.json. */
#ifndef SHAPE_H
#define SHAPE_H
#include "base/err.h"
#include "gpt/ckpt.h"
#include "gpt/llama.h"
#include <string.h>
#include <unistd.h>

/* Qwen3-0.6B, of its config.json */
static const Config qwen3 = {
    .family = &llama_family, .T = 40960, .V = 151936, .Vp = 151936, .L = 28, .H = 16, .K = 8,
    .C = 1024, .D = 128, .llama = { .F = 3072, .qk_norm = 1, .tied = 1, .norm_top = 1, .eps = 1e-6,
                                    .theta = 1e6, .init = 0.02 },
};

/* name NULL: of that depth, with V tokens. T is what the rows have. */
static Config shape(const char *name, int depth, int T, int V)
{
    Config c;
    if (!name) return config_depth(depth, 64, 128, T, V, "SSSL");
    if (strcmp(name, "qwen3-0.6b") == 0) c = qwen3;
    else if (!llama_preset(&c, name)) {
        if (access(name, F_OK))
            die_usage("--model: '%s' is neither tutorial, minimind, minimind-moe, qwen3-0.6b nor a file",
                      name);
        c = config_file(name);
    }
    c.T = T;
    return c;
}
#endif
