/* server FILE LOG -- serves the file NAME, or FILE if there is none, on two ports of 127.0.0.1, which
 * it prints, with the fault that a path names (/FAULT/NAME). A process for each request; LOG gets a line of each: ms since it began,
 * requests being answered, port (0, 1), path, first byte asked for. It ends after 300 s or 2000
 * requests. */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char *body;
static size_t size;
static int port[2], c;
enum { REQUESTS = 2000 };
static char seen[REQUESTS][64];
static int nseen;
static int *now;                                /* requests being answered; shared */

static int listens(int *number)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, n) || listen(s, 64) ||
        getsockname(s, (struct sockaddr *)&a, &n)) exit(1);
    *number = ntohs(a.sin_port);
    return s;
}

static void say(const char *fmt, ...)
{
    char s[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    if (write(c, s, (size_t)n) != n) return;
}

_Noreturn static void end(void)
{
    __atomic_sub_fetch(now, 1, __ATOMIC_SEQ_CST);
    shutdown(c, SHUT_WR);
    _exit(0);
}

static void bytes(size_t from, size_t to)
{
    while (from < to) {
        ssize_t n = write(c, body + from, to - from);
        if (n <= 0) end();                      /* nobody is there any more */
        from += (size_t)n;
    }
}

static void normal(long from, const char *etag)
{
    if (from < 0) say("HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: %zu\r\n\r\n", etag, size);
    else say("HTTP/1.1 206 Partial Content\r\nETag: %s\r\nContent-Length: %zu\r\n"
             "Content-Range: bytes %ld-%zu/%zu\r\n\r\n", etag, size - (size_t)from, from, size - 1, size);
    bytes(from < 0 ? 0 : (size_t)from, size);
}

/* half of it, then the end */
static void half(const char *etag)
{
    say("HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: %zu\r\n\r\n", etag, size);
    bytes(0, size / 2);
}

static void slowly(long from)
{
    size_t at = from < 0 ? 0 : (size_t)from;
    say(from < 0 ? "HTTP/1.1 200 OK\r\nETag: \"s\"\r\nContent-Length: %zu\r\n\r\n" :
        "HTTP/1.1 206 P\r\nETag: \"s\"\r\nContent-Length: %zu\r\nContent-Range: bytes %ld-%zu/%zu\r\n\r\n",
        size - at, from, size - 1, size);
    for (int i = 0; at < size && i < 500; i++, usleep(4000)) {
        size_t to = at + 9973 < size ? at + 9973 : size;
        bytes(at, to);
        at = to;
    }
}

static void answer(const char *f, const char *name, int first, int second_port, long from)
{
    static const char E[] = "\"one\"";
    if (!strcmp(f, "hop") && !second_port) say("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/hop/%s\r\nContent-Length: 0\r\n\r\n", port[1], name);
    else if (!strcmp(f, "loop")) say("HTTP/1.1 302 Found\r\nLocation: /loop/x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(f, "expired") && !second_port) say("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/expired/%s\r\nContent-Length: 0\r\n\r\n", port[1], name);
    else if (!strcmp(f, "expired") && first) say("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(f, "hops") && !second_port) say("HTTP/1.1 307 T\r\nLocation: /hop/%s\r\nContent-Length: 0\r\n\r\n", name);
    else if (!strcmp(f, "late")) { usleep(300000); normal(from, E); }
    else if (!strcmp(f, "hang") || (!strcmp(f, "stuck") && first)) { half(E); usleep(20000000); }
    else if (!strcmp(f, "missing")) { usleep(1000000); say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"); }
    else if (!strcmp(f, "gone")) say("HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n");
    else if (!strcmp(f, "forbidden")) say("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(f, "busy") && first) say("HTTP/1.1 503 Later\r\nContent-Length: 5\r\n\r\nlater");
    else if (!strcmp(f, "limit") && first) say("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(f, "after") && first) say("HTTP/1.1 429 Slow\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(f, "date") && first) {
        char date[64];
        time_t t = time(NULL) + 2;
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&t));
        say("HTTP/1.1 503 Later\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n", date);
    } else if (!strcmp(f, "cut") && first) half(E);
    else if (!strcmp(f, "whole") && first) half(E);
    else if (!strcmp(f, "whole")) normal(-1, E);                 /* 200 to a Range */
    else if (!strcmp(f, "changed") && first) half("\"old\"");
    else if (!strcmp(f, "changed2") && first) half("\"old\"");
    else if (!strcmp(f, "changed")) normal(from, "\"new\"");     /* does not heed If-Range */
    else if (!strcmp(f, "changed2")) normal(-1, "\"new\"");
    else if (!strcmp(f, "wrongrange") && first) half(E);
    else if (!strcmp(f, "wrongrange") && from > 0) {
        say("HTTP/1.1 206 P\r\nETag: %s\r\nContent-Range: bytes 7-%zu/%zu\r\nContent-Length: %zu\r\n\r\n", E, size - 1, size, size - 7);
        bytes(7, size);
    } else if (!strcmp(f, "no416") && first) half(E);
    else if (!strcmp(f, "no416") && from > 0) say("HTTP/1.1 416 Range\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(f, "stall") && first) { half(E); usleep(2500000); }
    else if (!strcmp(f, "reset") && first) {
        struct linger l = { 1, 0 };
        half(E);
        usleep(50000);
        setsockopt(c, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    } else if (!strcmp(f, "chunked")) {
        say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n", size);
        bytes(0, size);
        say("\r\n0\r\n\r\n");
    } else if (!strcmp(f, "nolength")) { say("HTTP/1.1 200 OK\r\n\r\n"); bytes(0, size); }
    else if (!strcmp(f, "slow")) slowly(from);
    else if (!strcmp(f, "coded")) { say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", size); bytes(0, size); }
    else if (!strcmp(f, "huge")) { say("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n"); bytes(0, size); }
    else if (!strcmp(f, "long")) { normal(from, E); bytes(0, 1000); }
    else if (!strcmp(f, "room")) say("HTTP/1.1 200 OK\r\nContent-Length: 4000000000000000000\r\n\r\n{");
    else if (!strcmp(f, "negative")) { say("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"); bytes(0, size); }
    else if (!strcmp(f, "sum")) {
        say("HTTP/1.1 200 OK\r\nX-Linked-Etag: \"%064d\"\r\nContent-Length: %zu\r\n\r\n", 7, size);
        bytes(0, size);
    } else normal(from, E);
}

/* The request line's path, and where its Range begins (-1: it has none); q: all of the headers. */
static long request(char q[8192], char key[64])
{
    size_t n = 0;
    ssize_t k;
    q[0] = key[0] = 0;
    while (n < 8191 && !strstr(q, "\r\n\r\n") && (k = read(c, q + n, 8191 - n)) > 0)
        q[n += (size_t)k] = 0;
    sscanf(q, "GET %63s", key);
    char *r = strcasestr(q, "\r\nRange: bytes=");
    return r ? atol(r + 15) : -1;
}

/* A token is wanted of the hub's paths, and nowhere else. */
static int token_is_right(const char *q, const char *f, int second_port)
{
    int wanted = !second_port && (!strcmp(f, "hop") || !strcmp(f, "hops"));
    if (!strcasestr(q, "\r\nAuthorization:")) return !wanted;
    return !second_port && strstr(q, "\r\nAuthorization: Bearer secret\r\n");
}

static void load(const char *path)
{
    FILE *in = *path ? fopen(path, "rb") : NULL;
    if (in) size = fread(body, 1, 1 << 24, in);
    if (in) fclose(in);
}

static void serve(int second_port, FILE *log, double ms)
{
    char q[8192], key[64], f[32] = "";
    long from = request(q, key);
    int first = 1;
    sscanf(key, "/%31[^/]", f);
    for (int i = 0; i < nseen; i++) first &= strcmp(seen[i], key) != 0;
    snprintf(seen[nseen++], 64, "%s", key);
    int others = __atomic_add_fetch(now, 1, __ATOMIC_SEQ_CST);
    fprintf(log, "%.0f %d %d %s %ld\n", ms, others, second_port, key, from);
    fflush(log);
    if (fork() == 0) {
        const char *slash = strrchr(key, '/'), *name = slash && slash[1] != '.' ? slash + 1 : "";
        char file[64];
        alarm(30);
        snprintf(file, sizeof file, "%.*s", (int)strcspn(name, "?"), name);
        load(file);
        if (token_is_right(q, f, second_port)) answer(f, name, first, second_port, from);
        else say("HTTP/1.1 401 Leak\r\nContent-Length: 0\r\n\r\n");
        end();
    }
}

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    struct pollfd p[2];
    FILE *log = argc == 3 ? fopen(argv[2], "w") : NULL;
    double began = milliseconds();
    if (!log || !(body = malloc(1 << 24))) return 1;
    load(argv[1]);
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (now == MAP_FAILED) return 1;
    alarm(300);                                 /* a test that was killed leaves none behind */
    signal(SIGPIPE, SIG_IGN), signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 2; i++) p[i] = (struct pollfd){ .fd = listens(&port[i]), .events = POLLIN };
    printf("%d %d\n", port[0], port[1]);
    fclose(stdout);
    while (nseen < REQUESTS && poll(p, 2, -1) > 0)
        for (int i = 0; i < 2; i++) {
            if (!(p[i].revents & POLLIN) || (c = accept(p[i].fd, NULL, NULL)) < 0) continue;
            serve(i, log, milliseconds() - began);
            close(c);
        }
    return 0;
}
