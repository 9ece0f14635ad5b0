/* pq_value.c -- values as JSON. */
#include "base/json.h"
#include "data/pq.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <math.h>

/* "YYYY-MM-DD" of a day counted from 1970-01-01: the proleptic Gregorian calendar, by whole eras of
 * 400 years that begin on March 1st. */
static void date(int64_t days, Buf *out)
{
    days += 719468;                                     /* since 0000-03-01 */
    int64_t era = (days >= 0 ? days : days - 146096) / 146097, day = days - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    int64_t month = (5 * day + 2) / 153;                /* 0: March */
    day -= (153 * month + 2) / 5;
    year += era * 400 + (month >= 10);
    buf_printf(out, "%04" PRId64 "-%02d-%02d", year, (int)(month < 10 ? month + 3 : month - 9),
               (int)day + 1);
}

static void time_of_day(int64_t t, int64_t second, int digits, Buf *out)
{
    int64_t s = t / second, rest = t % second;
    buf_printf(out, "%02d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    if (rest) buf_printf(out, ".%0*" PRId64, digits, rest);
}

static void moment(const Parquet *p, const PqLeaf *l, int64_t x, Buf *out)
{
    const PqNode *n = &p->node[l->node];
    int64_t second = n->digits == 3 ? 1000 : n->digits == 6 ? 1000000 : 1000000000;
    int64_t day = second * 86400, t = x % day, days = x / day - (t < 0);
    t += t < 0 ? day : 0;
    if (n->as == AS_TIME && days) pq_bad(p, l, "a time that is not of one day");
    buf_char(out, '"');
    if (n->as == AS_TIMESTAMP) date(days, out), buf_char(out, ' ');
    time_of_day(t, second, n->digits, out);
    buf_char(out, '"');
}

static void integer(const Parquet *p, const PqLeaf *l, int64_t x, Buf *out)
{
    switch (p->node[l->node].as) {
    case AS_UNSIGNED: buf_printf(out, "%" PRIu64, (uint64_t)x); break;
    case AS_DATE: buf_char(out, '"'), date(x, out), buf_char(out, '"'); break;
    case AS_TIME: case AS_TIMESTAMP: moment(p, l, x, out); break;
    default: buf_printf(out, "%" PRId64, x);
    }
}

static void number(Parquet *p, PqLeaf *l, Buf *out)
{
    const PqNode *n = &p->node[l->node];
    int32_t i;
    int64_t k;
    float f;
    double d;
    switch (n->type) {
    case PQ_INT32:
        pq_take_fixed(p, l, &i, sizeof i);
        integer(p, l, n->as == AS_UNSIGNED ? (int64_t)(uint32_t)i : i, out);
        return;
    case PQ_INT64:
        pq_take_fixed(p, l, &k, sizeof k);
        integer(p, l, k, out);
        return;
    case PQ_FLOAT: pq_take_fixed(p, l, &f, sizeof f), d = (double)f; break;
    default: pq_take_fixed(p, l, &d, sizeof d);
    }
    if (!isfinite(d)) pq_bad(p, l, "a value that is not finite: JSON cannot say it");
    json_num(out, d);
}

/* Long values: is there room for them with all their escapes? */
static void check_room(const Parquet *p, const PqLeaf *l, const char *s, size_t n, const Buf *out)
{
    size_t all = out->n + n;
    for (size_t i = 0; i < n; i++)
        all += (unsigned char)s[i] < 32 ? 5 : s[i] == '"' || s[i] == '\\';
    if (all > p->limit) pq_bad(p, l, "a row of more than 48 MB, which is not supported");
}

static void string(Parquet *p, PqLeaf *l, Buf *out)
{
    size_t n;
    const char *s = pq_take_bytes(p, l, &n);
    if (n > PARQUET_ROW / 8 || out->n > p->limit - PARQUET_ROW / 8 * 7)
        check_room(p, l, s, n, out);
    if (utf8_valid(s, n) != n) pq_bad(p, l, "bytes that are not UTF-8 (leave the column out?)");
    json_str_valid(out, s, n);
}

void pq_value(Parquet *p, PqLeaf *l, Buf *out)
{
    switch (p->node[l->node].type) {
    case PQ_BOOLEAN: buf_str(out, pq_take_bool(p, l) ? "true" : "false"); break;
    case PQ_BYTE_ARRAY: string(p, l, out); break;
    default: number(p, l, out);
    }
}
