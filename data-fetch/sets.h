/* sets.h -- data sets known by name: manifests NAME.json in $PIPEGPT_SETS or share/data, see
 * pipegpt-sets(5). A manifest is checked before any of it is used. */
#ifndef DATA_FETCH_SETS_H
#define DATA_FETCH_SETS_H
#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct SetFile {
    const char *url;
    int64_t size;               /* bytes; -1: not known */
    const char *sha256;         /* 64 hex digits, or NULL */
} SetFile;

/* One split of a set. All of it lives as long as the arena. */
typedef struct Set {
    const char *name, *split;
    const char *about, *licence;
    const char *format;         /* as for --format; "auto" if the manifest has none */
    const char *adapter;        /* path of a jq program; NULL: rows go on as they are */
    const char *separator;      /* of plain text, or NULL */
    const char **column; int ncolumn;           /* of Parquet; 0: all */
    const char **member; int nmember;           /* of archives, patterns of files; 0: all */
    int64_t rows;               /* -1: not known */
    bool shards;                /* @START:STOP counts files, not rows */
    SetFile *file; int nfile;
} Set;

/* name: NAME or NAME:SPLIT. NULL if there is no such manifest; dies if the manifest is bad or has no
 * such split. */
Set *set_find(Arena *a, const char *name);
/* The path of the program NAME.jq beside the manifests, malloced; NULL if there is none. */
char *set_program(const char *name);
/* {"set", "splits", "licence", "about"} of each set, a line each, to stdout. */
void sets_list(void);

/* $HF_ENDPOINT, or the hub. Dies if it is no https, http or file URL: a bare host would be asked, and
 * sent the token, without encryption. */
const char *set_endpoint(void);

#endif
