#include "tap.h"
#include "base/err.h"
#include "base/io.h"
#include "base/opt.h"
#include <limits.h>
#include <math.h>

/* Each case is a process of its own: opt_parse() with these words, then one line that shows all
 * values. */
static int depth = 4, flag, other, seen;
static int64_t mem = 1 << 20;
static double lr = 0.02, any, pos = 1;
static const char *out = "-", *kind = "auto";
static StrList train;
static const Opt opts[] = {
    OPT_HEAD("Model"),
    OPT_INT('T', "depth", &depth, "N", -5, INT_MAX, "so many layers"),
    OPT_LONG(0, "mem", &mem, "BYTES", 0, 0,
        "memory to use, with a text that is long enough to need a second line"),
    OPT_FLOAT(0, "lr", &lr, "X", -1, 1, "step"),
    OPT_FLOAT(0, "any", &any, "X", 0, 0, "any number"),
    OPT_FLOAT(0, "temperature", &pos, "X", 0, INFINITY, "to infinity"),
    OPT_HEAD("Files"),
    OPT_STR('o', "output", &out, "FILE", "write to FILE"),
    { O_LIST, 't', "train", "FILE", "read FILE; may be repeated", &train, 0, 0, &seen },
    OPT_CHOICE('d', "dtype", &kind, "auto|fp32|bf16", "kind of number"),
    OPT_FLAG('f', "flag", &flag, "a flag"),
    OPT_FLAG(0, "other-flag", &other, "another"),
    OPT_INT(0, "an-option-with-a-long-name", &depth, "NUMBER", 0, 0, "on a line of its own"),
    OPT_FLAG(0, "secret", &other, NULL),
    OPT_END
};

static char text[1 << 16];      /* stdout and stderr of the last case */

static int run(const Opt *table, char **argv)
{
    int argc = 0, p[2];
    while (argv[argc]) argc++;
    if (pipe(p)) abort();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(p[1], 1); dup2(p[1], 2); close(p[0]); close(p[1]);
        int n = opt_parse(argc, argv, "[options] [FILE ...]", "One line about it.", table);
        printf("depth=%d mem=%lld lr=%g any=%g temp=%g out=%s kind=%s flag=%d other=%d "
               "verbose=%d train=", depth,
               (long long)mem, lr, any, pos, out, kind, flag, other, verbose);
        for (int i = 0; i < train.n; i++) printf("%s%s", i ? "," : "", train.s[i]);
        printf(" seen=%d given=%d/%d/%d args=", seen, opt_given("depth"), opt_given("train"),
            opt_given("Model"));
        for (int i = 1; i <= n; i++) printf("%s%s", i > 1 ? "," : "", argv[i]);
        printf("\n");
        exit(0);
    }
    close(p[1]);
    size_t n = 0;
    ssize_t k;
    while (n < sizeof text - 1 && (k = read(p[0], text + n,
        sizeof text - 1 - n)) > 0) n += (size_t)k;
    text[n] = 0;
    close(p[0]);
    int st;
    waitpid(pid, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 100;
}

