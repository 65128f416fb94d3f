/* One source on its way through the compiler wrapper. */
#ifndef PIANO_TOOL_BUILD_JOB_H
#define PIANO_TOOL_BUILD_JOB_H

#include <stdbool.h>

#include "tool/build/analyse.h"
#include "tool/build/args.h"
#include "tool/build/place.h"

struct selection;

struct job {
    const char *state;
    const struct selection *selection;
    const struct args *args;
    const struct arg *source;
    struct place place;
    struct analyse functions;
    bool analysed;
    bool instrumented;  /* compiled, with guards in it */
    const char *object; /* where to, when that is not where the command puts it; see scratch.h */
    char *output;       /* absolute: what the command makes */
    char *note;
    char *failed;
};

/* 0 or -ENOMEM; the caller releases J in any case. */
int job_init(struct job *j, const char *state, const struct selection *selection,
             const struct args *args, const struct arg *source);
void job_release(struct job *j);

/* Preprocesses, looks for functions, and compiles the source with guards if there is anything to
 * guard. `instrumented` says whether that was done; if not, the source is still to be compiled by
 * its own command. Negative errno only when nothing more should be tried (-EINTR). */
int job_compile(struct job *j);

/* Notes why it was not instrumented (after all). The text is copied. */
void job_note(struct job *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Leaves the record of what became of it. */
void job_save(const struct job *j);

#endif
