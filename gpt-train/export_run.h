/* export_run.h -- --export: the model of a directory in another program's format. */
#ifndef TRAIN_EXPORT_RUN_H
#define TRAIN_EXPORT_RUN_H

void export_run(void);          /* by opt; exit 2 on a format that is not known */

#endif
