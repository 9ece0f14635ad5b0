/* guard.h -- fuzzing code that may die(): it comes back here, and what it had allocated is freed.
 * Code that ends well must have freed all itself. The Makefile links targets that include this with
 * die, malloc, calloc, realloc, aligned_alloc and free of our objects redirected to here
 * (ld --wrap). */
#ifndef GUARD_H
#define GUARD_H
#include "base/err.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>

static jmp_buf guard_back;
static bool guard_on;
static void *guard_live[4096];
static int guard_n;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void __wrap_free(void *p);
_Noreturn void __wrap_die(const char *fmt, ...);

static void guard_add(void *p)
{
    if (!guard_on || !p) return;
    if (guard_n == 4096) abort();
    guard_live[guard_n++] = p;
}

static void guard_drop(void *p)
{
    for (int i = guard_n; i-- > 0; )
        if (guard_live[i] == p) {
            guard_live[i] = guard_live[--guard_n];
            return;
        }
}

void *__wrap_malloc(size_t n)
{
    void *p = __real_malloc(n);
    guard_add(p);
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = __real_calloc(n, size);
    guard_add(p);
    return p;
}

void *__wrap_realloc(void *p, size_t n)
{
    guard_drop(p);
    p = __real_realloc(p, n);
    guard_add(p);
    return p;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    void *p = __real_aligned_alloc(align, n);
    guard_add(p);
    return p;
}

void __wrap_free(void *p)
{
    guard_drop(p);
    __real_free(p);
}

void __wrap_die(const char *fmt, ...)
{
    (void)fmt;
    if (!guard_on) abort();
    longjmp(guard_back, 1);
}

/* f(arg); false if it died. */
static bool survives(void (*f)(void *), void *arg)
{
    volatile bool well = true;                  /* across longjmp() */
    verbose = 0;
    guard_on = true, guard_n = 0;
    if (setjmp(guard_back) == 0) {
        f(arg);
        if (guard_n) abort();                   /* a leak */
    } else {
        well = false;
        while (guard_n) __real_free(guard_live[--guard_n]);
    }
    guard_on = false;
    return well;
}

#endif
