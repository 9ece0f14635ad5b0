#include "base/json.h"
#include "eval.h"
#include <inttypes.h>

void rec_num(Buf *b, const char *key, double x)
{
    buf_printf(b, ", \"%s\": ", key);
    json_num(b, x);
}

void rec_count(Buf *b, const char *key, uint64_t n)
{
    buf_printf(b, ", \"%s\": %" PRIu64, key, n);
}

void rec_str(Buf *b, const char *key, const char *s, size_t n)
{
    buf_printf(b, ", \"%s\": ", key);
    json_str(b, s ? s : "", n);
}

void rec_write(Out *out, const Buf *b)
{
    out_write(out, b->s, b->n);
    out_str(out, "\n");
    out_flush(out);
}
