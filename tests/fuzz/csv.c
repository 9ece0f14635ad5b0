/* CSV and TSV: refused, or rows of strings, each with as many fields; the same ones however the
 * bytes come in. */
#include "data/csv.h"
#include "rows.h"

static int fields;                              /* of the first row */

static bool row(void *arg, const char *s, size_t n)
{
    Feed *f = arg;
    Arena a = {0};
    const Json *j = feed_row(f, &a, s, n);
    if (f->rows == 1) fields = j->n;
    if (j->n != fields || !fields) abort();
    for (const Json *v = j->child; v; v = v->next)
        if (v->kind != J_STR) abort();
    arena_free(&a);
    return !(f->how & 2) || f->rows < 3;
}

static void read_csv(void *arg)
{
    Feed *f = arg;
    Csv c = { .file = "input", .sep = f->how & 1 ? '\t' : ',', .row = row, .arg = f };
    bool more = true;
    for (size_t i = 0; more && i < f->n; i += f->step)
        more = csv_feed(&c, f->s + i, f->n - i < f->step ? f->n - i : f->step);
    csv_end(&c);
    f->extra = f->rows < 3 || !(f->how & 2) ? c.replaced : 0;
    csv_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    feed_twice(read_csv, data, n);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const s[] = {
        "\4a,b\n1,2\n", "\10\xEF\xBB\xBFid,\"the \"\"text\"\"\"\r\n1,\"two\nlines, one comma\"\r\n\r\n2,\r\n",
        "\1a\tb\n\"x\ty\"\tz\n", "\14one\n\n\xFF\n\"\"\n", "\20\"\",a\n,\n", "\4a,a\n1,2\n",
        "\2" "a\n1\n2\n3\n4\n" };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) put(s[i], strlen(s[i]));
}
