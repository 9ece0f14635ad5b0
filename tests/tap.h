/* tap.h -- the whole unit-test framework: prints TAP, counts, tells main what to return. */
#ifndef TAP_H
#define TAP_H
#include <stdio.h>
static int tap_n, tap_bad;
#define ok(cond, ...) do { int ok_ = !!(cond); tap_n++; tap_bad += !ok_; \
    printf("%sok %d - ", ok_ ? "" : "not ", tap_n); printf(__VA_ARGS__); putchar('\n'); \
    if (!ok_) { printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond); } \
    fflush(stdout); } while (0)
#define skip(why, ...) do { tap_n++; printf("ok %d - ", tap_n); printf(__VA_ARGS__); printf(" # SKIP %s\n", why); } while (0)
#define done() (printf("1..%d\n", tap_n), tap_bad != 0)

#ifdef __SANITIZE_ADDRESS__
void __lsan_disable(void);
#else
#define __lsan_disable() ((void)0)
#endif

/* Run code that must end through die(): in a child; true if it exited with `code` and its stderr
 * holds `text`. Leaks are not looked for there: die() frees nothing. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static inline int dies(int code, const char *text, void (*f)(void *), void *arg)
{
    int p[2];
    if (pipe(p)) abort();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 2); close(p[0]); close(p[1]);
        __lsan_disable();
        f(arg);
        _exit(99);
    }
    close(p[1]);
    char msg[4096]; size_t n = 0; ssize_t k;
    while (n < sizeof msg - 1 && (k = read(p[0], msg + n, sizeof msg - 1 - n)) > 0) n += (size_t)k;
    msg[n] = 0;
    close(p[0]);
    int st = 0;
    waitpid(pid, &st, 0);
    int good = WIFEXITED(st) && WEXITSTATUS(st) == code && strstr(msg, text);
    if (!good) printf("# status %#x, stderr: %s\n", (unsigned)st, msg);
    return good;
}
#endif
