#include "tap.h"
#include "base/err.h"
#include "base/progress.h"
#include <fcntl.h>
#include <pty.h>
#include <time.h>

/* What a child draws on stderr: a pipe, or a terminal (a pty). Returns it in text. */
static size_t drawn(int tty, void (*f)(void), char *text, size_t cap)
{
    int p[2];
    struct winsize w = { .ws_row = 25, .ws_col = 90 };
    if (tty ? openpty(&p[0], &p[1], NULL, NULL, &w) : pipe(p)) return 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 2); close(p[0]); close(p[1]);
        f();
        _exit(0);
    }
    close(p[1]);
    size_t n = 0;
    ssize_t k;
    while (n < cap - 1 && (k = read(p[0], text + n, cap - 1 - n)) > 0) n += (size_t)k;
    text[n] = 0;
    close(p[0]);
    waitpid(pid, NULL, 0);
    return n;
}

static void pause_ms(int ms) { struct timespec t = { 0, ms * 1000000L }; nanosleep(&t, NULL); }

static void busy(void)              /* 0.5 s, many calls */
{
    Progress p = { .what = "packing", .unit = "B", .total = 2000000, .extra = "loss 3.21" };
    prog = "tool";
    double t = now_seconds();
    for (uint64_t i = 0; now_seconds() < t + 0.5; i++) progress(&p, 1000000 + i % 2);
    warn("in between");
    progress_end(&p);
}

static void long_line(void)
{
    Progress p = { .unit = "rows", .what =
        "a-name-that-is-much-longer-than-the-terminal-is-wide-so-that-it-is-cut-at-its-end" };
    progress(&p, 1);
    pause_ms(120);
    progress(&p, 2);
}

static void old(void)               /* pretend that it began 20 s ago */
{
    prog = "tool";
    Progress p = { .what = "packing", .unit = "rows", .total = 400, .t0 = now_seconds() - 20 };
    progress(&p, 100);
    progress(&p, 101);
    progress_end(&p);
}

static void quiet(void) { verbose = 0; busy(); }
static void quiet_old(void) { verbose = 0; old(); }

static int count(const char *s, char c) { int n = 0; for (; *s; s++) n += *s == c; return n; }

int main(void)
{
    static char s[1 << 20];
    drawn(0, busy, s, sizeof s);
    ok(!strcmp(s, "tool: in between\n"), "a file: nothing in the first 10 s");
    drawn(0, old, s, sizeof s);
    ok(!strcmp(s, "tool: packing: 100 of 400 rows (25%), 5.0 rows/s, ETA 1:00\n"),
        "a file: a plain line");
    ok(drawn(0, quiet, s, sizeof s) == 0 && drawn(0, quiet_old, s, sizeof s) == 0, "-q: nothing");

    size_t n = drawn(1, busy, s, sizeof s);
    int draws = 0;
    for (const char *p = s; (p = strstr(p, "\rpacking")); p++) draws++;
    if (n == 0) { skip("no pty here", "terminal"); return done(); }
    ok(draws >= 1 && draws <= 5, "a terminal: at most 10 times a second (%d in 0.5 s)", draws);
    ok(strstr(s, "1.0 MB of 2.0 MB (50%)") && strstr(s, ", loss 3.21"), "done, total, extra");
    const char *m = strstr(s, "tool: in between");
    ok(m && m > s && m[-1] == '\r' && m[-2] == ' ', "a message takes the line away first");
    ok(!strchr(s, 27), "no escape codes at all");
    drawn(1, long_line, s, sizeof s);
    ok(strlen(s) == 90 && s[0] == '\r' && count(s, '\n') == 0,
        "cut to the terminal's width less one");
    return done();
}
