/* encode.c -- the ring and its threads; see encode.h.
 *
 * Processors may have no cache in common, so that what one wrote costs the other as much as if it lay
 * in memory. A thread mostly encodes what it read itself, into buffers that it used before; the first
 * thread writes, and others only if there is nothing else to do. */
#include "encode.h"
#include <pthread.h>
#include <stdlib.h>

typedef struct Ring {
    Batch *b; size_t n;
    uint64_t read, written;             /* batches; batch k is b[k % n] */
    bool reading, writing, ended;
    pthread_mutex_t lock;
    pthread_cond_t change;
    Feed *feed;
    Sink *sink;
} Ring;

typedef struct Thread { Ring *r; Worker *w; pthread_t id; int number; } Thread;

static Batch *ready(Ring *r)
{
    for (uint64_t k = r->written; k < r->read; k++)
        if (r->b[k % r->n].state == READY) return &r->b[k % r->n];
    return NULL;
}

static void do_write(Ring *r, Batch *b)
{
    r->writing = true;
    pthread_mutex_unlock(&r->lock);
    sink_batch(r->sink, b);
    pthread_mutex_lock(&r->lock);
    b->state = FREE;
    r->written++;
    r->writing = false;
}

static void do_encode(Ring *r, Worker *w, Batch *b)
{
    b->state = BUSY;
    pthread_mutex_unlock(&r->lock);
    worker_encode(w, b);
    pthread_mutex_lock(&r->lock);
    b->state = DONE;
}

/* Buffers of the thread's own in place of those that batch b has, if there are free ones. */
static void own_buffers(Ring *r, Batch *b, int thread)
{
    for (uint64_t k = r->read; k < r->written + r->n && b->owner != thread; k++) {
        Batch *other = &r->b[k % r->n], swap = *b;
        if (other->owner == thread) *b = *other, *other = swap;
    }
    b->owner = thread;
}

static void do_read(Ring *r, Batch *b, int thread)
{
    own_buffers(r, b, thread);
    r->reading = true;
    pthread_mutex_unlock(&r->lock);
    bool more = feed_next(r->feed, b);
    pthread_mutex_lock(&r->lock);
    r->reading = false;
    r->ended = !more;
    if (!more) return;
    b->state = READY;
    r->read++;
}

static void *work(void *arg)
{
    Thread *t = arg;
    Ring *r = t->r;
    pthread_mutex_lock(&r->lock);
    while (!r->ended || r->written < r->read) {
        Batch *next = &r->b[r->written % r->n], *room = &r->b[r->read % r->n], *b;
        bool done = !r->writing && r->written < r->read && next->state == DONE;
        if (done && t->number == 0) do_write(r, next);
        else if ((b = ready(r))) do_encode(r, t->w, b);
        else if (!r->reading && !r->ended && r->read - r->written < r->n) do_read(r, room, t->number);
        else if (done) do_write(r, next);
        else {
            pthread_cond_wait(&r->change, &r->lock);
            continue;
        }
        pthread_cond_broadcast(&r->change);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void batch_free(Batch *b)
{
    buf_free(&b->in.b);
    tokout_free(&b->out);
    chatids_free(&b->chat);
    free(b->len);
}

void encode_run(Encode *e, char **files, int n)
{
    Ring r = { .n = e->threads > 1 ? 2 * (size_t)e->threads + 1 : 1 };
    Thread *t = xcalloc((size_t)e->threads, sizeof *t);
    r.b = xcalloc(r.n, sizeof *r.b);
    for (size_t i = 0; i < r.n; i++) r.b[i].owner = (int)(i % (size_t)e->threads);
    r.feed = feed_new(e, files, n);
    r.sink = sink_new(e);
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.change, NULL);
    for (int i = 0; i < e->threads; i++) {
        t[i] = (Thread){ .r = &r, .w = worker_new(e, i ? t[0].w : NULL), .number = i };
        if (i && pthread_create(&t[i].id, NULL, work, &t[i])) die("cannot start a thread");
    }
    work(&t[0]);
    for (int i = 1; i < e->threads; i++) pthread_join(t[i].id, NULL);
    if (!e->documents)
        die("no documents in %s", n == 0 ? "stdin" : n == 1 ? files[0] : "the files");
    sink_close(r.sink);
    feed_free(r.feed);
    for (int i = 0; i < e->threads; i++) worker_free(t[i].w);
    for (size_t i = 0; i < r.n; i++) batch_free(&r.b[i]);
    free(r.b), free(t);
    pthread_cond_destroy(&r.change);
    pthread_mutex_destroy(&r.lock);
}
