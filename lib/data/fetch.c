/* fetch.c -- all files of a list: a thread that takes each through its states, a few at a time. */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/progress.h"
#include "data/fetch_int.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_CURL
#include <curl/curl.h>
#endif

/* Nobody asks this server for anything before then. */
typedef struct Pause { const char *url; size_t n; double until; } Pause;

/* What fetch_wait() may look at, under the mutex. */
typedef struct Seen { GetState state; bool retries; int64_t at, size; } Seen;

struct Fetcher {
    Fetch how;
    const FetchFile *file;
    Get *get; int n;            /* the thread's, once it runs */
    int next;                   /* the first that is not begun */
    Get **active; int nactive;  /* [how.jobs] */
    Pause *pause; int npause;
    double claimed, said;       /* said: when the last JSON line about progress went out */
    void *multi;                /* CURLM * */
    pthread_t thread;
    pthread_mutex_t mutex;      /* of the following */
    pthread_cond_t change;
    bool runs, stop;
    Seen *seen;                 /* [n] */
    int here, lost;             /* files that are here; the first that cannot be had, or -1 */
};

/* ---- what is told on the way */

/* {"file", "state", "bytes", "total", "rate", "why"}: one line, in one write. */
static void say(const Fetcher *f, const Get *g, const char *state, const char *why)
{
    Buf b = {0};
    if (!f->how.json) return;
    buf_str(&b, "{\"file\":");
    json_str(&b, g->file->url, strcspn(g->file->url, "?"));
    buf_printf(&b, ",\"state\":\"%s\",\"bytes\":%lld", state, (long long)g->at);
    if (g->size >= 0) buf_printf(&b, ",\"total\":%lld", (long long)g->size);
    if (g->curl) buf_printf(&b, ",\"rate\":%.0f", g->rate);
    if (why) {
        buf_str(&b, ",\"why\":");
        json_str(&b, why, strlen(why));
    }
    buf_str(&b, "}\n");
    (void)!write(STDERR_FILENO, b.s, b.n);
    buf_free(&b);
}

/* ---- a file through its states */

static void fails(Fetcher *f, Get *g)
{
    g->state = GET_FAILED;
    say(f, g, "failed", g->why);
}

static void found(Fetcher *f, Get *g)
{
    g->state = GET_DONE;
    cache_unlock(g);
    say(f, g, "cached", NULL);
}

#ifdef HAVE_CURL
static size_t origin(const char *url)
{
    const char *s = strstr(url, "://");
    s = s ? s + 3 : url;
    return (size_t)(s - url) + strcspn(s, "/?#");
}

static Pause *pause_of(Fetcher *f, const char *url)
{
    size_t n = origin(url);
    for (int i = 0; i < f->npause; i++)
        if (f->pause[i].n == n && !strncmp(f->pause[i].url, url, n)) return &f->pause[i];
    f->pause = xreallocarray(f->pause, (size_t)f->npause + 1, sizeof *f->pause);
    f->pause[f->npause] = (Pause){ url, n, 0 };
    return &f->pause[f->npause++];
}

/* A try is over, and the file is not here. */
static void again(Fetcher *f, Get *g, bool whole)
{
    g->wrong += whole || g->restart;
    bool further = !whole && g->at > g->best;   /* than before: a part that cannot be gone on with
                                                 * would else be fetched without end */
    g->failed = further ? 1 : g->failed + 1;
    if (further) g->best = g->at;
    if (whole || g->restart) part_reset(g), g->best = 0;
    if (g->fatal || g->failed > f->how.retries || g->wrong > 3) {
        fails(f, g);
        return;
    }
    double w = f->how.wait * (double)(1 << (g->failed < 7 ? g->failed - 1 : 6));
    if (w > 60) w = 60;
    if (g->after > w) w = g->after;
    g->state = GET_READY;
    g->when = now_seconds() + w;
    if (g->status == 429) {
        Pause *p = pause_of(f, g->file->url);
        if (p->until < g->when) p->until = g->when;
    }
    if (f->how.json) say(f, g, "retry", g->why);
    else warn("%s: %s; again in %.0f s", g->file->url, g->why, w);
}

static void over(Fetcher *f, Get *g, CURLcode rc)
{
    curl_multi_remove_handle(f->multi, g->curl);
    bool whole = get_stop(g, (int)rc);
    if (!whole || !part_finish(g)) {
        again(f, g, whole);
        return;
    }
    cache_unlock(g);
    g->state = GET_DONE;
    say(f, g, "done", NULL);
}

