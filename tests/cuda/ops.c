/* Every operation of the CUDA back-end, its kernels run by the emulator, against a naive one in double
 * precision: the cases of the CPU back-end, in four schedules, which must agree to the bit. With an
 * argument: that operation only. Attention without dropout has cases of its own in attn.c. */
#define HARNESS_CUDA
#include "../ops/cases.h"

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        const char *name = tests[i].name;
        if (argc < 2 ? strcmp(name, "attn") && strcmp(name, "attn_kv") : !strcmp(argv[1], name))
            check_op(&tests[i]);
    }
    if (argc < 2 || !strcmp(argv[1], "mix_norm")) check_pairs();
    if (argc < 2) check_aux(tier_ops("cuda", 1));
    return done();
}
