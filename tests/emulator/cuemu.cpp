/* cuemu.cpp -- fibers, the scheduler of a block, barriers; the twins of mma, ldmatrix, cp.async. */
#include "cuemu.h"
#include <map>
#include <stdarg.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

/* Under the address sanitizer a fiber's frames must not be moved to a fake stack. */
extern "C" const char *__asan_default_options() { return "detect_stack_use_after_return=0"; }

namespace cuemu {

__thread Block *block;
long sampled;
static long launches;
static int schedule = getenv("CUEMU") ? atoi(getenv("CUEMU")) & 3 : 0;
enum { STACK = 64 << 10, GUARD = 128, UNASKED_SHARED = 48 << 10, MOST_SHARED = 227 << 10 };
static size_t shared_limit =
    getenv("CUEMU_SHARED") ? (size_t)atoll(getenv("CUEMU_SHARED")) : 99 << 10;
static std::map<const void *, size_t> allowed;  /* kernel -> dynamic shared memory it may have */

void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "cuemu: %s", block ? block->kernel : "");
    if (block) fprintf(stderr, ", block (%u,%u,%u): ", block->id.x, block->id.y, block->id.z);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    abort();
}

/* ---- switching: saves what a function must keep, and changes stacks ---- */
#ifdef __x86_64__
extern "C" void cuemu_switch(void **save, void *to);
asm(".text\n.globl cuemu_switch\n.type cuemu_switch, @function\ncuemu_switch:\n"
    " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
    ".size cuemu_switch, . - cuemu_switch\n");
/* A stack as if it had called cuemu_switch from entry; aligned as at a function's start, and not all
 * of them at the same place of a page, which would be the same few lines of the cache. */
static void *fresh(char *stack, int i, void (*entry)())
{
    void **sp = (void **)(void *)(stack + STACK - 64 - i % 56 * 64);
    *--sp = NULL;
    *--sp = (void *)entry;
    return sp - 6;
}
#else
static void cuemu_switch(void **save, void *to)
{
    ucontext_t here;
    *save = &here;
    swapcontext(&here, (ucontext_t *)to);
}
static void *fresh(char *stack, int, void (*entry)())
{
    ucontext_t *c = (ucontext_t *)(void *)stack;
    getcontext(c);
    c->uc_stack.ss_sp = stack + sizeof *c;
    c->uc_stack.ss_size = STACK - sizeof *c;
    makecontext(c, entry, 0);
    return c;
}
#endif

static void yield() { cuemu_switch(&block->now->sp, block->scheduler); }
static void release_warp(int warp)
{
    Warp *w = &block->warp[warp];
    w->arrived = 0;
    w->parity ^= 1;
    w->kind = NONE;
    for (int i = warp * LANES; i < (warp + 1) * LANES; i++)
        if (block->fiber[i].state == AT_WARP) block->fiber[i].state = RUN;
}
static void entry()
{
    block->fn(block->arg);
    copy_commit();
    copy_wait(0);
    Fiber *f = block->now;
    f->state = DONE;
    block->live--;
    Warp *w = &block->warp[f->warp];
    w->live--;
    if (w->arrived) fail("a thread ends while its warp is at a shuffle, mma or __syncwarp");
    yield();
}
void block_barrier()
{
    block->now->state = AT_BLOCK;
    block->arrived++;
    yield();
}
bool warp_barrier(Kind k)
{
    Fiber *f = block->now;
    Warp *w = &block->warp[f->warp];
    if (w->live < LANES) fail("an operation of a warp, lanes of which have ended");
    if (w->kind != NONE && w->kind != k) fail("lanes of a warp at different operations");
    w->kind = k;
    if (++w->arrived == LANES) {
        release_warp(f->warp);
        return true;
    }
    f->state = AT_WARP;
    yield();
    return false;
}
/* All threads of a block get the same memory for a site. */
void *shared(const void *site, size_t bytes)
{
    Block *b = block;
    for (int i = 0; i < b->sites; i++)
        if (b->site[i].site == site) return b->site[i].p;
    size_t n = (bytes + 15) / 16 * 16;
    if (b->sites == SITES) fail("more than %d arrays in shared memory", SITES);
    if (b->used + n > UNASKED_SHARED || b->used + n + b->dynamic > b->most)
        fail("%zu bytes of static and %zu of dynamic shared memory, of %zu", b->used + n, b->dynamic,
             b->most);
    unsigned char *p = b->stat + b->used + (size_t)b->sites * GUARD;
    memset(p, 0xff, n + GUARD);
    b->used += n;
    b->site[b->sites].site = site;
    b->site[b->sites].end = p + bytes;
    b->site[b->sites++].p = p;
    return p;
}
static bool guard_whole(const unsigned char *p)
{
    for (int i = 0; i < GUARD; i++)
        if (p[i] != 0xff) return false;
    return true;
}
bool allow_shared(const void *function, int bytes)
{
    if (bytes < 0 || (size_t)bytes > shared_limit) return false;
    allowed[function] = (size_t)bytes;
    return true;
}
void check_aligned(const void *p, size_t to)
{
    if ((uintptr_t)p % to) fail("%zu bytes at once at %p", to, p);
}