#define CASE(code, want, ...) do { char *v_[] = { (char *)"dir/tool", __VA_ARGS__, NULL }; \
    int rc_ = run(opts, v_); int good_ = rc_ == (code) && strstr(text, want); \
    if (!good_) { printf("# exit %d, got:\n# %s", rc_, text); } \
    ok(good_, "%s", #__VA_ARGS__); } while (0)

static const char *conf(const char *body)       /* write a config file, return its name */
{
    static char path[] = "/tmp/opt-test-XXXXXX";
    static int fd = -1;
    if (fd < 0 && (fd = mkstemp(path)) < 0) abort();
    size_t n = strlen(body);
    if (ftruncate(fd, 0) || pwrite(fd, body, n, 0) != (ssize_t)n) abort();
    return path;
}

static void values(void)
{
    char *none[] = { (char *)"tool", NULL };
    ok(run(opts, none) == 0 && strstr(text,
        "depth=4 mem=1048576 lr=0.02 any=0 temp=1 out=- kind=auto flag=0 other=0 "
       "verbose=1 train= seen=0 given=0/0/0 args=\n"), "nothing given: the defaults");
    CASE(0, "depth=7 ", "--depth", "7");
    CASE(0, "depth=7 ", "--depth=7");
    CASE(0, "depth=7 ", "-T7");
    CASE(0, "depth=7 ", "-T", "7");
    CASE(0, "depth=-3 ", "--depth", "-3");
    CASE(0, "depth=-3 ", "-T-3");
    CASE(0, "depth=3 ", "-T", "+3");
    CASE(0, "depth=9 ", "-T", "3", "--depth=9");
    CASE(0, "flag=1 ", "-fT3");
    CASE(0, "depth=3 ", "-fT3");
    CASE(0, "out=a=b ", "--output=a=b");
    CASE(0, "out= kind", "--output=");
    CASE(0, "out=- kind", "-o", "-");
    CASE(0, "out=-x kind", "-o", "-x");
    CASE(0, "out=--help kind", "--output=--help");
    CASE(0, "out=--help kind", "-o--help");
    CASE(0, "kind=bf16 ", "-dbf16");
    CASE(0, "train=a,b,c,d,e seen=5 given=0/5/0", "-ta", "-t", "b", "--train=c", "--train", "d",
        "-te");
    CASE(0, "verbose=3 ", "-vv");
    CASE(0, "verbose=0 ", "-q", "-v");
    CASE(0, "args=x,-,y,-z,--\n", "x", "-f", "-", "y", "--", "-z", "--");
    CASE(0, "args=\n", "--");
}

static void numbers(void)
{
    CASE(0, "depth=2147483647 ", "-T", "2147483647");
    CASE(2, "-T: 2147483648 is out of range (-5 to 2147483647)", "-T", "2147483648");
    CASE(2, "out of range", "-T", "2G");
    CASE(0, "depth=1073741824 ", "-T", "1G");
    CASE(2, "--depth: -6 is out of range (-5 to 2147483647)", "--depth=-6");
    CASE(2, "out of range (-2147483648 to 2147483647)", "--an-option-with-a-long-name",
        "-2147483649");
    CASE(0, "mem=9223372036854775807 ", "--mem", "9223372036854775807");
    CASE(0, "mem=-9223372036854775808 ", "--mem", "-9223372036854775808");
    CASE(2, "out of range", "--mem", "9223372036854775808");
    CASE(2, "out of range", "--mem", "99999999999999999999999999");
    CASE(0, "mem=9223372035781033984 ", "--mem", "8589934591G");
    CASE(2, "out of range", "--mem", "8589934592G");
    CASE(0, "mem=-9223372036854775808 ", "--mem", "-8589934592G");
    CASE(2, "out of range", "--mem", "99999999999999999999K");
    CASE(0, "mem=3072 ", "--mem=3K");
    CASE(0, "mem=3145728 ", "--mem=3M");
    CASE(2, "'3k' is not a whole number", "--mem=3k");
    CASE(2, "not a whole number", "--mem=3KB");
    CASE(2, "not a whole number", "--mem=3 ");
    CASE(2, "not a whole number", "--mem= 3");
    CASE(2, "not a whole number", "--mem=");
    CASE(2, "not a whole number", "--mem=K");
    CASE(2, "not a whole number", "--mem=-");
    CASE(2, "not a whole number", "--mem=0x10");
    CASE(2, "not a whole number", "--mem=1e3");
    CASE(0, "lr=-0.5 ", "--lr", "-.5");
    CASE(0, "lr=0.125 ", "--lr", "0x1p-3");
    CASE(0, "lr=1 ", "--lr", "1");
    CASE(2, "--lr: 1.0000001 is out of range (-1 to 1)", "--lr", "1.0000001");
    CASE(2, "not a number", "--lr", "nan");
    CASE(2, "not a number", "--lr", "-nan(1)");
    CASE(2, "not a number", "--lr", "");
    CASE(2, "not a number", "--lr", " 1");
    CASE(2, "not a number", "--lr", "1x");
    CASE(2, "not a number", "--lr", "0,5");
    CASE(0, "any=-1e+300 ", "--any", "-1e300");
    CASE(2, "out of range", "--any", "inf");
    CASE(2, "out of range", "--any", "1e999");
    CASE(0, "temp=inf ", "--temperature", "inf");
    CASE(2, "out of range", "--temperature", "1e999");
    CASE(2, "out of range", "--temperature", "-0.1");
    CASE(2, "-d: 'fp64' is not one of auto|fp32|bf16", "-d", "fp64");
    CASE(2, "not one of", "-d", "");
    CASE(2, "not one of", "-d", "auto|fp32");
    CASE(2, "not one of", "-d", "fp3");
}

static void wrong(void)
{
    CASE(2, "tool: unknown option '--dpeth'; did you mean '--depth'?\nTry 'tool --help'.\n",
        "--dpeth", "3");
    CASE(2, "did you mean '--depth'?", "--dep=3");
    CASE(2, "did you mean '--other-flag'?", "--other_flag");
    CASE(2, "did you mean '--version'?", "--verson");
    CASE(2, "unknown option '--zzzzzz'\n", "--zzzzzz");
    CASE(2, "unknown option '---'\n", "---");
    CASE(2, "unknown option '--'", "--=3");
    CASE(2, "unknown option '-z'\n", "-z");
    CASE(2, "unknown option '-z' in '-fz'\n", "-fz");
    CASE(2, "unknown option '-5'", "-5");
    CASE(2, "unknown option '--Model'\n", "--Model");
    CASE(2, "--flag: takes no value", "--flag=1");
    CASE(2, "--depth: needs a value\n", "--depth");
    CASE(2, "-o: needs a value\n", "-fo");
    CASE(2, "--output: needs a value, but '--flag' follows", "--output", "--flag");
    CASE(2, "needs a value, but '--depth=3' follows", "-o", "--depth=3");
    char *v[] = { (char *)"tool", NULL, NULL };
    v[1] = malloc(100003);
    memset(v[1], '-', 100002);
    v[1][100002] = 0;
    ok(run(opts, v) == 2, "an option of 100,000 letters");
    free(v[1]);
}

static void configs(void)
{
    char *c = (char *)conf("# a comment\n\n depth = 12 # twelve\r\nlr=0.5\n"
                            "output = a b#c\t# x\nflag\ntrain=x\ntrain = y\nverbose\n");
    CASE(0, "depth=12 mem=1048576 lr=0.5 any=0 temp=1 out=a b#c kind=auto flag=1 other=0 "
         "verbose=2 train=x,y seen=2 given=1/2/0", "-c", c);
    CASE(0, "depth=3 ", "--depth", "3", "--config", c);
    CASE(0, "given=2/2/0", "-T3", "-c", c);
    CASE(0, "train=z,w seen=4", "-c", c, "-tz", "-tw");
    conf("flag = true\nother-flag=false\n");
    CASE(0, "flag=1 other=0", "-c", c);
    CASE(0, "flag=1 other=1", "--other-flag", "-c", c);
    conf("flag = no");
    CASE(0, "flag=0", "-c", c);
    conf("output =\n");
    CASE(0, "out= kind", "-c", c);
#define BAD(body, want) conf(body); CASE(2, want, "-c", c)
    BAD("depth = 3\n\ndpeth = 4\n", ": line 3: dpeth: no such option; did you mean 'depth'?");
    BAD("depth = 3x\n", ": line 1: depth: '3x' is not a whole number");
    BAD("depth\n", ": line 1: depth: needs a value");
    BAD("flag = maybe\n", ": line 1: flag: 'maybe' is neither true nor false");
    BAD("config = x\n", "belongs on the command line");
    BAD("help\n", "belongs on the command line");
    BAD("= 3\n", "no such option");
    BAD("[section]\n", ": line 1: [section]: no such option");
    static char junk[70000];
    memset(junk, 'x', sizeof junk - 1);
    BAD(junk, "xxxx: no such option");
    ok(strlen(text) < 300, "a long line is quoted in part");
    CASE(1, "/dev/zero: is longer than", "-c", "/dev/zero");
    CASE(1, "/nonexistent/c: No such file", "-c", "/nonexistent/c");
    CASE(2, "-c: needs a value", "-c");
    conf("depth = 3\n");
    CASE(2, "did you mean '--depth'", "-c", c, "--dept=3");
    unlink(c);
}

static int starts(const char *line)     /* the help has this line, from its first byte on */
{
    char want[200];
    snprintf(want, sizeof want, "\n%s\n", line);
    return strstr(text, want) != NULL;
}

static void help(void)
{
    CASE(0, "Usage: tool [options] [FILE ...]\nOne line about it.\n\nModel:\n", "--help");
    ok(starts("  -T, --depth N               so many layers [4]"),
        "an option in columns, with its default");
    ok(starts("      --mem BYTES             memory to use, with a text that is long enough to")
       && starts("                              need a second line [1048576]"),
           "wrapped text stays in its column");
    ok(starts("      --an-option-with-a-long-name NUMBER\n"
              "                              on a line of its own [4]"), "a long name");
    ok(starts("  -o, --output FILE           write to FILE [-]")
        && starts("  -t, --train FILE            read FILE; may be repeated"), "strings, lists");
    ok(starts("  -d, --dtype auto|fp32|bf16  kind of number [auto]"), "choices");
    ok(starts("  -f, --flag                  a flag") && !strstr(text, "secret"),
        "flags; no text: not shown");
    ok(starts("  -q, --quiet                 say nothing but errors") && strstr(text,
        "--version"), "what every tool has");
    int longest = 0, n = 0;
    for (const char *p = text; *p; p++) { n = *p == '\n' ? 0 : n + 1;
        if (n > longest) longest = n; }
    ok(longest <= 80, "80 columns (%d)", longest);
    CASE(0, "so many layers [4]", "-T9", "-h");
    CASE(0, "Usage:", "--depth=x", "--help");
    CASE(2, "unknown", "--bogus", "--help");
    CASE(0, "tool ", "--version");
    ok(strstr(text, __VERSION__) && strstr(text, " (") && text[strlen(text) - 1] == '\n',
        "version: compiler, flags, back-ends");

    static int v;
    static const Opt mine[] = { OPT_INT('v', "vocab-size", &v, "N", 0, 9, "vocabulary"),
        OPT_FLAG(0, "quiet", &v, "mine"), OPT_END };
    char *args[] = { (char *)"tool", (char *)"-v3", (char *)"--verbose", NULL }, *h[] = {
        (char *)"tool", (char *)"-h", NULL };
    ok(run(mine, args) == 0 && strstr(text, "verbose=2"),
        "a tool's own -v wins the letter, --verbose stays");
    ok(run(mine, h) == 0 && strstr(text, "  -v, --vocab-size N") && strstr(text, "      --verbose ")
       && strstr(text, "--quiet") == strstr(text, "--quiet         mine") && strstr(text,
           "\nOptions:\n"), "and --help says so");
}

static void full(void *x)
{
    char *v[] = { (char *)"tool", (char *)"--help", NULL };
    (void)x;
    if (!freopen("/dev/full", "w", stdout)) _exit(98);
    opt_parse(2, v, "", "", opts);
}

int main(void)
{
    values();
    numbers();
    wrong();
    configs();
    help();
    ok(dies(1, "stdout: cannot write: No space left", full, NULL), "--help to a full disk: exit 1");
    return done();
}
