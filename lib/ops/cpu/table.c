/* table.c -- this tier's table of operations; its memory. */
#include "ops/cpu/cpu.h"
#include "base/err.h"
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

static void mem_zero(void *p, size_t bytes)
{
    enum { PIECE = 1 << 20 };
    OMP(parallel for schedule(static) if(bytes > 4 * PIECE))
    for (size_t at = 0; at < bytes; at += PIECE)
        memset((char *)p + at, 0, bytes - at < PIECE ? bytes - at : PIECE);
}
static void *mem_alloc(size_t bytes)
{
    void *p = get_pages(bytes);
    mem_zero(p, bytes);
    return p;
}
static void mem_free(void *p, size_t bytes) { (void)bytes; free(p); }
static void mem_copy(void *to, const void *from, size_t bytes)
{
    if (bytes) memmove(to, from, bytes);
}
static void no_wait(void) {}
static void cast(Act *y, const real *x, int64_t n) { mem_copy(y, x, (size_t)n * sizeof *y); }
static void uncast(real *y, const Act *x, int64_t n) { mem_copy(y, x, (size_t)n * sizeof *y); }

void *CPU(scratch)(int slot, size_t bytes)
{
    static struct { void *p; size_t n; } kept[SLOT_COUNT];
    if (bytes > kept[slot].n || !kept[slot].p) {
        free(kept[slot].p);
        kept[slot].p = get_pages(bytes);
        kept[slot].n = bytes;
    }
    return kept[slot].p;
}

#define NAME_(t) "cpu " #t
#define NAME(t) NAME_(t)

const Ops *CPU(ops)(void)
{
    static const Ops table = {
        .name = NAME(TIER), .dtype = "fp32", .act_size = sizeof(Act),
        .alloc = mem_alloc, .free = mem_free, .zero = mem_zero, .copy = mem_copy, .put = mem_copy,
        .get = mem_copy, .sync = no_wait, .cast = cast, .uncast = uncast,
        .linear = CPU(linear), .linear_dx = CPU(linear_dx), .linear_dw = CPU(linear_dw),
        .embed = CPU(embed), .embed_bwd = CPU(embed_bwd),
        .rmsnorm = CPU(rmsnorm), .rmsnorm_bwd = CPU(rmsnorm_bwd),
        .smear = CPU(smear), .smear_bwd = CPU(smear_bwd),
        .mix = CPU(mix), .mix_bwd = CPU(mix_bwd),
        .vgate = CPU(vgate), .vgate_bwd = CPU(vgate_bwd),
        .rope = CPU(rope), .rope_bwd = CPU(rope_bwd),
        .attn = CPU(attn), .attn_bwd = CPU(attn_bwd),
        .kv_put = CPU(kv_put), .attn_kv = CPU(attn_kv),
        .relu2 = CPU(relu2), .relu2_bwd = CPU(relu2_bwd), .add = CPU(add),
        .xent = CPU(xent), .logits = CPU(logits),
        .adamw = CPU(adamw), .muon_tmp = CPU(muon_tmp), .muon = CPU(muon),
        .sumsq = CPU(sumsq), .scale = CPU(scale), .lerp = CPU(lerp),
    };
    return &table;
}
