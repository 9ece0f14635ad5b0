/* state.json's "data": which shards the run reads, by hash, and since which epoch. */
#include "options.h"
#include "run.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void state_data_json(const Data *d, Buf *b)
{
    int used = d->span[d->nspan - 1].n;
    buf_printf(b, "{\"rows\": %" PRIu64 ", \"shards\": [", d->head.rows);
    for (int i = 0; i < used; i++) {
        buf_printf(b, "%s\n    {\"file\": ", i ? "," : "");
        json_str(b, d->path[i], strlen(d->path[i]));
        buf_printf(b, ", \"rows\": %" PRIu64 ", \"xxh3\": \"%016" PRIx64 "\"}",
                   rows_count(d->shard[i]), rows_hash(d->shard[i]));
    }
    buf_str(b, "\n  ], \"epochs\": [");
    for (int i = 0; i < d->nspan; i++)
        buf_printf(b,
                   "%s\n    {\"position\": %" PRIu64 ", \"epoch\": %" PRIu64 ", \"shards\": %d}",
                   i ? "," : "", d->span[i].pos, d->span[i].epoch, d->span[i].n);
    buf_str(b, "\n  ]}");
}

static uint64_t get_hash(const Json *j, const char *file)
{
    const Json *h = json_get(j, "xxh3");
    if (!h || h->kind != J_STR || h->len != 16 ||
        strspn(h->s, "0123456789abcdef") != 16)
        die("%s: data: a shard without its xxh3", file);
    return strtoull(h->s, NULL, 16);
}

static const Json *get_list(const Json *data, const char *key, const char *file)
{
    const Json *l = data ? json_get(data, key) : NULL;
    if (!l || l->kind != J_ARR || l->n < 1)
        die("%s: data: '%s' is missing or not a list", file, key);
    return l;
}

static void get_spans(Data *d, const Json *list, int shards, const char *file)
{
    DataSpan *s = xcalloc((size_t)list->n, sizeof *s), last = {0};
    int n = 0;
    for (const Json *e = list->child; e; e = e->next, n++) {
        int64_t pos, epoch, k;
        if (!json_int(json_get(e, "position"), &pos) || !json_int(json_get(e, "epoch"), &epoch) ||
            !json_int(json_get(e, "shards"), &k) || pos < (int64_t)last.pos ||
            epoch < (int64_t)last.epoch || k < last.n || k < 1 || k > shards ||
            (n == 0 && (pos || epoch)) || (!e->next && k != shards))
            die("%s: data: 'epochs' is not what it must be", file);
        last = s[n] = (DataSpan){ .pos = (uint64_t)pos, .epoch = (uint64_t)epoch, .n = (int)k };
    }
    data_spans(d, s, n);
    free(s);
}

_Noreturn static void missing(const Json *shard, const char *file)
{
    const Json *name = json_get(shard, "file");
    int64_t rows = 0;
    json_int(json_get(shard, "rows"), &rows);
    die("--train: of the shards of the run in %s, %s (%" PRId64 " rows) is not there or has "
        "changed: a resume needs the same data",
        file, name && name->kind == J_STR ? name->s : "one", rows);
}

void state_data(Data *d, const Json *state, const char *file)
{
    const Json *data = json_get(state, "data"), *list = get_list(data, "shards", file);
    uint64_t *hash = xcalloc((size_t)list->n, sizeof *hash);
    int n = 0;
    for (const Json *e = list->child; e; e = e->next) hash[n++] = get_hash(e, file);
    int k = data_arrange(d, hash, n);
    if (k < n) {
        const Json *e = list->child;
        while (k--) e = e->next;
        missing(e, file);
    }
    if (d->n > n && !opt.rescan)
        die("--train: %s is not one of the %d shards of the run in %s: leave it out, or take it in "
            "at the next epoch with --rescan",
            d->path[n], n, file);
    get_spans(d, get_list(data, "epochs", file), n, file);
    free(hash);
}
