/* The twins of AMX's instructions (ops/cpu/tile.h) do what its manual says, and the matrix products
 * of tier amx_bf16, compiled with them, are right: y = x w^T, dx, dw and the same of experts, at
 * odd sizes, against double precision; 1, 2 and 3 threads give the same bits, and so do both ways to
 * pack. (Muon's are in optim.c.) */
#define HARNESS_TWIN
#define HARNESS_TIERS "base_twin", "avx512_twin"
#define TILE_TWIN
#include "cases.h"
#include "ops/cpu/tile.h"
#include <signal.h>

static uint16_t some_bits(void)
{
    const float f = (float)uniform(-2, 2);
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)(u >> 16);
}
/* c += a b, of m x 2p and p pairs x n, against double: each sum of p products, their sum, and that
 * with c are rounded. Beyond m x n, memory stays as it is and the tile is 0. */
static void check_dp(int m, int p, int n)
{
    TileConfig g = { .palette = 1, .bytes = { 0 } };
    uint16_t a[16][32], b[16][16][2];
    float c[16][16], was[16][16], all[16][16];
    double worst = 0;
    for (int i = 0; i < 512; i++) {
        a[i / 32][i % 32] = some_bits();
        b[i / 32][i / 2 % 16][i % 2] = some_bits();
    }
    for (int i = 0; i < 256; i++) was[i / 16][i % 16] = c[i / 16][i % 16] = (float)uniform(-1, 1);
    g.rows[0] = g.rows[1] = (uint8_t)m;
    g.rows[2] = (uint8_t)p;
    g.bytes[0] = g.bytes[2] = (uint16_t)(4 * n);
    g.bytes[1] = (uint16_t)(4 * p);
    tile_config(&g);
    tile_load(0, c, 64);
    tile_load(1, a, 64);
    tile_load(2, b, 64);
    tile_dp(0, 1, 2);
    tile_store(0, c, 64);
    memcpy(all, tile_state.t[0], sizeof all);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            double s = (double)was[i][j], mag = fabs(s);
            for (int l = 0; l < 2 * p; l++) {
                const double t = bf16_value(a[i][l]) * bf16_value(b[l / 2][j][l % 2]);
                s += t;
                mag += fabs(t);
            }
            const int in = i < m && j < n;
            const double e = in ? fabs((double)c[i][j] - s) / (mag * unit * (p + 2))
                                : c[i][j] != was[i][j] || all[i][j] != 0;
            if (!(e <= worst)) worst = e;
        }
    tile_release();
    ok(worst <= 1, "tile %d x %d x %d: %.2f of what is allowed", m, 2 * p, n, worst);
}
/* Denormals are 0, and what would be one becomes 0; the sums of even and of odd k are apart. */
static float dp_one(const uint16_t a[4], const uint16_t b[4], float c)
{
    TileConfig g = { .palette = 1, .bytes = { 4, 8, 4 }, .rows = { 1, 1, 2 } };
    tile_config(&g);
    tile_load(0, &c, 64);
    tile_load(1, a, 64);
    tile_load(2, b, 4);
    tile_dp(0, 1, 2);
    tile_store(0, &c, 64);
    tile_release();
    return c;
}
static void check_rounding(void)
{
    enum { ONE = 0x3f80, HALF = 0x3f00, TWO24 = 0x4b80, M_TWO24 = 0xcb80, DENORMAL = 0x0040,
           TINY = 0x0080 };
    const uint16_t ones[4] = { ONE, ONE, ONE, ONE };
    ok(dp_one((uint16_t[]){ DENORMAL, ONE, 0, 0 }, ones, 0) == 1 &&
           dp_one((uint16_t[]){ DENORMAL, 0, 0, 0 }, (uint16_t[]){ 0x7e80, 0, 0, 0 }, 0) == 0,
       "a denormal factor is 0");
    ok(dp_one((uint16_t[]){ TINY, 0, 0, 0 }, (uint16_t[]){ HALF, 0, 0, 0 }, 0) == 0 &&
           dp_one((uint16_t[]){ 0, 0, 0, 0 }, ones, 0x1p-130f) == 0,
       "a denormal sum is 0");
    ok(dp_one((uint16_t[]){ TWO24, ONE, M_TWO24, 0 }, ones, 0) == 1,
       "even and odd k have sums of their own");
    ok(dp_one((uint16_t[]){ TWO24, 0, ONE, 0 }, ones, -0x1p24f) == 0,
       "which round before the tile is added");
}

