/* eval.h -- what gpt-eval's tasks share: the model under test, the options, records. */
#ifndef EVAL_EVAL_H
#define EVAL_EVAL_H
#include "base/io.h"
#include "base/opt.h"
#include "gpt/decode.h"
#include "gpt/lora.h"
#include "text/tok.h"

typedef struct EvalOptions {
    int64_t limit;                  /* rows or items; 0: all */
    int batch;                      /* rows at a time; 0: as many as memory of 8192 tokens allows */
    int samples, max_tokens, top_k;
    double temperature;             /* < 0: not given */
    int64_t seed;
    const char *items;              /* file of one record per item; NULL: none */
    const char *runner;             /* program that runs programs; NULL: ours */
    int unsafe, no_tools;
    int doc_mask;                   /* bpb: documents of a row are kept apart */
} EvalOptions;
extern EvalOptions opt;

enum { BATCH_TOKENS = 8192 };

typedef struct Subject {
    const char *dir;
    Model *m;
    Lora *lora;                     /* NULL: none */
    Tok *tok;
    TokEnc *enc;
    unsigned char *stop;            /* [V] tokens that end an answer */
    Tape tape;
} Subject;

/* A task of gpt-eval writes its records to out; operands are what follows its name. */
void bpb_task(Subject *s, const StrList *operands, Out *out);
void chat_task(Subject *s, const StrList *operands, Out *out);

/* , "key": value */
void rec_num(Buf *b, const char *key, double x);
void rec_count(Buf *b, const char *key, uint64_t n);
void rec_str(Buf *b, const char *key, const char *s, size_t n);
void rec_write(Out *out, const Buf *b);                 /* the line as it is, with a newline */

#endif
