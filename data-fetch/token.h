/* token.h -- the access token of the hub, found where the hub's own tools keep it:
 * $HF_TOKEN, else the file $HF_TOKEN_PATH, else token in $HF_HOME, in $XDG_CACHE_HOME/huggingface or
 * in ~/.cache/huggingface. */
#ifndef DATA_FETCH_TOKEN_H
#define DATA_FETCH_TOKEN_H
#include "base/arena.h"
#include <stdbool.h>

/* For this URL; NULL if it is not the hub's, or there is none. Dies, without showing it, if it is
 * not made of printable characters, for it goes into a header. */
const char *hub_token(Arena *a, const char *url);
/* Does $HF_HUB_OFFLINE say 1, on, yes or true? */
bool hub_offline(void);

#endif
