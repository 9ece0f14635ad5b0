/* SHA-256 against the examples of FIPS 180-4's companion, however the bytes come in pieces. */
#include "data/sha256.h"
#include "tap.h"
#include <stdlib.h>
#include <string.h>

static void check(const char *name, const char *s, size_t n, size_t piece, const char *want)
{
    Sha256 h;
    char hex[65];
    sha256_init(&h);
    for (size_t i = 0; i < n; i += piece) sha256_add(&h, s + i, n - i < piece ? n - i : piece);
    sha256_end(&h, hex);
    ok(!strcmp(hex, want), "%s in pieces of %zu: %s", name, piece, hex);
}

int main(void)
{
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    size_t pieces[] = { 1, 3, 63, 64, 65, 1000000 };
    char *million = malloc(1000000);
    if (!million) return 1;
    memset(million, 'a', 1000000);
    check("nothing", "", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        check("abc", "abc", 3, pieces[i],
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check("two blocks", two, 56, pieces[i],
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        check("a million a", million, 1000000, pieces[i],
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
    free(million);
    return done();
}
