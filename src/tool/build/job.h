/* One source in the compiler wrapper. */
#ifndef PIANO_TOOL_BUILD_JOB_H
#define PIANO_TOOL_BUILD_JOB_H

#include <stdbool.h>

#include "tool/build/analyse.h"
#include "tool/build/args.h"
#include "tool/build/place.h"
#include "tool/util/buf.h"

struct selection;

struct job {
    const char *state;
    const struct selection *selection;
    const struct args *args;
    const struct arg *source;
    struct place place;
    struct analyse functions;
    bool analysed;
    bool instrumented;  /* compiled with guards */
    const char *object; /* the object, unless it is at the command's own output; see scratch.h */
    char *output;       /* absolute: the output of the command */
    char *note;
    struct buf words; /* of the text, if it was not searched; see search.h */
    char *failed;
};

/* Returns 0 or -ENOMEM; the caller releases J in any case. */
int job_init(struct job *j, const char *state, const struct selection *selection,
             const struct args *args, const struct arg *source);
void job_release(struct job *j);

/* Preprocesses the source, finds functions, and compiles it with guards if there are functions to
 * guard. `instrumented` says whether this was done; if not, the original command must still compile
 * the source. Returns negative errno only if nothing more should be tried (-EINTR). */
int job_compile(struct job *j);

/* Records why it was not instrumented. Copies the text. */
void job_note(struct job *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes the record of the unit. */
void job_save(const struct job *j);

#endif
