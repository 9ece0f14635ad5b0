/* tar.h: headers made here; what is read, passed over and refused. */
#include "data/tar.h"
#include "tap.h"

typedef struct Bytes { const char *s; size_t n, at, step; } Bytes;

static size_t pull(void *arg, void *p, size_t n)
{
    Bytes *b = arg;
    if (n > b->step) n = b->step;
    if (n > b->n - b->at) n = b->n - b->at;
    memcpy(p, b->s + b->at, n);
    b->at += n;
    return n;
}

static Buf a;                                   /* the archive being made */

static void set_sum(char *h)
{
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
}

static void pad(void)
{
    while (a.n % 512) buf_char(&a, 0);
}

/* A header and n bytes; name past 100 bytes is cut. Returns where the header stands. */
static size_t add(const char *name, char type, const char *data, size_t n)
{
    char h[512] = { 0 };
    size_t at = a.n;
    memcpy(h, name, strlen(name) < 100 ? strlen(name) : 100);
    snprintf(h + 100, 8, "%07o", 0644);
    snprintf(h + 124, 12, "%011o", (unsigned)n);
    h[156] = type;
    memcpy(h + 257, "ustar\00000", 8);
    set_sum(h);
    buf_add(&a, h, 512);
    buf_add(&a, data, n);
    pad();
    return at;
}

static void finish(void)
{
    char zeros[1024] = { 0 };
    buf_add(&a, zeros, sizeof zeros);
}

/* "NAME=DATA;" of each file, the bytes coming in parts. */
static Buf read_all(const char *s, size_t n, size_t step)
{
    Bytes b = { s, n, 0, step };
    Buf out = {0};
    buf_str(&out, "");
    Tar *t = tar_open(in_from("a.tar", pull, &b));
    for (TarFile f; tar_next(t, &f); ) {
        char data[3000];
        buf_printf(&out, "%s=", f.name);
        if (f.name[0] == '-') continue;         /* is passed over */
        In *in = tar_read(t);
        size_t k = in_read(in, data, sizeof data);
        if (k != f.size) buf_str(&out, "?");
        buf_add(&out, data, k);
        buf_char(&out, ';');
        in_close(in);
    }
    if (tar_others(t)) buf_printf(&out, "others %d", (int)tar_others(t));
    tar_close(t);
    return out;
}

static void gives(const char *want, const char *what)
{
    static const size_t steps[] = { 1 << 20, 700, 1 };
    bool same = true;
    finish();
    for (size_t i = 0; i < 3; i++) {
        Buf got = read_all(a.s, a.n, steps[i]);
        same &= !strcmp(got.s, want);
        if (strcmp(got.s, want)) printf("# got %s\n", got.s);
        buf_free(&got);
    }
    ok(same, "%s", what);
    buf_clear(&a);
}

static void run(void *arg)
{
    (void)arg;
    Buf got = read_all(a.s, a.n, 1 << 20);
    buf_free(&got);
}

static void refused(const char *why, const char *what)
{
    finish();
    ok(dies(1, why, run, NULL), "refused: %s", what);
    buf_clear(&a);
}

static void pax(const char *records, char type) { add("pax", type, records, strlen(records)); }

/* n bytes of x at a place of the last header, whose sum is made right again. */
static void set(size_t header, size_t at, const char *x, size_t n)
{
    memcpy(a.s + header + at, x, n);
    set_sum(a.s + header);
}