static void start(Fetcher *f, Get *g)
{
    double until = pause_of(f, g->file->url)->until;
    if (until > g->when) g->when = until;
    if (now_seconds() < g->when) return;
    get_start(g);
    g->rate = 0, g->rate_t = now_seconds(), g->rate_at = g->at;
    if (curl_multi_add_handle(f->multi, g->curl)) die("libcurl does not start");
    g->state = GET_RUN;
    say(f, g, g->at ? "resume" : "begin", NULL);
}

/* One step that does not wait; true: call again at once. */
static bool step(Fetcher *f, Get *g)
{
    int r;
    switch (g->state) {
    case GET_NEW:
        g->state = cache_look(g) ? GET_CHECK : GET_LOCK;
        return true;
    case GET_CHECK:
        r = cache_hash(g);
        if (r > 0) found(f, g);
        else if (r < 0) g->state = g->locked ? GET_PART : GET_LOCK;
        if (r < 0 && g->locked) part_open(g);
        return true;
    case GET_LOCK:
        if (!cache_lock(g)) {
            if (!g->told) say(f, g, "waiting", NULL);
            if (!g->told && !f->how.json)
                note(1, "%s: another process fetches it; waiting", g->file->url);
            g->told = true;
            return false;
        }
        if (cache_look(g)) {                            /* by the one we waited for */
            g->state = GET_CHECK;
            return true;
        }
        part_open(g);
        g->state = GET_PART;
        return true;
    case GET_PART:
        if (!part_hash(g)) g->state = GET_READY;
        return true;
    case GET_READY: start(f, g); return false;
    default: return false;
    }
}

/* ---- the thread */

static void look(Fetcher *f, double t)
{
    bool tell = f->how.json && t - f->said >= 1;
    f->claimed = 0;
    if (tell) f->said = t;
    for (int i = 0; i < f->nactive; i++) {
        Get *g = f->active[i];
        if (g->state != GET_RUN) continue;
        if (g->size > g->at) f->claimed += (double)(g->size - g->at);
        if (t - g->rate_t < 1) continue;
        g->rate = (double)(g->at - g->rate_at) / (t - g->rate_t);
        g->rate_t = t, g->rate_at = g->at;
        if (g->rate < 0) g->rate = 0;                   /* it began anew */
        if (tell) say(f, g, "fetching", NULL);
    }
}

/* Lets the other thread see what is new; true: it wants us to end. */
static bool publish(Fetcher *f)
{
    bool news = false;
    pthread_mutex_lock(&f->mutex);
    for (int i = 0; i < f->nactive; i++) {
        Get *g = f->active[i];
        Seen *s = &f->seen[g - f->get];
        *s = (Seen){ g->state, g->failed > 0, g->at, g->size };
        if (g->state < GET_DONE) continue;
        news = true;
        f->here += g->state == GET_DONE;
        if (g->state == GET_FAILED && (f->lost < 0 || g - f->get < f->lost))
            f->lost = (int)(g - f->get);
        f->active[i--] = f->active[--f->nactive];
    }
    bool stop = f->stop;
    if (news) pthread_cond_broadcast(&f->change);
    pthread_mutex_unlock(&f->mutex);
    return stop;
}

/* How long nothing happens, in ms. */
static int idle(const Fetcher *f)
{
    double t = now_seconds(), most = 0.2;
    for (int i = 0; i < f->nactive; i++) {
        const Get *g = f->active[i];
        if (g->state == GET_READY && g->when - t < most) most = g->when - t;
    }
    return most > 0 ? (int)(most * 1000) + 1 : 0;
}

static void turn(Fetcher *f)
{
    bool busy = false;
    int left;
    CURLMsg *m;
    while (f->lost < 0 && f->nactive < f->how.jobs && f->next < f->n)
        f->active[f->nactive++] = &f->get[f->next++];
    for (int i = 0; i < f->nactive; i++) busy |= step(f, f->active[i]);
    curl_multi_perform(f->multi, &left);
    while ((m = curl_multi_info_read(f->multi, &left)) != NULL) {
        Get *g;
        if (m->msg != CURLMSG_DONE) continue;
        CURLcode rc = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&g);
        over(f, g, rc);
        busy = true;
    }
    look(f, now_seconds());
    if (f->nactive) curl_multi_poll(f->multi, NULL, 0, busy ? 0 : idle(f), NULL);
}

static void *fetch_all(void *arg)
{
    Fetcher *f = arg;
    do turn(f);
    while (!publish(f) && (f->nactive || (f->next < f->n && f->lost < 0)));
    return NULL;
}

static Fetcher *running;

/* What is on its way is left as by a kill. */
static void stop(Fetcher *f)
{
    pthread_mutex_lock(&f->mutex);
    f->stop = true;
    pthread_mutex_unlock(&f->mutex);
    curl_multi_wakeup(f->multi);
}

