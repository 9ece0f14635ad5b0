/* tile.h -- the few instructions of AMX that the matrix product uses: eight tiles of 16 rows of 64
 * bytes, t a constant. tile_dp adds to a tile of 16 x 16 floats the product of one of 16 rows of 32
 * bfloat16 and one of 16 rows of 16 pairs, each pair two that follow each other in k.
 *
 * With TILE_TWIN they are plain C that does what Intel's manual (volume 2, LDTILECFG, TILELOADD,
 * TDPBF16PS) says: sums of the even and of the odd products apart, in floats, denormals taken for 0
 * and flushed to it, then both added to the tile; rows and columns as configured, the rest 0. What
 * would trap aborts, and so does, beyond that, to configure what was not released.
 * Tests run the product on them where no processor has AMX.
 */
#ifndef OPS_CPU_TILE_H
#define OPS_CPU_TILE_H
#include <stdint.h>
#ifdef TILE_TWIN
#include <stdlib.h>
#include <string.h>
#else
#include <immintrin.h>
#endif

enum { TILE_ROWS = 16, TILE_BYTES = 64, TILE_PAIRS = 16, TILES = 8 };
typedef struct TileConfig {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];         /* of a row */
    uint8_t rows[16];
} TileConfig;
_Static_assert(sizeof(TileConfig) == 64, "as the processor reads it");
static const TileConfig tile_whole = {
    .palette = 1, .bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
    .rows = { 16, 16, 16, 16, 16, 16, 16, 16 },
};

#ifndef TILE_TWIN
#define tile_config(c) _tile_loadconfig(c)
#define tile_release() _tile_release()
#define tile_zero(t) _tile_zero(t)
/* gcc 12's says nothing of the memory it reads */
#define tile_load(t, p, stride) \
    do { __asm__ volatile("" ::: "memory"); _tile_loadd(t, p, stride); } while (0)
#define tile_store(t, p, stride) _tile_stored(t, p, stride)
#define tile_dp(c, a, b) _tile_dpbf16ps(c, a, b)
#else
typedef struct TileState {
    TileConfig c;
    unsigned char t[TILES][TILE_ROWS][TILE_BYTES];
} TileState;
static _Thread_local TileState tile_state;

static inline void tile_must(int ok) { if (!ok) abort(); }
static inline void tile_release(void) { memset(&tile_state, 0, sizeof tile_state); }
static inline void tile_config(const TileConfig *c)
{
    static const uint8_t none[sizeof c->reserved];
    tile_must(tile_state.c.palette == 0);
    tile_must(c->palette <= 1 && c->start_row == 0 && !memcmp(c->reserved, none, sizeof none));
    tile_release();
    if (c->palette == 0) return;
    for (int t = 0; t < 16; t++) {
        tile_must(c->rows[t] <= (t < TILES ? TILE_ROWS : 0) && c->bytes[t] <= TILE_BYTES);
        tile_must(!c->rows[t] == !c->bytes[t]);
    }
    tile_state.c = *c;
}
static inline int tile_rows(int t)              /* of one that may be used */
{
    tile_must(tile_state.c.palette == 1 && t >= 0 && t < TILES && tile_state.c.rows[t] > 0);
    return tile_state.c.rows[t];
}
static inline void tile_zero(int t)
{
    (void)tile_rows(t);
    memset(tile_state.t[t], 0, sizeof tile_state.t[t]);
}
static inline void tile_load(int t, const void *p, int64_t stride)
{
    tile_zero(t);
    for (int r = 0; r < tile_rows(t); r++)
        memcpy(tile_state.t[t][r], (const char *)p + r * stride, tile_state.c.bytes[t]);
}
static inline void tile_store(int t, void *p, int64_t stride)
{
    for (int r = 0; r < tile_rows(t); r++)
        memcpy((char *)p + r * stride, tile_state.t[t][r], tile_state.c.bytes[t]);
}
/* the float of bits u, 0 for a denormal */
static inline float tile_float(uint32_t u)
{
    float f;
    if ((u & 0x7f800000) == 0) u &= 0x80000000;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline float tile_flush(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return tile_float(u);
}
/* row[n] of floats += a[l] . b[l][n] for pairs. The product of two bfloat16 is exact in a float. */
static inline void tile_dp_row(float *row, const uint32_t *a, uint32_t b[TILE_ROWS][TILE_PAIRS],
                               int pairs, int n)
{
    float even[TILE_PAIRS] = { 0 }, odd[TILE_PAIRS] = { 0 };
    for (int l = 0; l < pairs; l++) {
        const float lo = tile_float(a[l] << 16), hi = tile_float(a[l] & 0xffff0000);
        for (int j = 0; j < TILE_PAIRS; j++) {
            even[j] = tile_flush(even[j] + lo * tile_float(b[l][j] << 16));
            odd[j] = tile_flush(odd[j] + hi * tile_float(b[l][j] & 0xffff0000));
        }
    }
    for (int j = 0; j < n; j++)
        row[j] = tile_flush(tile_flush(row[j]) + tile_flush(even[j] + odd[j]));
}
static inline void tile_dp(int c, int a, int b)
{
    const uint16_t *bytes = tile_state.c.bytes;
    const int m = tile_rows(c), pairs = bytes[a] / 4, n = bytes[c] / 4;
    float row[TILE_PAIRS];
    uint32_t left[TILE_PAIRS], right[TILE_ROWS][TILE_PAIRS];
    tile_must(c != a && c != b && a != b && tile_rows(a) == m && tile_rows(b) == pairs &&
              bytes[b] == bytes[c] && (bytes[a] | bytes[b]) % 4 == 0);
    memcpy(right, tile_state.t[b], sizeof right);
    for (int i = 0; i < m; i++) {
        memcpy(row, tile_state.t[c][i], sizeof row);
        memcpy(left, tile_state.t[a][i], sizeof left);
        tile_dp_row(row, left, right, pairs, n);
        memcpy(tile_state.t[c][i], row, sizeof row);
    }
    memset(tile_state.t[c][m], 0, (size_t)(TILE_ROWS - m) * TILE_BYTES);
}
#endif
#endif
