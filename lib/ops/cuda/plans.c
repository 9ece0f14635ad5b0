/* plans.c -- the file of plans: see plans.h */
#include "ops/cuda/plans.h"
#include "ops/cuda/gemm.h"
#include "base/err.h"
#include "base/map.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_INTS = sizeof(PlanKey) / sizeof(int), MOST_BYTES = 4 << 20, MOST_LINE = 512 };

static Map index_of;                    /* of a key in algos */
static PlanAlgo *algos;
static size_t nalgo;
static char *head, *name;               /* name NULL: no file */
static int fd = -1;                     /* while it is locked */

const PlanAlgo *plans_find(const PlanKey *k)
{
    const int64_t *i = map_get(&index_of, k, sizeof *k);
    return i ? &algos[*i] : NULL;
}
static void put(const PlanKey *k, const PlanAlgo *algo)
{
    const int64_t *was = map_get(&index_of, k, sizeof *k);
    const size_t i = was ? (size_t)*was : nalgo;
    if (!was) {
        if ((nalgo & (nalgo - 1)) == 0)
            algos = xreallocarray(algos, nalgo ? 2 * nalgo : 1, sizeof *algos);
        *map_put(&index_of, k, sizeof *k) = (int64_t)nalgo++;
    }
    algos[i] = *algo;
}

/* ---- lines */

static int hex(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
static int sound(const PlanKey *k)
{
    return k->m > 0 && k->n > 0 && k->k > 0 && k->batch > 0 && k->num_a <= NUM_E5M2 &&
           k->num_b <= NUM_E5M2 && k->num_y <= NUM_BF16 && k->ta <= 1 && k->tb <= 1 && k->fast <= 1;
}
/* " KEY... HEX", to the end of the string */
static int parse(const char *s, PlanKey *k, PlanAlgo *algo)
{
    int *v = (int *)(void *)k;
    for (int i = 0; i < KEY_INTS; i++) {
        char *end;
        errno = 0;
        long x = strtol(s, &end, 10);
        if (end == s || errno || x < 0 || x > INT32_MAX) return 0;
        v[i] = (int)x;
        s = end;
    }
    if (!sound(k) || *s++ != ' ') return 0;
    unsigned char *to = (unsigned char *)algo;
    for (size_t i = 0; i < sizeof *algo; i++, s += 2) {
        int a = hex(s[0]), b = a < 0 ? -1 : hex(s[1]);
        if (b < 0) return 0;
        to[i] = (unsigned char)(a << 4 | b);
    }
    return !*s;
}
static int print(char *line, const PlanKey *k, const PlanAlgo *algo)
{
    const int *v = (const int *)(const void *)k;
    const unsigned char *b = (const unsigned char *)algo;
    int n = snprintf(line, MOST_LINE / 4, "%s", head);
    for (int i = 0; i < KEY_INTS; i++)
        n += snprintf(line + n, (size_t)(MOST_LINE - n), " %d", v[i]);
    n += snprintf(line + n, (size_t)(MOST_LINE - n), " ");
    for (size_t i = 0; i < sizeof *algo; i++)
        n += snprintf(line + n, (size_t)(MOST_LINE - n), "%02x", b[i]);
    line[n++] = '\n';
    return n;
}

/* ---- the file */

static char *plan_file(void)
{
    const char *s = getenv("PIPEGPT_CUDA_PLANS"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (s) return *s ? xstrdup(s) : NULL;
    if (cache && *cache) return xasprintf("%s/pipegpt/plans.txt", cache);
    return home && *home ? xasprintf("%s/.cache/pipegpt/plans.txt", home) : NULL;
}
static void make_folders(void)
{
    for (char *s = strchr(name + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        mkdir(name, 0777);
        *s = '/';
    }
}
/* Its whole lines, the newest if there are more bytes than `most`, and a NUL; *n: how many bytes.
 * What is no regular file has none. */
static char *newest(size_t most, size_t *n)
{
    struct stat st;
    *n = 0;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) return NULL;
    const int64_t size = st.st_size, at = size > (int64_t)most ? size - (int64_t)most : 0;
    char *s = xreallocarray(NULL, (size_t)(size - at) + 1, 1), *from = s;
    while (*n < (size_t)(size - at)) {
        const ssize_t got = pread(fd, s + *n, (size_t)(size - at) - *n, at + (int64_t)*n);
        if (got <= 0) break;
        *n += (size_t)got;
    }
    s[*n] = 0;
    if (at && *n) from = memchr(s, '\n', *n);
    if (!from) *n = 0;
    else if (from > s) memmove(s, from + 1, *n -= (size_t)(from + 1 - s));
    s[*n] = 0;
    return s;
}
static void read_lines(void)
{
    size_t n;
    char *text = newest(MOST_BYTES, &n);
    for (char *s = text, *end; s && s < text + n; s = end + 1) {
        PlanKey k;
        PlanAlgo algo;
        end = memchr(s, '\n', (size_t)(text + n - s));
        if (!end) end = text + n;
        *end = 0;
        if (strncmp(s, head, strlen(head)) == 0 && parse(s + strlen(head), &k, &algo))
            put(&k, &algo);
    }
    free(text);
}
/* 0, or -1 if not all of it is written */
static int append(const char *s, size_t n)
{
    while (n) {
        const ssize_t w = write(fd, s, n);
        if (w <= 0) return -1;
        s += w, n -= (size_t)w;
    }
    return 0;
}
static int make_room(size_t n)
{
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size + (int64_t)n <= MOST_BYTES) return 0;
    char *text = newest(MOST_BYTES / 2, &n);
    const int e = ftruncate(fd, 0) || append(text, n);
    free(text);
    return e ? -1 : 0;
}
void plans_lock(const char *line_head)
{
    if (!head) {
        head = xstrdup(line_head);
        name = plan_file();
    }
    if (!name) return;
    make_folders();
    fd = open(name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0) fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    while (flock(fd, LOCK_EX) && errno == EINTR) {}
    read_lines();
}
void plans_unlock(void)
{
    if (fd >= 0) close(fd);
    fd = -1;
}
void plans_keep(const PlanKey *k, const PlanAlgo *algo)
{
    char line[MOST_LINE];
    put(k, algo);
    if (!name) return;
    const size_t n = (size_t)print(line, k, algo);
    if (fd < 0 || make_room(n) || append(line, n))
        note(2, "%s: plans for products are not kept:", name);
}
