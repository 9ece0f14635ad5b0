/* Where metrics go: standard output, or a file that a resume goes on in. */
#include "mlog.h"
#include "base/io.h"
#include "base/json.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The step a record is of; -1: the run's description, which begins each session. */
static int64_t step_of(const Buf *line, Arena *a, const char *name, uint64_t lineno)
{
    const char *err;
    size_t at;
    int64_t step = 0;
    arena_reset(a);
    const Json *j = json_parse(a, line->s ? line->s : "", line->n, &err, &at);
    if (!j) die("%s: line %" PRIu64 ", byte %zu: %s", name, lineno, at, err);
    if (json_get(j, "config")) return -1;
    if (!json_int(json_get(j, "step"), &step) || step < 0)
        die("%s: line %" PRIu64 ": not a record of gpt-train", name, lineno);
    return step;
}

/* How many bytes of the file are records up to `step`. What a killed session wrote beyond its last
 * checkpoint goes, a line that it did not finish too, and a description with no record after it. */
static uint64_t whole_until(const char *name, int64_t step, int64_t *last)
{
    In *in = in_open_raw(name);
    Buf line = {0};
    Arena a = {0};
    uint64_t end = 0, before = 0;
    *last = -1;
    for (; in_line(in, &line); before = in_offset(in)) {
        if (in_offset(in) == before + line.n) break;            /* no line end */
        int64_t s = step_of(&line, &a, name, in_lineno(in));
        if (s > step) break;
        if (s < 0) continue;
        end = in_offset(in);
        *last = s;
    }
    in_close(in);
    buf_free(&line);
    arena_free(&a);
    return end;
}

void mlog_open(MetricsLog *l, const char *file, int64_t step)
{
    struct stat st;
    *l = (MetricsLog){ .fd = STDOUT_FILENO, .name = file ? file : "stdout" };
    if (!file || !strcmp(file, "-")) {
        io_writes("/dev/stdout");
        return;
    }
    int there = !stat(file, &st), regular = !there || S_ISREG(st.st_mode), go_on = step >= 0;
    uint64_t keep = 0;
    int64_t last = -1;
    if (there && regular && go_on) keep = whole_until(file, step, &last);
    if (regular && go_on && last < step)
        warn("%s: its last record is of step %" PRId64 ", but the run stands at step %" PRId64, file,
             last < 0 ? 0 : last, step);
    l->fd = open(file, O_WRONLY | O_CLOEXEC | O_NOCTTY | (regular ? O_CREAT : 0), 0666);
    if (l->fd < 0) die("%s:", file);
    io_writes(file);
    l->sync = regular;
    if (regular && (ftruncate(l->fd, (off_t)keep) || lseek(l->fd, 0, SEEK_END) < 0))
        die("%s:", file);
}

void mlog_write(MetricsLog *l, const char *s, size_t n)
{
    while (n && !l->failed) {
        ssize_t k = write(l->fd, s, n);
        if (k >= 0) {
            s += k;
            n -= (size_t)k;
        } else if (errno == EAGAIN) {
            struct pollfd p = { .fd = l->fd, .events = POLLOUT };
            poll(&p, 1, -1);
        } else if (errno != EINTR) {
            note(0, "%s: cannot write:", l->name);
            l->failed = 1;
        }
    }
}

void mlog_sync(MetricsLog *l)
{
    if (l->sync && !l->failed && fsync(l->fd)) {
        note(0, "%s: cannot write to the disk:", l->name);
        l->failed = 1;
    }
}

void mlog_close(MetricsLog *l)
{
    mlog_sync(l);
    if (close(l->fd) && errno != EINTR && !l->failed) {
        note(0, "%s: cannot close:", l->name);
        l->failed = 1;
    }
}