/* ---- running a block ---- */

/* What an OpenMP thread keeps from launch to launch. */
struct Room {
    Block b;
    char *stack;
    Copy *copy;
    int threads;
};
static thread_local Room room;

static void room_for(int threads)
{
    if (threads <= room.threads) return;
    if (room.stack) munmap(room.stack, (size_t)room.threads * STACK);
    free(room.b.fiber);
    free(room.b.warp);
    room.threads = threads;
    room.stack = (char *)mmap(NULL, (size_t)threads * STACK, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    room.b.fiber = (Fiber *)malloc(sizeof(Fiber) * (size_t)threads);
    room.b.warp = (Warp *)malloc(sizeof(Warp) * (size_t)(threads / LANES));
    free(room.copy);
    room.copy = (Copy *)malloc(sizeof(Copy) * COPIES * (size_t)threads);
    if (!room.b.stat) {
        room.b.stat = (unsigned char *)aligned_alloc(128, UNASKED_SHARED + (SITES + 1) * GUARD);
        room.b.dyn = (unsigned char *)aligned_alloc(128, MOST_SHARED + GUARD);
    }
    if (room.stack == MAP_FAILED || !room.copy || !room.b.fiber || !room.b.warp || !room.b.stat || !room.b.dyn)
        fail("out of memory");
}
static void block_start(Block *b)
{
    b->live = b->threads;
    b->arrived = b->sites = 0;
    b->used = 0;
    memset(b->dyn, 0xff, b->dynamic + GUARD);
    for (int i = 0; i < b->threads / LANES; i++) {
        Warp *w = &b->warp[i];
        w->arrived = w->parity = w->kind = 0;
        w->live = LANES;
    }
    for (int i = 0; i < b->threads; i++) {
        Fiber *f = &b->fiber[i];
        unsigned t = (unsigned)i;
        f->tid = dim3(t % b->dim.x, t / b->dim.x % b->dim.y, t / b->dim.x / b->dim.y);
        f->lane = i % LANES;
        f->warp = i / LANES;
        f->state = RUN;
        f->copies = f->group = 0;
        f->copy = room.copy + (size_t)i * COPIES;
        f->sp = fresh(room.stack + (size_t)i * STACK, i, entry);
    }
}
/* runs a warp until none of its lanes can go on; did any? */
static bool run_warp(Block *b, int warp)
{
    bool any = false;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < LANES; i++) {
            Fiber *f = &b->fiber[warp * LANES + (schedule & 1 ? LANES - 1 - i : i)];
            if (f->state != RUN) continue;
            more = any = true;
            b->now = f;
            cuemu_switch(&b->scheduler, f->sp);
        }
    }
    return any;
}
static void block_run(Block *b)
{
    const int warps = b->threads / LANES;
    while (b->live) {
        bool any = false;
        for (int i = 0; i < warps; i++) any |= run_warp(b, schedule & 1 ? warps - 1 - i : i);
        if (b->live && b->arrived == b->live) {
            b->arrived = 0;
            any = true;
            for (int i = 0; i < b->threads; i++)
                if (b->fiber[i].state == AT_BLOCK) b->fiber[i].state = RUN;
        }
        if (!any) fail("deadlock: of %d threads %d are at __syncthreads", b->live, b->arrived);
    }
    bool whole = guard_whole(b->dyn + b->dynamic);
    for (int i = 0; i < b->sites; i++) whole &= guard_whole(b->site[i].end);
    if (!whole) fail("shared memory is written past its end");
}
void run(const Launch &l, void (*fn)(void *), void *arg)
{
    const dim3 grid = l.grid, dim = l.threads;
    const int threads = (int)(dim.x * dim.y * dim.z);
    const long blocks = (long)grid.x * grid.y * grid.z;
    const auto asked = allowed.find(l.function);
    const size_t most = asked == allowed.end() ? (size_t)UNASKED_SHARED : asked->second;
    if (threads < LANES || threads > 1024 || threads % LANES || dim.z > 64 || blocks < 1 ||
        grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        fail("%s: no launch of (%u,%u,%u) x (%u,%u,%u) threads", l.kernel, grid.x, grid.y, grid.z,
             dim.x, dim.y, dim.z);
    if (l.smem > most)
        fail("%s: %zu bytes of dynamic shared memory, of %zu", l.kernel, l.smem, most);
    const long some = sampled && 2 * sampled < blocks ? 2 * sampled : blocks;
    launches++;
    cuemu_access(1);
    #pragma omp parallel if (blocks > 1)
    {
        room_for(threads);
        Block *b = block = &room.b;
        b->dim = dim;
        b->grid = grid;
        b->threads = threads;
        b->fn = fn;
        b->arg = arg;
        b->kernel = l.kernel;
        b->dynamic = l.smem;
        b->most = most > UNASKED_SHARED ? shared_limit : (size_t)UNASKED_SHARED;
        #pragma omp for schedule(dynamic)
        for (long n = 0; n < some; n++) {
            const long i = n < some / 2 ? n : blocks - some + n;
            b->id = dim3((unsigned)(i % grid.x), (unsigned)(i / grid.x % grid.y),
                         (unsigned)(i / grid.x / grid.y));
            block_start(b);
            block_run(b);
        }
        block = NULL;
    }
    cuemu_access(0);
}

/* ---- cp.async ---- */

void copy_async(void *to, const void *from, int bytes)
{
    if (((uintptr_t)to | (uintptr_t)from) & 15) fail("misaligned cp.async");
    if (bytes < 0 || bytes > 16) fail("cp.async of %d bytes", bytes);
    Fiber *f = block->now;
    if (schedule & 2) {
        memset(to, 0, 16);
        memcpy(to, from, (size_t)bytes);
        return;
    }
    if (f->copies == COPIES) fail("more than %d cp.async of a thread under way", COPIES);
    f->copy[f->copies++] = { to, from, bytes, f->group };
}
void copy_commit() { block->now->group++; }
/* Lets all but the last `groups` of them happen. */
void copy_wait(int groups)
{
    Fiber *f = block->now;
    int kept = 0;
    for (int i = 0; i < f->copies; i++) {
        Copy *c = &f->copy[i];
        if (c->group >= f->group - groups) {
            f->copy[kept++] = *c;
            continue;
        }
        memset(c->to, 0, 16);
        memcpy(c->to, c->from, (size_t)c->bytes);
    }
    f->copies = kept;
}

} // namespace cuemu

