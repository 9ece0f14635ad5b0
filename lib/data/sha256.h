/* sha256.h -- SHA-256 (FIPS 180-4) of a stream of bytes. */
#ifndef DATA_SHA256_H
#define DATA_SHA256_H
#include <stddef.h>
#include <stdint.h>

typedef struct Sha256 { uint32_t h[8]; uint64_t n; unsigned char block[64]; } Sha256;

void sha256_init(Sha256 *s);
void sha256_add(Sha256 *s, const void *p, size_t n);
void sha256_end(Sha256 *s, char hex[65]);       /* lower case, and a NUL */

#endif
