/* Which files this program reads and writes, by device and inode: a file that is both would be
 * lost, or fed to itself without end. See io.h. */
#include "base/io.h"
#include "base/io_int.h"
#include <pthread.h>
#include <stdlib.h>

struct Known { dev_t dev; ino_t ino; struct Known *next; };
static struct Known *read_files, *written;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct Known **find(struct Known **at, const struct stat *st)
{
    while (*at && ((*at)->dev != st->st_dev || (*at)->ino != st->st_ino)) at = &(*at)->next;
    return at;
}

/* Adds st to one list; true if it is in the other. */
static bool add(struct Known **list, struct Known **other, const struct stat *st)
{
    struct Known *k = xmalloc(sizeof *k);
    pthread_mutex_lock(&mutex);
    *k = (struct Known){ st->st_dev, st->st_ino, *list };
    *list = k;
    bool clash = *find(other, st) != NULL;
    pthread_mutex_unlock(&mutex);
    return clash;
}

void clash_read(const struct stat *st, const char *name)
{
    if (S_ISREG(st->st_mode) && add(&read_files, &written, st))
        die("%s: is the output, too: give that another name", name);
}

void clash_write(const struct stat *st, const char *name)
{
    if (S_ISREG(st->st_mode) && add(&written, &read_files, st))
        die("%s: is read, too: give the output another name", name);
}

static void drop(struct Known **list, const struct stat *st)
{
    pthread_mutex_lock(&mutex);
    struct Known **at = find(list, st), *k = *at;
    if (k) *at = k->next;
    pthread_mutex_unlock(&mutex);
    free(k);
}

void clash_was_read(const struct stat *st) { drop(&read_files, st); }
void clash_written(const struct stat *st) { drop(&written, st); }

void io_reads(const char *path)
{
    struct stat st;
    if (!stat(path, &st)) clash_read(&st, path);
}

void io_writes(const char *path)
{
    struct stat st;
    if (stat(path, &st)) return;
    pthread_mutex_lock(&mutex);
    bool twice = S_ISREG(st.st_mode) && *find(&written, &st);
    pthread_mutex_unlock(&mutex);
    if (twice) die("%s: is another output, too: give one of them another name", path);
    clash_write(&st, path);
}