/* At exit, before what libcurl is made of is taken down. A thread that is about to die itself waits
 * for us to end (err.c), so we wait for it but so long. */
static void halt(void)
{
    Fetcher *f = running;
    struct timespec t;
    running = NULL;
    if (!f || pthread_equal(pthread_self(), f->thread)) return;
    stop(f);
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += 5;
    pthread_timedjoin_np(f->thread, NULL, &t);
}

static void run(Fetcher *f)
{
    static bool once;
    sigset_t all, old;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(f->multi = curl_multi_init()))
        die("libcurl does not start");
    curl_multi_setopt(f->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    if (!once) atexit(halt);
    once = true;
    sigfillset(&all);                           /* signals are the other thread's */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    if (pthread_create(&f->thread, NULL, fetch_all, f)) die("no thread can be started");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    running = f;
    f->runs = true;
}
#endif

/* ---- the caller's side */

Fetcher *fetch_begin(const Fetch *how, const FetchFile *file, int n)
{
    Fetcher *f = xcalloc(1, sizeof *f);
    f->how = *how, f->file = file, f->n = n, f->lost = -1;
    if (f->how.jobs < 1) f->how.jobs = 1;
    if (f->how.jobs > n) f->how.jobs = n;
    f->get = xcalloc((size_t)n + 1, sizeof *f->get);
    f->seen = xcalloc((size_t)n + 1, sizeof *f->seen);
    f->active = xcalloc((size_t)f->how.jobs + 1, sizeof(Get *));
    for (int i = 0; i < n; i++) {
        get_init(&f->get[i], &f->how, &file[i]);
        f->get[i].claimed = &f->claimed;
    }
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->change, NULL);
#ifdef HAVE_CURL
    if (n && !how->offline) run(f);
#endif
    return f;
}

/* Without a thread: what the cache has, and nothing else. */
static void only_cached(Fetcher *f, Get *g)
{
    int r = cache_look(g) ? 0 : -1;
    while (r == 0) r = cache_hash(g);
    if (r > 0) {
        found(f, g);
        return;
    }
    snprintf(g->why, sizeof g->why, "%s", f->how.offline ?
             "not in the cache, and --offline or HF_HUB_OFFLINE was given" :
             "this build has no libcurl, so that only local files and file:// URLs can be read");
    fails(f, g);
}

static void draw(const Fetcher *f, int i, Progress *p, int here)
{
    char extra[64] = "";
    const Seen *s = &f->seen[i];
    if (f->n > 1) snprintf(extra, sizeof extra, "%d of %d files", here, f->n);
    p->extra = *extra ? extra : NULL;
    p->total = s->size > 0 ? (uint64_t)s->size : 0;
    if (p->t0 == 0) p->from = s->at < 0 ? 0 : (uint64_t)s->at;
    if (!f->how.json) progress(p, s->at < 0 ? 0 : (uint64_t)s->at);
}

/* Until the file is here, or one is lost: that one, or -1. */
static int wait_for(Fetcher *f, int i)
{
    Progress line = { .what = fetch_name(f->file[i].url), .unit = "B" };
    pthread_mutex_lock(&f->mutex);
    while (f->lost < 0 && f->seen[i].state != GET_DONE) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 100 * 1000 * 1000;
        if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&f->change, &f->mutex, &t);
        draw(f, i, &line, f->here);
    }
    int lost = f->lost;
    pthread_mutex_unlock(&f->mutex);
    progress_end(&line);
    return lost;
}

const char *fetch_wait(Fetcher *f, int i)
{
    Get *g = &f->get[i];
    if (f->runs) {
        int lost = wait_for(f, i);
        if (lost >= 0) g = &f->get[lost];               /* it will not change any more */
    } else if (g->state == GET_NEW) {
        only_cached(f, g);
    }
    if (g->state == GET_FAILED) die("%s: %s", g->file->url, g->why);
    return g->path;
}

void fetch_end(Fetcher *f)
{
    if (!f) return;
#ifdef HAVE_CURL
    if (f->runs) {
        running = NULL;
        stop(f);
        pthread_join(f->thread, NULL);
        for (int i = 0; i < f->n; i++) {
            Get *g = &f->get[i];
            if (!g->curl) continue;
            curl_multi_remove_handle(f->multi, g->curl);
            get_stop(g, CURLE_ABORTED_BY_CALLBACK);
        }
        curl_multi_cleanup(f->multi);
    }
#endif
    for (int i = 0; i < f->n; i++) get_free(&f->get[i]);
    pthread_mutex_destroy(&f->mutex), pthread_cond_destroy(&f->change);
    free(f->get), free(f->seen), free(f->active), free(f->pause);
    free(f);
}
