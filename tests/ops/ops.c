/* Every operation of the CPU back-end against a naive one, in float and (REAL_F64) in double. */
#include "cases.h"

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (argc < 2 || strcmp(argv[1], tests[i].name) == 0) check_op(&tests[i]);
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (tier_runs(tiers[i])) check_aux(tier_ops(tiers[i], 1));
    return done();
}
