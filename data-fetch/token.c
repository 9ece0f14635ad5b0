#include "token.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "sets.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { LONGEST = 4096 };

static const char *set_env(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

static char *token_path(void)
{
    const char *s;
    if ((s = set_env("HF_TOKEN_PATH"))) return xstrdup(s);
    if ((s = set_env("HF_HOME"))) return xasprintf("%s/token", s);
    if ((s = set_env("XDG_CACHE_HOME"))) return xasprintf("%s/huggingface/token", s);
    if ((s = set_env("HOME"))) return xasprintf("%s/.cache/huggingface/token", s);
    return NULL;
}

/* Without the white space around it; NULL if nothing is left. */
static const char *clean(Arena *a, const char *s, size_t n, const char *where)
{
    static const char white[] = " \t\r\n";
    while (n && memchr(white, *s, 4)) s++, n--;
    while (n && memchr(white, s[n - 1], 4)) n--;
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~') die("%s: not an access token: byte %zu of it", where, i + 1);
    return n ? arena_strndup(a, s, n) : NULL;
}

static const char *from_file(Arena *a)
{
    struct stat st;
    const char *token = NULL;
    char *path = token_path();
    if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        Buf b = {0};
        read_file(path, &b, LONGEST);
        token = clean(a, b.s ? b.s : "", b.n, path);
        buf_free(&b);
    }
    free(path);
    return token;
}

const char *hub_token(Arena *a, const char *url)
{
    const char *hub = set_endpoint(), *token = set_env("HF_TOKEN");
    size_t n = strlen(hub);
    while (n && hub[n - 1] == '/') n--;
    if (strncmp(url, hub, n) || url[n] != '/') return NULL;
    if (token) token = clean(a, token, strlen(token), "HF_TOKEN");
    return token ? token : from_file(a);
}

bool hub_offline(void)
{
    static const char *const yes[] = { "1", "on", "yes", "true" };
    const char *s = set_env("HF_HUB_OFFLINE");
    for (int i = 0; s && i < 4; i++)
        if (!strcasecmp(s, yes[i])) return true;
    return false;
}
