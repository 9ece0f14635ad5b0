/* The emulator ends the program on what a device would refuse or do wrong (tests/emulator/refused.cpp):
 * each in a process of its own, whose message is looked at. And a missing __syncwarp shows in one of
 * the orders of lanes. */
#define HARNESS_CUDA
#include "../ops/harness.h"

#ifndef ON_DEVICE
#include <sys/wait.h>
#include <unistd.h>
void refused_run(int what, int *p);
int refused_race(int *p, int step);

static const struct { const char *name, *says; } cases[] = {
    { "99 KiB of static and dynamic shared memory", "" },
    { "4 bytes more", "of static and" },
    { "more than 99 KiB of dynamic shared memory", "invalid argument" },
    { "more than 48 KiB that were not asked for", "of static and" },
    { "65536 blocks in y", "no launch" },
    { "1056 threads", "no launch" },
    { "no blocks", "no launch" },
    { "a store past the end of static shared memory", "past its end" },
    { "a store past the end of dynamic shared memory", "past its end" },
    { "a vector load that is not aligned", "16 bytes at once" },
};
int main(void)
{
    const Ops *o = tier_ops("cuda", 1);
    int *p = o->alloc(4096);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        char said[4096] = "";
        size_t n = 0;
        int fd[2], status = 0;
        if (pipe(fd)) return 1;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            dup2(fd[1], 2);
            refused_run(i, p);
            _exit(0);
        }
        close(fd[1]);
        for (ssize_t r; n < sizeof said - 1 && (r = read(fd[0], said + n, sizeof said - 1 - n)) > 0;)
            n += (size_t)r;
        close(fd[0]);
        waitpid(child, &status, 0);
        const bool went = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        ok(*cases[i].says ? !went && strstr(said, cases[i].says) : went, "%s: %s", cases[i].name,
           *cases[i].says ? "refused" : "taken");
        if (*said && !*cases[i].says) printf("# %s\n", said);
    }
    for (int step = -1; step <= 1; step += 2) {
        unsigned seen = 0;
        for (int s = 0; s < VARIANTS; s++) {
            cuemu_schedule(s);
            seen |= (unsigned)refused_race(p, step) << s;
        }
        ok(seen == (step > 0 ? 5 : 10), "no __syncwarp before lane %+d is read: seen by schedules %x",
           step, seen);
    }
    o->free(p, 4096);
    return done();
}
#else
int main(void)
{
    skip("for the emulator", "what is refused");
    return done();
}
#endif
