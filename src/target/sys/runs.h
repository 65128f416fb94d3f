/* The directory of run files and recordings. */
#ifndef PIANO_TARGET_SYS_RUNS_H
#define PIANO_TARGET_SYS_RUNS_H

/* Set by `piano build`, in the first unit that is registered; NULL if no unit has it. */
extern const char *piano__runs_built_in;

/* Returns what the environment requests, else `piano__runs_built_in`. */
const char *piano__runs_dir(void);

#endif
