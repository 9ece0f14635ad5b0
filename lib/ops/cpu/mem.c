/* mem.c -- memory of the CPU back-end. */
#include "ops/cpu/cpu.h"
#include "base/err.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

/* Aligned to 64 bytes, or to a huge page from 2 MB up. Huge pages are advised where they are whole,
 * so that no memory is taken past the end. Not zeroed. */
static void *get_pages(size_t bytes)
{
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
    if (bytes > SIZE_MAX / 2) die("out of memory asking for %zu bytes", bytes);
    size_t n = (bytes + align - 1) / align * align;
    void *p = aligned_alloc(align, n ? n : align);
    if (!p) die("out of memory asking for %zu bytes", bytes);
#ifdef MADV_HUGEPAGE
    if (align == HUGE_PAGE) madvise(p, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return p;
}

void TIERED(mem_zero)(void *p, size_t bytes)
{
    enum { PIECE = 1 << 20 };
    OMP(parallel for schedule(static) if(bytes > 4 * PIECE))
    for (size_t at = 0; at < bytes; at += PIECE)
        memset((char *)p + at, 0, bytes - at < PIECE ? bytes - at : PIECE);
}
void *TIERED(mem_alloc)(size_t bytes)
{
    void *p = get_pages(bytes);
    TIERED(mem_zero)(p, bytes);
    return p;
}
void TIERED(mem_free)(void *p, size_t bytes) { (void)bytes; free(p); }
void TIERED(mem_copy)(void *to, const void *from, size_t bytes)
{
    if (bytes) memmove(to, from, bytes);
}
void *TIERED(scratch)(int slot, size_t bytes)
{
    static struct { void *p; size_t n; } kept[SLOT_COUNT];
    if (bytes > kept[slot].n || !kept[slot].p) {
        free(kept[slot].p);
#ifdef __GLIBC__
        malloc_trim(0);                 /* or what it was stays with the process, in a hole */
#endif
        kept[slot].p = get_pages(bytes);
        kept[slot].n = bytes;
    }
    return kept[slot].p;
}
