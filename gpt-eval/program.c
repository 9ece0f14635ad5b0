/* Programs that a model wrote are run by another program, share/tasks/humaneval-run, which keeps
 * them in a sandbox. It reads the program on its standard input; its exit status tells whether that
 * ended as --status says. */
#include "chat.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PASSED = 0, REFUSED = 3 };           /* other: failed, or a limit was passed */

static char *runner;

/* Beside an installed gpt-eval, or above one that was just built. */
static char *find_runner(void)
{
    static const char *const at[] = {
        "../share/pipegpt/tasks", "../../share/tasks", "../../../share/tasks",
    };
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return NULL;
    exe[n] = 0;
    char *dir = dirname(exe);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        char *path = xasprintf("%s/%s/humaneval-run", dir, at[i]);
        if (!access(path, X_OK)) return path;
        free(path);
    }
    return NULL;
}

/* Exit status of the runner with `program` on its input; 128 + signal if it was killed. */
static int run(const char *option, const char *value, const char *program, size_t n)
{
    FILE *in = tmpfile();
    if (!in || (n && fwrite(program, 1, n, in) != n) || fflush(in)) die("a temporary file:");
    rewind(in);
    const char *argv[5] = { runner };
    int argc = 1, status;
    if (opt.unsafe) argv[argc++] = "--unsafe";
    argv[argc++] = option;
    argv[argc++] = value;
    pid_t pid = fork();
    if (pid < 0) die("fork:");
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(fileno(in), 0);
        dup2(null, 1);
        if (value && verbose < 3) dup2(null, 2);
        execv(runner, (char *const *)argv);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) die("waitpid:");
    fclose(in);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void runner_check(void)
{
    free(runner);
    runner = opt.runner ? xstrdup(opt.runner) : find_runner();
    if (!runner) die("humaneval-run, which runs programs, is not where it was installed: give "
                     "--runner FILE");
    int r = run("--check", NULL, "", 0);
    if (r == REFUSED)
        die("%s: no sandbox can be made here (see its message): programs of a model are not run "
            "without one, unless you say --unsafe", runner);
    if (r) die("%s: exit %d; it cannot run programs", runner, r);
}

/* A program that ends before its test has run, by exit() say, has not passed it: the last line ends
 * it with a status that the answer cannot know. */
bool runner_run(const char *program, size_t n)
{
    Buf b = {0};
    char status[4];
    snprintf(status, sizeof status, "%d", 2 + (int)(xxh3(program, n) % 100));
    buf_add(&b, program, n);
    buf_printf(&b, "raise SystemExit(%s)\n", status);
    int r = run("--status", status, b.s, b.n);
    buf_free(&b);
    if (r == REFUSED || r == 127) die("%s: exit %d; it ran programs before", runner, r);
    return r == PASSED;
}