extern "C" void cuemu_schedule(int s) { cuemu::schedule = s & 3; }
extern "C" void cuemu_sample(long n) { cuemu::sampled = n; }
extern "C" long cuemu_launches(void) { return cuemu::launches; }

/* ---- mma.m16n8k16 and ldmatrix.x4, by the layouts of the PTX manual ---- */

static float low(uint32_t two) { return __uint_as_float(two << 16); }
static float high(uint32_t two) { return __uint_as_float(two & 0xffff0000u); }

/* the whole warp's product, by the lane that arrives last */
static void mma_warp(const uint32_t in[][cuemu::SLOT], uint32_t out[][4])
{
    float a[16][16], b[16][8], c[16][8];
    for (int t = 0; t < 32; t++) {
        const uint32_t *s = in[t];
        const int g = t / 4, q = t % 4 * 2;
        for (int i = 0; i < 4; i++) {
            const int r = g + (i & 1) * 8, k = q + (i >> 1) * 8;
            a[r][k] = low(s[i]);
            a[r][k + 1] = high(s[i]);
        }
        for (int i = 0; i < 2; i++) {
            b[q + i * 8][g] = low(s[4 + i]);
            b[q + i * 8 + 1][g] = high(s[4 + i]);
        }
        for (int i = 0; i < 4; i++) c[g + i / 2 * 8][q + i % 2] = __uint_as_float(s[6 + i]);
    }
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++) c[i][j] += a[i][k] * b[k][j];
    for (int t = 0; t < 32; t++)
        for (int i = 0; i < 4; i++)
            out[t][i] = __float_as_uint(c[t / 4 + i / 2 * 8][t % 4 * 2 + i % 2]);
}
void cuemu_mma(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    cuemu::Block *k = cuemu::block;
    cuemu::Warp *w = &k->warp[k->now->warp];
    const int lane = k->now->lane, p = w->parity;
    memcpy(w->in[p][lane], a, 16);
    memcpy(w->in[p][lane] + 4, b, 8);
    memcpy(w->in[p][lane] + 6, c, 16);
    if (cuemu::warp_barrier(cuemu::MMA)) mma_warp(w->in[p], w->out[p]);
    memcpy(c, w->out[p][lane], 16);
}
/* lane i gives row i % 8 of matrix i / 8; each lane gets two elements of each matrix. Two barriers:
 * nobody may change the rows while another still reads. */
void cuemu_ldmatrix(uint32_t r[4], const void *row, bool trans)
{
    cuemu::Block *k = cuemu::block;
    cuemu::Warp *w = &k->warp[k->now->warp];
    const int lane = k->now->lane, p = w->parity, g = lane / 4, q = lane % 4 * 2;
    if ((uintptr_t)row & 15) cuemu::fail("misaligned ldmatrix");
    w->ptr[p][lane] = row;
    cuemu::warp_barrier(cuemu::LDMATRIX);
    for (int i = 0; i < 4; i++) {
        const uint16_t *u, *v;
        if (trans) {
            u = (const uint16_t *)w->ptr[p][i * 8 + q] + g;
            v = (const uint16_t *)w->ptr[p][i * 8 + q + 1] + g;
        } else {
            u = (const uint16_t *)w->ptr[p][i * 8 + g] + q;
            v = u + 1;
        }
        r[i] = *u | (uint32_t)*v << 16;
    }
    cuemu::warp_barrier(cuemu::LDMATRIX);
}
