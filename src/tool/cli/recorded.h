/* Which recording a word means: for commands that follow one while it is written. */
#ifndef PIANO_TOOL_CLI_RECORDED_H
#define PIANO_TOOL_CLI_RECORDED_H

#include <sys/types.h>

/* The process id that WORD is; 0: none. */
pid_t recorded_pid(const char *word);
/* The recording that process PID is writing, malloc'd; NULL: none. */
char *recorded_path(pid_t pid);
/* The recording that WORD means (NULL: the newest), malloc'd; NULL after printing an error. */
char *recorded_named(const char *word);

#endif
