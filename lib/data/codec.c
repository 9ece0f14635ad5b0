#include "data/codec.h"
#include "base/err.h"
#include <limits.h>
#include <string.h>
#include <zlib.h>
#ifdef HAVE_SNAPPY
#include <snappy-c.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

static const char *const names[CODEC_COUNT] = { "UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI",
                                                "LZ4", "ZSTD", "LZ4_RAW" };
static const char damaged[] = "damaged compressed data",
                  too_long[] = "unpacks to more than the stated size",
                  too_short[] = "unpacks to less than the stated size";

const char *codec_name(int codec)
{
    return codec >= 0 && codec < CODEC_COUNT ? names[codec] : "unknown codec";
}

const char *codec_missing(int codec)
{
    switch (codec) {
    case CODEC_NONE: case CODEC_GZIP: return NULL;
#ifdef HAVE_SNAPPY
    case CODEC_SNAPPY: return NULL;
#else
    case CODEC_SNAPPY: return "built without snappy";
#endif
#ifdef HAVE_ZSTD
    case CODEC_ZSTD: return NULL;
#else
    case CODEC_ZSTD: return "built without zstd";
#endif
    default: return "not supported";
    }
}

static const char *gunzip(void *out, size_t want, const void *in, size_t n)
{
    z_stream z = { 0 };
    if (n > UINT_MAX || want > UINT_MAX) return damaged;
    if (inflateInit2(&z, MAX_WBITS + 32) != Z_OK) die("out of memory");    /* gzip or zlib */
    z.next_in = (Bytef *)(uintptr_t)in;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)want;
    const char *bad = NULL;
    do {                                                        /* a member each time */
        int rc;
        unsigned char more;
        do {
            int full = z.avail_out == 0;
            if (full) z.next_out = &more, z.avail_out = 1;      /* nothing may come any more */
            rc = inflate(&z, Z_NO_FLUSH);
            if (full && z.avail_out == 0) bad = too_long;
            if (full) z.next_out = (Bytef *)out + want, z.avail_out = 0;
        } while (!bad && rc == Z_OK);
        if (!bad && rc != Z_STREAM_END) bad = damaged;
    } while (!bad && z.avail_in && inflateReset(&z) == Z_OK);
    if (!bad && z.avail_out) bad = too_short;
    inflateEnd(&z);
    return bad;
}

#ifdef HAVE_SNAPPY
static const char *unsnap(void *out, size_t want, const void *in, size_t n)
{
    size_t size;
    if (snappy_uncompressed_length(in, n, &size) != SNAPPY_OK) return damaged;
    if (size != want) return size > want ? too_long : too_short;
    return snappy_uncompress(in, n, out, &size) == SNAPPY_OK ? NULL : damaged;
}
#endif

#ifdef HAVE_ZSTD
static const char *unzstd(void *out, size_t want, const void *in, size_t n)
{
    static ZSTD_DCtx *context;                  /* kept: making one costs more than a small page */
    if (!context && !(context = ZSTD_createDCtx())) die("out of memory");
    size_t size = ZSTD_decompressDCtx(context, out, want, in, n);
    if (!ZSTD_isError(size)) return size == want ? NULL : too_short;
    return ZSTD_getErrorName(size)[0] == 'D' ? too_long : damaged;      /* "Destination ..." */
}
#endif

const char *codec_unpack(int codec, void *out, size_t want, const void *in, size_t n)
{
    switch (codec) {
    case CODEC_NONE:
        if (n != want) return n > want ? too_long : too_short;
        if (n) memcpy(out, in, n);
        return NULL;
    case CODEC_GZIP: return gunzip(out, want, in, n);
#ifdef HAVE_SNAPPY
    case CODEC_SNAPPY: return unsnap(out, want, in, n);
#endif
#ifdef HAVE_ZSTD
    case CODEC_ZSTD: return unzstd(out, want, in, n);
#endif
    default: return "not supported";
    }
}
