/* Runs a program that a build made. */
#ifndef PIANO_TOOL_BUILD_PROGRAM_H
#define PIANO_TOOL_BUILD_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/build/records.h"

/* The message for a build without a program, and its hint. */
#define PROGRAM_NONE "no program was linked (a library?)"
#define PROGRAM_NONE_HINT "piano build -- make check, or whatever builds a program that uses it"

struct program_run {
    const char *command; /* name of the command, for messages; NULL: run */
    char *const *words;  /* the program and its arguments, NULL-terminated; may be empty */
    double duration_s;   /* 0: until it ends by itself */
    double kill_s;
    bool every_call; /* time every call, estimate none */
    bool out_to_err; /* its stdout goes to our stderr */

    /* filled in: */
    int status;
    bool interrupted;
    bool unstarted; /* its loader failed, which was reported */
    char *run;      /* the run file it left, or NULL */
};

/* Runs the program that WORDS name, or the chosen program with WORDS as arguments. Prints errors.
 * Returns the exit status of the program, or EXIT_FAILED with *STARTED false when it did not
 * start. */
int program_run(struct program_run *p, bool *started);
void program_run_release(struct program_run *p);

/* Prints the likely reason why a program that ended left no run. Returns EXIT_FAILED. */
int program_no_run(void);

#endif
