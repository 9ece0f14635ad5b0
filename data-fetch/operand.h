/* operand.h -- NAME[@START:STOP][*TIMES] on the command line. */
#ifndef DATA_FETCH_OPERAND_H
#define DATA_FETCH_OPERAND_H
#include <stdint.h>

typedef struct Operand {
    char *path;                 /* malloced */
    uint64_t from, to;          /* rows; 0, UINT64_MAX: all */
    double times;
} Operand;

/* A file whose name is all of s is that file. Exit 2 if what follows the name makes no sense. */
Operand operand_parse(const char *s);

#endif
