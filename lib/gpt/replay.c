/* replay.c -- see replay.h. */
#include "gpt/replay.h"
#include "base/io.h"

void replay(Replay *r, Tape *t, const uint64_t *key, int n, void (*work)(void *arg), void *arg)
{
    const Ops *o = t->ops;
    const uint64_t hash = xxh3(key, (size_t)n * sizeof *key);
    const size_t had = t->bytes;
    int same = r->key == hash;
    if (same && r->graph && o->graph_run(r->graph)) return;
    if (r->graph) same = 0;                     /* something has moved, scratch perhaps */
    replay_free(r, o);
    if (!same) r->steady = r->failed = 0;
    r->key = hash;
    if (o->graph_begin && r->steady && !r->failed) {
        o->graph_begin();
        work(arg);
        r->graph = o->graph_end();
        if (r->graph && o->graph_run(r->graph)) return;
        r->failed = 1;
    }
    work(arg);
    r->steady = t->bytes == had;
}

void replay_free(Replay *r, const Ops *ops)
{
    if (r->graph) ops->graph_free(r->graph);
    r->graph = NULL;
}
