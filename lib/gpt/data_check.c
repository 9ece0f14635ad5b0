/* data_check.c -- block hashes of the shards, now or in a thread; see data.h. */
#include "base/progress.h"
#include "gpt/data.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

void data_verify(const Data *d)
{
    Progress p = { .what = "verifying", .unit = "blocks" };
    uint64_t done = 0;
    for (int i = 0; i < d->n; i++) p.total += rows_blocks(d->shard[i]);
    for (int i = 0; i < d->n; i++)
        for (uint64_t b = 0; b < rows_blocks(d->shard[i]); b++) {
            if (!rows_block_good(d->shard[i], b)) rows_block_bad(d->shard[i], b);
            progress(&p, ++done);
        }
    progress_end(&p);
}

typedef struct DataCheck {
    pthread_t thread;
    Rows *const *shard; int n;          /* a copy: the caller's array may move */
    atomic_bool stop, found;
    const Rows *bad; uint64_t block;    /* set before found */
} DataCheck;

static void *check(void *arg)
{
    DataCheck *c = arg;
    for (int i = 0; i < c->n; i++)
        for (uint64_t b = 0; b < rows_blocks(c->shard[i]); b++) {
            if (atomic_load(&c->stop)) return NULL;
            if (rows_block_good(c->shard[i], b)) continue;
            c->bad = c->shard[i];
            c->block = b;
            atomic_store(&c->found, true);
            return NULL;
        }
    return NULL;
}

static void check_free(DataCheck *c)
{
    free((void *)(uintptr_t)c->shard);
    free(c);
}

void data_look(const Data *d)
{
    if (d->check && atomic_load(&d->check->found)) rows_block_bad(d->check->bad, d->check->block);
}

/* The thread takes no signal: handlers run where they always did. */
void data_watch(Data *d, int from)
{
    sigset_t all, old;
    if (d->check) {
        pthread_join(d->check->thread, NULL);
        data_look(d);
        check_free(d->check);
    }
    DataCheck *c = d->check = xcalloc(1, sizeof *c);
    Rows **copy = xreallocarray(NULL, (size_t)(d->n - from) + 1, sizeof *copy);
    for (int i = from; i < d->n; i++) copy[c->n++] = d->shard[i];
    c->shard = copy;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int err = pthread_create(&c->thread, NULL, check, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!err) return;
    warn("no thread to verify the shards in; doing it now");
    free(copy);
    free(c);
    d->check = NULL;
    data_verify(d);
}

void data_unwatch(Data *d)
{
    if (!d->check) return;
    atomic_store(&d->check->stop, true);
    pthread_join(d->check->thread, NULL);
    check_free(d->check);
    d->check = NULL;
}
