#include "tap.h"
#include "base/err.h"
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <pthread.h>

static void say_die(void *x) { (void)x; prog = "tool"; die("a: %d", 7); }
static void say_usage(void *x) { (void)x; prog = "tool"; die_usage("bad -x"); }
static void say_errno(void *x) { (void)x; prog = "tool"; errno = ENOENT; die("a.txt:"); }
static void say_tame(void *x) { (void)x; prog = "tool"; die("a\x1b[31mb\x7f"); }
static void say_long(void *x) { (void)x; prog = "tool"; char *s = x; die("%s end", s); }
static void mul(void *x) { (void)x; size_mul(SIZE_MAX / 2, 3); }
static void add(void *x) { (void)x; size_add(SIZE_MAX, 1); }
static void array(void *x) { (void)x; xreallocarray(NULL, SIZE_MAX / 4, 8); }
static void quiet(void *x) { (void)x; prog = "tool"; verbose = 0; warn("WARNED"); note(1,
    "NOTED"); die("only this"); }
static void level(void *x)
{
    (void)x;
    prog = "tool"; verbose = 2;
    note(3, "hidden");
    note(2, "shown");
    die("end");
}

static void again(void) { die("in the clean-up"); }
static void die_in_exit(void *x) { (void)x; atexit(again); die("first"); }

static void *thread(void *x) { (void)x; die("thread"); return NULL; }
static void die_in_threads(void *x)
{
    (void)x;
    pthread_t t[8];
    for (int i = 0; i < 8; i++) if (pthread_create(&t[i], NULL, thread, NULL)) _exit(98);
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
}

int main(void)
{
    static char big[5001];
    memset(big, 'x', 5000);
    ok(dies(1, "tool: a: 7\n", say_die, NULL), "die: exit 1, program: message");
    ok(dies(2, "tool: bad -x\nTry 'tool --help'.\n", say_usage, NULL), "die_usage: exit 2");
    ok(dies(1, "tool: a.txt: No such file or directory\n", say_errno, NULL),
        "errno's text after ':'");
    ok(dies(1, "tool: a?[31mb?\n", say_tame, NULL), "control characters do not reach the terminal");
    ok(dies(1, "xxx", say_long, big), "a message longer than the buffer");
    ok(dies(1, "tool: only this\n", quiet, NULL) && !dies(1, "WARNED", quiet, NULL),
        "-q: no warnings");
    ok(dies(1, "tool: shown\ntool: end\n", level, NULL), "note by level");
    ok(dies(1, "out of memory", mul, NULL), "size_mul");
    ok(dies(1, "out of memory", add, NULL), "size_add");
    ok(dies(1, "out of memory", array, NULL), "xreallocarray");
    ok(dies(1, "first", die_in_exit, NULL), "dying in an exit handler ends");
    ok(dies(1, "thread", die_in_threads, NULL), "eight threads die, the process ends once");
    ok(size_mul(1u << 20, 3) == 3u << 20 && size_mul(0, SIZE_MAX) == 0 && size_add(SIZE_MAX,
        0) == SIZE_MAX, "sizes");
    char *s = xasprintf("%s-%d", big, 5), *z = xmalloc(0), *d = xstrdup("");
    ok(strlen(s) == 5002 && !strcmp(s + 5000, "-5") && z && d && !*d,
        "xasprintf, xmalloc(0), xstrdup");
    free(s); free(z); free(d);
    return done();
}
