/* Saving the run: its checkpoint and its state. */
#include "gpt/ckpt.h"
#include "options.h"
#include "run.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* The tokenizer goes in with the first save, from memory: its file may be gone by then. */
static int save_first(Run *r, const char *state)
{
    char *name = xasprintf("%s/.tokenizer.tok", opt.out), *path;
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) die("%s:", name);
    unlink(name);                               /* a kill leaves nothing behind */
    path = xasprintf("/dev/fd/%d", fd);
    tok_save(r->tok, path);
    lseek(fd, 0, SEEK_SET);
    int bad = ckpt_save(opt.out, r->m, r->o, path, state);
    close(fd);
    free(path);
    free(name);
    return bad;
}

int run_save(Run *r)
{
    Buf b = {0};
    data_look(r->train);                        /* nothing learnt from damaged rows is kept */
    health_weights(r);
    state_json(r, &b);
    int bad = r->has_tok ? ckpt_save(opt.out, r->m, r->o, NULL, b.s) : save_first(r, b.s);
    if (!bad) {
        r->has_tok = 1;
        r->saved = r->st.step;
    }
    buf_free(&b);
    if (!bad) note(2, "step %" PRId64 ": saved in %s", r->st.step, opt.out);
    return bad;
}
