/* codec.h -- unpacking a block of bytes whose unpacked size is known: Parquet's page codecs. */
#ifndef DATA_CODEC_H
#define DATA_CODEC_H
#include <stddef.h>

/* As Parquet numbers them. */
enum { CODEC_NONE, CODEC_SNAPPY, CODEC_GZIP, CODEC_LZO, CODEC_BROTLI, CODEC_LZ4, CODEC_ZSTD,
       CODEC_LZ4_RAW, CODEC_COUNT };

const char *codec_name(int codec);              /* "SNAPPY"; "unknown codec" */
/* NULL if this build can unpack it, else why not. */
const char *codec_missing(int codec);
/* Exactly want bytes into out from all of in[0..n) (GZIP: members one after the other); NULL, or
 * what is wrong with in. Never writes past out[want). */
const char *codec_unpack(int codec, void *out, size_t want, const void *in, size_t n);

#endif
