#include "operand.h"
#include "base/err.h"
#include "base/io.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "10" or "": what stands from s to end; -1 if it is no number. */
static int64_t number(const char *s, const char *end, int64_t none)
{
    int64_t x = 0;
    if (s == end) return none;
    for (; s < end; s++)
        if (*s < '0' || *s > '9' || x > (INT64_MAX - 9) / 10) return -1;
        else x = 10 * x + (*s - '0');
    return x;
}

static int cut_times(Operand *o, const char *whole)
{
    char *star = strrchr(o->path, '*'), *end;
    if (!star || !star[1] || strspn(star + 1, "0123456789.") != strlen(star + 1)) return 0;
    errno = 0;
    o->times = strtod(star + 1, &end);
    if (errno || *end || !(o->times > 0 && o->times <= 1e6))
        die_usage("'%s': taken how many times? A number up to 1,000,000 follows the *", whole);
    *star = 0;
    return 1;
}

static int cut_range(Operand *o, const char *whole)
{
    char *at = strrchr(o->path, '@'), *colon = at ? strchr(at, ':') : NULL;
    if (!colon || strspn(at + 1, "0123456789:") != strlen(at + 1)) return 0;
    int64_t from = number(at + 1, colon, 0), to = number(colon + 1, at + strlen(at), INT64_MAX);
    if (from < 0 || to < from) die_usage("'%s': @START:STOP are rows, START not after STOP", whole);
    o->from = (uint64_t)from;
    o->to = to == INT64_MAX ? UINT64_MAX : (uint64_t)to;
    *at = 0;
    return 1;
}

Operand operand_parse(const char *s)
{
    Operand o = { .path = xasprintf("%s", s), .to = UINT64_MAX, .times = 1 };
    if (access(s, F_OK) == 0) return o;
    cut_times(&o, s);
    if (access(o.path, F_OK) != 0) cut_range(&o, s);
    return o;
}
