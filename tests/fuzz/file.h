/* file.h -- fuzzing what opens a file by its path: the input is put into a file in memory. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H
#include "guard.h"
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* A refusal leaves what zlib holds behind, which guard.h does not see; leaks of ours it does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

static char path[32];                           /* of the input */

/* f(NULL) with the input in the file of that path; what a refusal leaves open is closed. */
static void survives_file(void (*f)(void *), const uint8_t *data, size_t n)
{
    static int file;
    if (!file) {
        if ((file = memfd_create("input", MFD_CLOEXEC)) < 0) abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) || pwrite(file, data, n, 0) != (ssize_t)n) abort();
    int next = dup(file);                       /* what a refusal leaves open comes after this */
    survives(f, NULL);
    close_range((unsigned)next, ~0U, 0);
}

#endif
