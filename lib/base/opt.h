/* opt.h -- one table gives both the parser and --help.
 *
 *     static int vocab = 32768; static const char *out = "-";
 *     static const Opt opts[] = {
 *         OPT_HEAD("Options"),
 *         OPT_INT('v', "vocab-size", &vocab, "N", 265, INT_MAX, "train N tokens in all"),
 *         OPT_STR('o', "output", &out, "FILE", "write to FILE; - is stdout"),
 *         OPT_END
 *     };
 *     int n = opt_parse(argc, argv, "[options] [FILE ...]", "One line about.", opts);
 *     // operands are argv[1] .. argv[n]
 *
 * Values already in the variables are the defaults, and are shown by --help. Options and operands
 * may be mixed; "--" ends the options; a lone "-" is an operand. Short options can be joined
 * (-vq), values attached (-T256, --depth=4). Numbers are checked to their last character and for
 * range; integers take the suffixes K, M, G (2^10, 2^20, 2^30).
 *
 * A range 0, 0 means any number the type holds (a float: any finite one; "inf" needs a range that
 * has it). Several values of a list: those of the command line take the place of the config's.
 *
 * Every tool also has, without listing them: -c/--config FILE ("key = value" lines, # comments
 * at the line's start or after a blank; keys are long option names, a flag is true or false;
 * applied before the command line whatever its place there),
 * -q/--quiet, -v/--verbose (each adds 1), -h/--help, --version. A table entry that takes one of
 * those letters wins it (bpe-train's -v is --vocab-size).
 *
 * Answers --help and --version itself (exit 0, on stdout). Anything unknown, ambiguous or out of
 * range ends the program with exit 2; an unknown long option is answered with the nearest one.
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H
#include <stdint.h>

typedef struct StrList { const char **s; int n; } StrList;  /* every value of a repeated option */

typedef enum { O_END, O_HEAD, O_FLAG, O_INT, O_LONG, O_FLOAT, O_STR, O_LIST, O_CHOICE } OptKind;

typedef struct Opt {
    OptKind kind;
    char key;                       /* -k, or 0 */
    const char *name, *arg, *help;  /* --name ARG; for O_CHOICE, arg is "one|two|three" */
    void *to;                       /* int, int64_t, double, const char *, StrList */
    double lo, hi;                  /* range, ends included (integers are exact to 2^53) */
    int *seen;                      /* if not NULL, counts how often it was given */
} Opt;

#define OPT_HEAD(text)                         { O_HEAD, 0, text, 0, 0, 0, 0, 0, 0 }
/* FLAG: int, set to 1. FLOAT: no NaN. CHOICE: const char *. A compiler warns of a `to` of another
 * type. */
#define OPT_TO(type, to)                       (1 ? (to) : (type *)0)
#define OPT_FLAG(k, name, to, help)            { O_FLAG, k, name, 0, help, OPT_TO(int, to), 0, 0, 0 }
#define OPT_INT(k, name, to, arg, lo, hi, help) \
    { O_INT, k, name, arg, help, OPT_TO(int, to), lo, hi, 0 }
#define OPT_LONG(k, name, to, arg, lo, hi, help) \
    { O_LONG, k, name, arg, help, OPT_TO(int64_t, to), lo, hi, 0 }
#define OPT_FLOAT(k, name, to, arg, lo, hi, help) \
    { O_FLOAT, k, name, arg, help, OPT_TO(double, to), lo, hi, 0 }
#define OPT_STR(k, name, to, arg, help) \
    { O_STR, k, name, arg, help, OPT_TO(const char *, to), 0, 0, 0 }
#define OPT_LIST(k, name, to, arg, help) \
    { O_LIST, k, name, arg, help, OPT_TO(StrList, to), 0, 0, 0 }
#define OPT_CHOICE(k, name, to, words, help) \
    { O_CHOICE, k, name, words, help, OPT_TO(const char *, to), 0, 0, 0 }
#define OPT_END                                { O_END, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Parse; move the operands to argv[1..n] in their order and return n. */
int opt_parse(int argc, char **argv, const char *synopsis, const char *about, const Opt *opts);

/* Was --name given (command line or config file)? name must be in the table. */
int opt_given(const char *name);

/* The text of --help, on stdout, with the options every tool has in `common` (opt.c calls this). */
void opt_help(const char *synopsis, const char *about, const Opt *opts, const Opt *common);

/* What --version prints after the tool's name: version, compiler, flags, back-ends. */
const char *opt_version(void);

#endif