/* Misuse, each in a child of its own */
static const TileConfig odd = {
    .palette = 1, .bytes = { 64, 64, 64, 60, 64, 8 }, .rows = { 16, 16, 16, 16, 8, 16 },
};
static float some[16][16];
static void config(int palette, int start, int rows, int bytes, int tile)
{
    TileConfig g = { .palette = (uint8_t)palette, .start_row = (uint8_t)start };
    g.rows[tile] = (uint8_t)rows;
    g.bytes[tile] = (uint16_t)bytes;
    tile_config(&g);
}
static void misuse(int i)
{
    if (i < 100) tile_config(&odd);
    switch (i) {
    case 0: tile_dp(0, 0, 2); break;            /* the same tile twice */
    case 1: tile_dp(0, 1, 3); break;            /* rows of another length than the sums' */
    case 2: tile_dp(0, 4, 2); break;            /* fewer rows on the left than sums */
    case 3: tile_dp(0, 1, 5); break;
    case 4: tile_dp(0, 5, 2); break;            /* two pairs on the left, sixteen on the right */
    case 5: tile_load(6, some, 64); break;      /* a tile without rows */
    case 6: tile_zero(8); break;
    case 7: tile_release(); tile_store(0, some, 64); break;
    case 8: tile_config(&odd); break;           /* not released */
    case 100: tile_zero(0); break;              /* nothing configured */
    case 101: config(2, 0, 16, 64, 0); break;
    case 102: config(1, 0, 17, 64, 0); break;
    case 103: config(1, 0, 16, 65, 0); break;
    case 104: config(1, 0, 16, 0, 0); break;
    case 105: config(1, 0, 16, 64, 8); break;
    case 106: config(1, 1, 16, 64, 0); break;
    default: _exit(0);
    }
}
static int aborts(int i)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        misuse(i);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}

/* Packing by pieces or by vectors: the same panels, so the same sums */
static void check_same(const int *d)
{
    Case c;
    bf16 = true;
    seed_case("linear", d);
    case_make(&c, &tests[0], d);
    Result base = case_run(&c, tier_ops("base_twin", 2), -1),
           more = case_run(&c, tier_ops("avx512_twin", 2), -1);
    ok(same_bits(&c, &base, &more), "base_twin and avx512_twin give the same bits (%s)",
       dims_text(d));
    result_free(&base);
    result_free(&more);
    case_free(&c);
    bf16 = false;
}

int main(void)
{
    static const int dims[][3] = {
        { 16, 16, 16 }, { 1, 1, 1 }, { 5, 16, 3 }, { 16, 7, 16 }, { 3, 2, 16 },
    };
    static const int same[][MAXDIM] = {
        { 130, 521, 143, 1 }, { 33, 31, 65, 0 }, { 5, 2601, 9, 0 },
    };
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        check_dp(dims[i][0], dims[i][1], dims[i][2]);
    check_rounding();
    for (int i = 0; i < 9; i++) ok(aborts(i), "misuse %d aborts", i);
    for (int i = 100; i < 107; i++) ok(aborts(i), "misuse %d aborts", i);
    ok(!aborts(99), "and right use does not");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (tests[i].call == lin_call || tests[i].call == ex_call) check_op(&tests[i]);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (cpu_runs("avx512_bf16")) check_same(same[i]);
        else skip("this processor has no AVX512-BF16", "avx512_twin");
    return done();
}