static void names(void)
{
    char name[300], want[400];
    add("a", '0', "one", 3), add("./b/c", 0, "", 0), add("-", '0', "passed over", 11), add("d", '7', "4444", 4);
    gives("a=one;b/c=;-=d=4444;", "files, one without bytes, one that is not read");
    size_t h = add("name", '0', "x", 1);
    set(h, 345, "pre/fix", 7);
    gives("pre/fix/name=x;", "ustar's prefix");
    h = add("name", '0', "x", 1);
    set(h, 257, "ustar  \0", 8), set(h, 345, "pre/fix", 7);
    gives("name=x;", "which GNU's header has not");
    memset(name, 'n', 299), name[299] = 0;
    add("././@LongLink", 'L', name, 300), add(name, '0', "x", 1), add("y", '0', "z", 1);
    snprintf(want, sizeof want, "%s=x;y=z;", name);
    gives(want, "GNU's long name, for one file alone");
    pax("15 comment=abc\n22 path=a=long/path/x\n9 size=2\n", 'x'), add("short", '0', "xy", 2), add("y", '0', "z", 1);
    gives("a=long/path/x=xy;y=z;", "a pax name and size");
    pax("18 path=everything\n", 'g'), add("x", '0', "y", 1);
    gives("x=y;", "a name for all is none");
    add("f/", '5', "", 0), add("f/", 0, "", 0), add("l", '2', "", 0), add("h", '1', "", 0), add("c", '3', "", 0);
    add("x", '0', "y", 1);
    gives("x=y;others 3", "folders are left out, links and devices counted");
    h = add("x", '0', "y", 1);
    set(h, 124, "\200\0\0\0\0\0\0\0\0\0\0\1", 12);
    gives("x=y;", "a size in binary");
    h = add("x", '0', "y", 1);
    set(h, 124, "          1 ", 12);
    gives("x=y;", "a size with spaces");
    h = add("x\xff", '0', "y", 1);
    int sum = 0;
    memset(a.s + h + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += (signed char)a.s[h + (size_t)i];
    snprintf(a.s + h + 148, 8, "%06o", (unsigned)sum);
    gives("x\xff=y;", "a sum of signed bytes");
    gives("", "an archive of nothing");
}

static void faults(void)
{
    size_t h;
    add("../x", '0', "y", 1), refused("byte 0: '..' in a name", "a name that leads out");
    add("/x", '0', "y", 1), refused("absolute", "an absolute name");
    add("a\\b", '0', "y", 1), refused("backslash", "a backslash");
    add("", '0', "y", 1), refused("an empty name", "no name");
    pax("18 path=../../etc\n", 'x'), add("x", '0', "y", 1), refused("'..' in a name", "a pax name that does");
    add("L", 'L', "../x", 5), add("x", '0', "y", 1), refused("'..' in a name", "a long name that does");
    pax("19 GNU.sparse.x=10\n", 'x'), add("x", '0', "y", 1), refused("sparse", "a sparse file");
    add("x", 'S', "y", 1), refused("sparse", "GNU's sparse file");
    add("x", '0', "y", 1), h = add("z", '0', "y", 1), a.s[h + 3] = 'z';
    refused("byte 1024: not a tar header, or damaged", "a wrong sum");
    h = add("x", '0', "y", 1), set(h, 124, "1x", 2), refused("a size that is no number", "a size of letters");
    h = add("x", '0', "y", 1), set(h, 124, "\377\377\377\377\377\377\377\377\377\377\377\377", 12);
    refused("a size that is no number", "a negative size");
    h = add("x", '0', "y", 1), set(h, 124, "\200\0\0\0\377\377\377\377\377\377\377\377", 12);
    refused("a size that is no number", "a size past 2^63");
    h = add("x", '0', "y", 1), set(h, 124, "77777777777", 12);
    refused("ends inside a file of the archive", "a size past the archive");
    h = add("x", 'L', "y", 1), set(h, 124, "77777777777", 12), refused("too long", "a name of 8 GB");
    h = add("x", 'x', "y", 1), set(h, 124, "77777777777", 12), refused("too long", "a pax header of 8 GB");
    static const char *const bad[] = { "1 a=b\n", "99 path=x\n", "path=x\n", "9 path x\n", "10 path=xx",
                                       "00000000000000009 path=x\n", "4 a\n", " 9 path=x\n" };
    static const char *const names[] = { "a length too short", "past the header", "none", "no =",
                                         "no line end", "too long", "no key and value", "a space before it" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pax(bad[i], 'x'), add("x", '0', "y", 1), refused("damaged pax header", names[i]);
    }
    pax("9 size=x\n", 'x'), add("x", '0', "y", 1), refused("pax size", "a pax size of letters");
    pax("8 size=\n", 'x'), add("x", '0', "y", 1), refused("pax size", "a pax size of nothing");
    pax("28 size=9999999999999999999\n", 'x'), add("x", '0', "y", 1), refused("pax size", "a pax size past 2^63");
    add("x", '0', "y", 1), finish(), buf_str(&a, "more"), pad();
    refused("byte 2048: something follows", "something after the end");
    add("x", '0', "y", 1), finish(), add("x", '0', "y", 1);
    refused("something follows", "another archive after the end");
}

static int code(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(97);
        run(NULL);
        _exit(99);
    }
    int st = 0;
    waitpid(pid, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 128;
}

static void cuts(void)
{
    add("a", '0', "one", 3), add("L", 'L', "long", 5), add("b", '0', "two", 3);
    size_t n = a.n, wrong = 0, turned = 0;
    for (a.n = 0; a.n <= n; a.n += a.n % 64 ? 63 : 1) wrong += code() != 1;
    ok(wrong == 0, "cut short anywhere before the end mark: refused");
    a.n = n;
    finish();
    for (size_t i = 0; i < 512; i++) {
        if (i >= 148 && i < 156) continue;      /* the sum's own field: a NUL may become a space */
        a.s[i] ^= 1 << i % 8;
        turned += code() != 1;
        a.s[i] ^= 1 << i % 8;
    }
    ok(turned == 0, "a bit turned in any byte of a header: refused");
    buf_clear(&a);
}

int main(void)
{
    names();
    faults();
    cuts();
    add("x", '0', "y", 1);
    ok(tar_magic(a.s, a.n) && !tar_magic(a.s, 511) && !tar_magic(a.s + 1, 512), "a header is recognised");
    memset(a.s, 0, 512);
    ok(!tar_magic(a.s, 512), "zeros are none");
    buf_free(&a);
    return done();
}
