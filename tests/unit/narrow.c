/* Numbers in fewer bits: every fp16 and bf16 there and back, what lies between two of them goes to
 * the nearer one (the even one of a tie), q8_0 against its definition. */
#include "gpt/narrow.h"
#include "base/rng.h"
#include "tap.h"
#include <math.h>
#include <string.h>

static float bf16_value(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

typedef struct Format { const char *name; uint16_t (*of)(float); float (*value)(uint16_t); uint16_t inf; } Format;

static void check_round_trip(const Format *f)
{
    int bad = 0;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = f->value((uint16_t)h);
        uint16_t back = f->of(x);
        bad += isnan(x) ? !isnan(f->value(back)) : back != h;
    }
    ok(!bad, "%s: every number there and back (%d are not)", f->name, bad);
}

/* Between neighbours a < b: a little off the middle goes to the near one, the middle to the even. */
static void check_between(const Format *f)
{
    int bad = 0;
    for (uint16_t h = 0; h + 1 < f->inf; h++) {
        double a = (double)f->value(h), b = (double)f->value((uint16_t)(h + 1)), m = (a + b) / 2;
        float mid = (float)m;               /* exact: one bit more than the format has */
        uint16_t even = h & 1 ? (uint16_t)(h + 1) : h;
        bad += f->of(mid) != even || f->of(-mid) != (even | 0x8000);
        bad += f->of(nextafterf(mid, 0)) != h || f->of(nextafterf(mid, INFINITY)) != h + 1;
    }
    ok(!bad, "%s: rounding to nearest even (%d wrong)", f->name, bad);
}

static void check_q8(void)
{
    Rng r;
    real x[64];
    unsigned char got[68];
    double worst = 0;
    rng_init(&r, 3, 4);
    int bad = 0;
    for (int k = 0; k < 1000; k++) {
        double size = pow(10, 6 * rng_uniform(&r) - 4);
        for (int i = 0; i < 64; i++) x[i] = (real)(size * (2 * rng_uniform(&r) - 1));
        narrow_put(NARROW_Q8_0, got, x, 64);
        for (int b = 0; b < 2; b++) {
            const unsigned char *p = got + 34 * b;
            double d = (double)fp16_value((uint16_t)(p[0] | p[1] << 8)), most = 0;
            for (int i = 0; i < 32; i++) most = fmax(most, fabs((double)x[32 * b + i]));
            /* the scale is the nearest fp16 to most / 127 (subnormal ones are 2^-24 apart) */
            bad += fabs(d - most / 127) > fmax(d * 0x1p-11, 0x1p-25);
            for (int i = 0; i < 32; i++) {
                double q = (double)(signed char)p[2 + i];
                worst = fmax(worst, fabs(q - (double)x[32 * b + i] * 127 / most));
            }
        }
    }
    ok(!bad && worst <= 0.5 + 1e-4, "q8_0: %d scales are wrong, bytes off by at most %.5f", bad, worst);
    memset(x, 0, sizeof x);
    memset(got, 1, sizeof got);
    narrow_put(NARROW_Q8_0, got, x, 32);
    for (int i = 0; i < 34; i++) bad += got[i] != 0;
    ok(!bad, "q8_0: zeroes");
}

int main(void)
{
    static const Format f[] = { { "fp16", fp16_of, fp16_value, 0x7c00 },
                                { "bf16", bf16_of, bf16_value, 0x7f80 } };
    for (int i = 0; i < 2; i++) check_round_trip(&f[i]), check_between(&f[i]);
    check_q8();
    ok(narrow_bytes(NARROW_F32, 64) == 256 && narrow_bytes(NARROW_F16, 64) == 128 &&
       narrow_bytes(NARROW_BF16, 64) == 128 && narrow_bytes(NARROW_Q8_0, 64) == 68, "sizes");
    unsigned char b[8];
    real x[3] = { 1, (real)65519.99, -2 };
    narrow_put(NARROW_F32, b, x, 2);
    ok(!memcmp(b, "\0\0\x80\x3f", 4), "fp32, little-endian");
    ok(!narrow_fits(NARROW_F16, x, 3), "the largest fp16");
    x[1] = -65520;
    ok(narrow_fits(NARROW_F16, x, 3) && !narrow_fits(NARROW_BF16, x, 3), "beyond it");
    x[1] = NAN;
    ok(narrow_fits(NARROW_F32, x, 3) != NULL, "not a number");
    x[1] = (real)3.4e38;
    ok(narrow_fits(NARROW_BF16, x, 3) && narrow_fits(NARROW_Q8_0, x, 3) &&
       !narrow_fits(NARROW_F32, x, 3), "beyond bf16");
    return done();
}
