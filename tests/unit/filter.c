#include "base/filter.h"
#include "tap.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static Buf in, out;

static const char *ask(Filter *f, const char *s, size_t n, double seconds)
{
    buf_clear(&in);
    buf_str(&in, s);
    return filter_ask(f, &in, n, seconds, NULL, &out);
}

static void is_said(const char *cmd, const char *s, size_t n, const char *want, const char *name)
{
    Filter *f = filter_open(cmd);
    const char *why = ask(f, s, n, 0.5);
    ok(why && strstr(why, want), "%s: %s", name, why ? why : "nothing");
    filter_close(f);
}

int main(void)
{
    Filter *f = filter_open("cat");
    ok(!ask(f, "one\ntwo\n", 2, 9) && !strcmp(out.s, "one\ntwo\n"), "lines come back");
    ok(!ask(f, "three\n", 1, 9) && !strcmp(out.s, "three\n"), "and again, from the same process");
    ok(!ask(f, "", 0, 9) && out.n == 0, "no lines");
    buf_clear(&in);
    for (int i = 0; i < 60000; i++) buf_printf(&in, "%d and some more text in this line\n", i);
    ok(!filter_ask(f, &in, 60000, 9, NULL, &out) && out.n == in.n && !memcmp(out.s, in.s, in.n),
       "two megabytes, more than pipes hold");
    filter_close(f);
    f = filter_open("sed 's/a/b/'");
    ok(!ask(f, "a\n", 1, 9) && !strcmp(out.s, "b\n"),
       "a filter that buffers by itself answers at once");
    ok(!ask(f, "xa\n", 1, 9) && !strcmp(out.s, "xb\n"), "and stays");
    filter_close(f);
    is_said("exit 3", "a\n", 1, "status 3", "one that ends");
    is_said("head -n 1", "a\nb\n", 2, "status 0", "one that ends early");
    is_said("kill -9 $$", "a\n", 1, "signal 9", "one that is killed");
    is_said("sleep 100", "a\n", 1, "0 of 1 answers", "one that stalls");
    is_said("read x; echo $x; sleep 100", "a\nb\n", 2, "1 of 2 answers", "one that stalls later");
    f = filter_open("while read x; do echo $x; echo $x; done");
    const char *why = ask(f, "a\nb\n", 2, 9);
    poll(NULL, 0, 100); /* what is too much may come later than what counts */
    if (!why) why = ask(f, "c\n", 1, 9);
    ok(why && strstr(why, "more lines"), "one that says too much: %s", why ? why : "nothing");
    filter_close(f);
    f = filter_open("read x; echo $x; read x; echo $x; cat");
    ok(!ask(f, "a\nb\n", 2, 9) && !filter_end(f), "one that ends with its input");
    filter_close(f);
    f = filter_open("read x; echo $x; cat; sleep 0.1; echo more");
    why = ask(f, "a\n", 1, 9);
    ok(!why && (why = filter_end(f)) && strstr(why, "more lines"), "one that says too much at its end: %s",
       why ? why : "nothing");
    filter_close(f);
    is_said("tr '\\n' ' '; ", "a\n", 1, "0 of 1", "one without line ends");
    is_said("nosuchcommand", "a\n", 1, "status 127", "one that is not there");
    volatile sig_atomic_t stop = 1;
    f = filter_open("sleep 100");
    buf_clear(&in), buf_str(&in, "a\n");
    why = filter_ask(f, &in, 1, 50, &stop, &out);
    ok(why && !strcmp(why, "interrupted"), "it can be interrupted");
    filter_close(f);
    buf_free(&in), buf_free(&out);
    return done();
}
