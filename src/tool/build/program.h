/* Running a program that a build made. */
#ifndef PIANO_TOOL_BUILD_PROGRAM_H
#define PIANO_TOOL_BUILD_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/build/records.h"

/* What to say of a build without a program, and how to go on. */
#define PROGRAM_NONE "no program was linked (a library?)"
#define PROGRAM_NONE_HINT "piano build -- make check, or whatever builds a program that uses it"

struct program_run {
    const char *command; /* whose words these are, for messages; NULL: run */
    char *const *words;  /* the program and its arguments, ended by NULL; may be empty */
    double duration_s;   /* 0 = until it ends by itself */
    double kill_s;
    bool every_call; /* times every call: none is estimated */
    bool out_to_err; /* its stdout goes to our stderr */

    /* filled in: */
    int status;
    bool interrupted;
    bool unstarted; /* its loader gave up; that was said */
    char *run;      /* the run file it left, or NULL */
};

/* Runs the program WORDS name, or the one that is meant with WORDS as arguments. Says what went wrong.
 * Exit status of the program, or EXIT_FAILED with *STARTED false when it did not start. */
int program_run(struct program_run *p, bool *started);
void program_run_release(struct program_run *p);

/* For a program that ended and left no run: says why that may be. Returns EXIT_FAILED. */
int program_no_run(void);

#endif
