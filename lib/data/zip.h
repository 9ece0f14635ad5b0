/* zip.h -- the files of a zip archive, by its central directory (PKWARE's APPNOTE 6.3).
 *
 * Read: stored and deflated files, zip64. Refused when it is opened: several disks, names that would
 * lead elsewhere (member.h), a name twice, symbolic links, files that overlap each other or the
 * directory, sizes past the archive's; when the file is read: encryption, other methods, a local
 * header that says otherwise, a wrong size or CRC, more than 200 to 1 unpacked (above 1 MB). Every
 * fault dies, "ARCHIVE: why" or "ARCHIVE:FILE: why".
 *
 * Memory: some times the directory, at most ZIP_DIRECTORY, and some 100 KB for the file that is being read. */
#ifndef DATA_ZIP_H
#define DATA_ZIP_H
#include "base/io.h"

#define ZIP_DIRECTORY ((size_t)64 << 20)

typedef struct Zip Zip;
typedef struct ZipFile {
    const char *name; size_t name_len;          /* a NUL follows; folders are left out */
    uint64_t size, packed;                      /* bytes */
    uint64_t at;                                /* of its local header */
    uint32_t crc;
    int method, flags;
} ZipFile;

bool zip_magic(const char *s, size_t n);        /* do these first bytes say zip? */
Zip *zip_open(const char *path);                /* a seekable file */
size_t zip_files(const Zip *z);
const ZipFile *zip_file(const Zip *z, size_t i);        /* in the directory's order */
const char *zip_method(int method);             /* "stored", "deflated", "LZMA" ...; "unknown" */
/* Its bytes (gzip and zstd inside it are unpacked too, as ever), checked when the end is reached. One
 * at a time. */
In *zip_read(Zip *z, size_t i);
void zip_close(Zip *z);

#endif
