/* session.h -- a model that is open, with all that turns prompts into samples. */
#ifndef GPT_SAMPLE_SESSION_H
#define GPT_SAMPLE_SESSION_H
#include "base/map.h"
#include "gpt/ckpt.h"
#include "gpt/decode.h"
#include "prompts.h"
#include "text/chat.h"
#include "toolcmd.h"

typedef struct Session {
    const char *dir;
    Model *m;
    Lora *lora;                     /* NULL: none */
    Tok *tok;
    TokEnc *enc;
    Gen *gen;
    unsigned char *stop;            /* [V] end tokens */
    Chat *chat;                     /* NULL: no conversations */
    Tool tool; bool tools;          /* used if tools */
    ToolCmd cmd;
    int batch;
    int bos;                        /* what stands before a text; -1: nothing */
    Map seen;                       /* hash of a prompt's ids -> how often it came */
} Session;

/* which: of ckpt_model(); adapter: a directory, or NULL */
void session_open(Session *s, const char *dir, int which, const char *adapter, const Ops *ops);
/* For conversations: the template (NULL: what the tokenizer's tokens tell), and the tool: the calculator, or the command `cmd` if not
 * NULL; none with no_tools. */
void session_chat(Session *s, const char *template, const char *cmd, int no_tools);
void session_stop(Session *s, const char *name);        /* one more end token, or exit 2 */
/* A job for ids [n], which must live as long; callbacks are the caller's to fill in. */
GenJob session_job(Session *s, const uint32_t *id, size_t n, const Settings *set);
void session_close(Session *s);

#endif
