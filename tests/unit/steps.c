/* A training step takes no memory once the first one has: every allocation of the process is
 * counted, on the host and through the back-end (which uses the same functions). */
#include "gpt/bpb.h"
#include "gpt/optim.h"
#include "tap.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define COUNTED 1
#endif
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#undef COUNTED
#endif
#endif

enum { B = 2, T = 32, N = B * T, MICRO = 2 };

#ifdef COUNTED
static long count;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { count++; return __libc_malloc(n); }
void *calloc(size_t n, size_t size) { count++; return __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { count++; return __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { count++; return __libc_memalign(align, n); }

typedef struct Run {
    const Ops *ops;
    Model *m;
    Optim *o;
    Tape tape;
    int *x, *y;
    real *loss;
} Run;

static double step(Run *r)
{
    model_zero_grad(r->m);
    for (int i = 0; i < MICRO; i++) {
        tape_reset(&r->tape);
        r->tape.on = 1;
        Var *h = model_forward(r->m, &r->tape, r->x, B, T, NULL);
        model_loss(r->m, &r->tape, h, r->y, NULL, N, r->loss, 1.0 / (MICRO * N));
        tape_backward(&r->tape);
    }
    double norm = grad_norm(r->m);
    optim_step(r->o, 1, 0.9, 0.1);
    return norm;
}

/* What an evaluation does between two steps. */
static void look(Run *r)
{
    tape_reset(&r->tape);
    r->tape.on = 0;
    Var *h = model_forward(r->m, &r->tape, r->x, B, T, NULL);
    model_loss(r->m, &r->tape, h, r->y, NULL, N, r->loss, 0);
}

static void steps(void)
{
    static const OptimSettings s = { .embedding_lr = 0.3, .unembedding_lr = 0.008, .matrix_lr = 0.02,
    .scalar_lr = 0.5, .batch_scale = 1, .lr_scale = 1, .weight_decay = 0.28 };
    Config c = config_depth(3, 16, 16, T, 50, "SSL");
    Run r = { .ops = ops_cpu(2) };
    int id[N];
    r.m = model_new(r.ops, &c, 1);
    model_init(r.m, 1);
    r.o = optim_new(r.m, &s);
    tape_init(&r.tape, r.ops);
    r.x = r.ops->alloc(sizeof id);
    r.y = r.ops->alloc(sizeof id);
    r.loss = r.ops->alloc(N * sizeof *r.loss);
    for (int i = 0; i < N; i++) id[i] = i * 7 % 50;
    r.ops->put(r.x, id, sizeof id);
    r.ops->put(r.y, id, sizeof id);
    long before = count;
    double first = step(&r);
    ok(count > before, "the first step takes %ld", count - before);
    before = count;
    double second = step(&r);
    ok(count == before, "the second none (%ld)", count - before);
    ok(first > 0 && second > 0 && first != second, "and both did something");
    look(&r);
    step(&r);
    ok(count == before, "nor an evaluation and a step after it (%ld)", count - before);
    r.ops->free(r.x, sizeof id);
    r.ops->free(r.y, sizeof id);
    r.ops->free(r.loss, N * sizeof *r.loss);
    tape_free(&r.tape);
    optim_free(r.o);
    model_free(r.m);
}
#endif

int main(void)
{
#ifdef COUNTED
    steps();
#else
    (void)N, (void)MICRO;
    skip("allocations can be counted with glibc and no sanitizer", "memory of a step");
#endif
    return done();
}
