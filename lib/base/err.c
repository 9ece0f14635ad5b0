#include "base/err.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *prog = "pipegpt";
int verbose = 1;
void (*before_message)(void);
void (*before_death)(void);

/* Control characters from a file name or a file's text must not reach the terminal. */
static void tame(char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)s[i] < 32 && s[i] != '\n' && s[i] != '\t') || s[i] == 127) s[i] = '?';
}

static void put(const char *s, size_t n)
{
    while (n > 0) {
        ssize_t k = write(STDERR_FILENO, s, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return;                     /* nowhere left to complain */
        s += k; n -= (size_t)k;
    }
}

/* One write per message, so that lines of several processes do not mix. Works without malloc as
 * long as the message is short, because "out of memory" comes through here too. */
static void say(const char *fmt, va_list ap, const char *tail)
{
    int e = errno;
    char small[2048], *s = small;
    va_list again;
    va_copy(again, ap);
    int head = snprintf(NULL, 0, "%s: ", prog), body = vsnprintf(NULL, 0, fmt, ap);
    if (head < 0) head = 0;
    if (body < 0) body = 0;
    size_t f = strlen(fmt);
    const char *why = f > 0 && fmt[f - 1] == ':' ? strerror(e) : "";
    size_t cap = (size_t)head + (size_t)body + strlen(why) + strlen(tail) + 4;
    if (cap > sizeof small) s = malloc(cap);
    if (!s) { s = small; cap = sizeof small; }
    size_t n = 0;
    n += (size_t)snprintf(s, cap, "%s: ", prog);
    if (n < cap) n += (size_t)vsnprintf(s + n, cap - n, fmt, again);
    if (n < cap) n += (size_t)snprintf(s + n, cap - n, "%s%s\n%s", *why ? " " : "", why, tail);
    if (n >= cap) { n = cap - 1; s[n - 1] = '\n'; }
    va_end(again);
    tame(s, n);
    flockfile(stderr);                          /* the progress line may be another thread's */
    if (before_message) before_message();
    put(s, n);
    funlockfile(stderr);
    if (s != small) free(s);
    errno = e;
}

/* exit() must run once: a second thread that dies waits for the first to end the process, and a
 * clean-up that dies itself ends at once. */
static _Noreturn void leave(int code)
{
    static atomic_flag dying = ATOMIC_FLAG_INIT;
    static _Thread_local bool mine;
    if (mine) _exit(code);
    if (atomic_flag_test_and_set(&dying)) for (;;) pause();
    mine = true;
    exit(code);
}

void die(const char *fmt, ...)
{
    va_list ap;
    int e = errno;
    if (before_death) before_death();
    errno = e;
    va_start(ap, fmt);
    say(fmt, ap, "");
    va_end(ap);
    leave(1);
}

void die_usage(const char *fmt, ...)
{
    va_list ap;
    char tail[256];
    if (before_death) before_death();
    snprintf(tail, sizeof tail, "Try '%s --help'.\n", prog);
    va_start(ap, fmt);
    say(fmt, ap, tail);
    va_end(ap);
    leave(2);
}

void warn(const char *fmt, ...)
{
    if (verbose < 1) return;
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap, "");
    va_end(ap);
}

void note(int level, const char *fmt, ...)
{
    if (verbose < level) return;
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap, "");
    va_end(ap);
}

static void *need(void *p, size_t n)
{
    if (!p) die("out of memory (%zu bytes wanted)", n);
    return p;
}

size_t size_mul(size_t a, size_t b)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) die("out of memory (%zu times %zu bytes wanted)", a, b);
    return r;
}

size_t size_add(size_t a, size_t b)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) die("out of memory (%zu and %zu bytes wanted)", a, b);
    return r;
}

void *xmalloc(size_t n) { return need(malloc(n ? n : 1), n); }

void *xcalloc(size_t n, size_t size)
{
    size_t all = size_mul(n, size);
    return need(calloc(all ? all : 1, 1), all);
}

void *xrealloc(void *p, size_t n) { return need(realloc(p, n ? n : 1), n); }

void *xreallocarray(void *p, size_t n, size_t size) { return xrealloc(p, size_mul(n, size)); }

char *xstrdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(xmalloc(n), s, n);
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    char *s;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0) die("out of memory (formatting a text)");
    return s;
}
