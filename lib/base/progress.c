#include "base/progress.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static int width;       /* columns our line takes on the terminal now; 0: it is not there */

double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put(const char *s, size_t n) { (void)!write(STDERR_FILENO, s, n); }

/* Blanks instead of an escape code: works on every terminal. */
static void wipe(void)
{
    if (!width) return;
    Buf b = {0};
    buf_printf(&b, "\r%*s\r", width, "");
    width = 0;
    put(b.s, b.n);
    buf_free(&b);
}

static void amount(Buf *b, double x, const char *unit)
{
    static const char *const size[] = { "B", "KB", "MB", "GB", "TB", "PB" };
    int k = 0;
    if (strcmp(unit, "B")) {
        bool whole = x >= 10 || x == (double)(uint64_t)x;
        buf_printf(b, whole ? "%.0f" : "%.1f", x);
        return;
    }
    for (; x >= 1000 && k < 5; k++) x /= 1000;
    buf_printf(b, k ? "%.1f %s" : "%.0f %s", x, size[k]);
}

void buf_duration(Buf *b, double s)
{
    uint64_t t = s < 0 ? 0 : s > 3.6e9 ? 3600000000u : (uint64_t)s;
    unsigned h = (unsigned)(t / 3600), m = (unsigned)(t / 60 % 60), sec = (unsigned)(t % 60);
    if (h) buf_printf(b, "%u:%02u:%02u", h, m, sec);
    else buf_printf(b, "%u:%02u", m, sec);
}

/* "encoding: 12.3 MB of 45.6 MB (26%), 3.4 MB/s, ETA 0:09, loss 3.21" */
static void line(Buf *b, const Progress *p, uint64_t done, double t)
{
    double spent = t - p->t0, new = done > p->from ? (double)(done - p->from) : 0;
    double rate = spent > 0 ? new / spent : 0;
    const char *unit = p->unit ? p->unit : "";
    if (p->whole) {
        buf_str(b, p->whole);
        return;
    }
    const char *tail = !strcmp(unit, "B") || !*unit ? "" : unit;
    buf_printf(b, "%s: ", p->what);
    amount(b, (double)done, unit);
    if (p->total) {
        buf_str(b, " of ");
        amount(b, (double)p->total, unit);
    }
    if (*tail) buf_printf(b, " %s", tail);
    if (p->total) buf_printf(b, " (%.0f%%)", 100 * ((double)done / (double)p->total));
    if (rate > 0) {
        buf_str(b, ", ");
        amount(b, rate, unit);
        buf_printf(b, "%s%s/s", *tail ? " " : "", tail);
        if (p->total > done) {
            buf_str(b, ", ETA ");
            buf_duration(b, (double)(p->total - done) / rate);
        }
    }
    if (p->extra) buf_printf(b, ", %s", p->extra);
}

static int terminal_columns(void)
{
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : 80;
}

static void draw(Progress *p, uint64_t done, double t, int tty)
{
    Buf b = {0};
    flockfile(stderr);                          /* messages of other threads, see err.c */
    if (tty) {
        buf_char(&b, '\r');
        line(&b, p, done, t);
        int n = (int)b.n - 1, most = terminal_columns() - 1;    /* a full line would scroll */
        if (n > most) { b.n = (size_t)(n = most) + 1; b.s[b.n] = 0; }
        if (n < width) buf_printf(&b, "%*s", width - n, "");
        width = n;
        before_message = wipe;
    } else {
        buf_printf(&b, "%s: ", prog);
        line(&b, p, done, t);
        buf_char(&b, '\n');
    }
    put(b.s, b.n);
    funlockfile(stderr);
    buf_free(&b);
    p->last = t;
    p->drawn++;
}

void progress(Progress *p, uint64_t done)
{
    if (verbose < 1) return;
    double t = now_seconds();
    if (p->t0 == 0) p->t0 = p->last = t;
    static int tty = -1;
    if (tty < 0) tty = isatty(STDERR_FILENO);
    if (t - p->last >= (tty ? 0.1 : 10)) draw(p, done, t, tty);
}

void progress_end(Progress *p)
{
    if (!p->drawn) return;
    flockfile(stderr);
    wipe();
    funlockfile(stderr);
}
