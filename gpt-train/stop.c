#include "run.h"
#include <errno.h>
#include <signal.h>
#include <time.h>

/* Signals: the first ends the run after the micro-batch in progress, a later one at once.
 * What sends a signal to a process and then to its group, as timeout(1) does, means it once: only
 * one that comes a second later is another. */

enum { NSIG_STOP = 3 };
static const int stop_signals[NSIG_STOP] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before[NSIG_STOP];
volatile sig_atomic_t stopped_by, save_asked;
static struct timespec stopped_at;      /* the handlers block each other */

static void on_stop(int sig)
{
    int e = errno;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (!stopped_by) {
        stopped_at = t;
        stopped_by = sig;
    } else if ((double)(t.tv_sec - stopped_at.tv_sec) +
               1e-9 * (double)(t.tv_nsec - stopped_at.tv_nsec) >= 1) {
        for (int i = 0; i < NSIG_STOP; i++) sigaction(stop_signals[i], &before[i], NULL);
        raise(sig);
    }
    errno = e;
}

static void on_save(int sig)
{
    (void)sig;
    save_asked = 1;
}

/* Metrics that nobody reads must not end the run unsaved: write() tells of them. */
void signals_begin(void)
{
    struct sigaction act = { .sa_handler = on_save, .sa_flags = SA_RESTART };
    sigemptyset(&act.sa_mask);
    sigaction(SIGUSR1, &act, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void stop_on_signals(void)
{
    struct sigaction act = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
    sigemptyset(&act.sa_mask);
    for (int i = 0; i < NSIG_STOP; i++) sigaddset(&act.sa_mask, stop_signals[i]);
    for (int i = 0; i < NSIG_STOP; i++) sigaction(stop_signals[i], NULL, &before[i]);
    for (int i = 0; i < NSIG_STOP; i++)     /* what nohup ignores stays ignored */
        if (before[i].sa_handler != SIG_IGN) sigaction(stop_signals[i], &act, NULL);
}
