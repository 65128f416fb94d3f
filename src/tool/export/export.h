/* Exports a recording, a run of an instrumented program, or both, in the formats of other tools.
 * Each function writes to OUT and returns 0 or negative errno. */
#ifndef PIANO_TOOL_EXPORT_EXPORT_H
#define PIANO_TOOL_EXPORT_EXPORT_H

#include <stdio.h>

#include "tool/load/run.h"
#include "tool/profile/cpu.h"
#include "tool/profile/polls.h"
#include "tool/profile/profile.h"

struct export_source {
    struct profile *profile; /* with the names that the parts below need; NULL: a run alone */
    bool heap;               /* its memory, with names, is exported */
    struct cpu *cpu;         /* its CPU samples and waits; NULL: they are not exported */
    struct polls *polls;     /* started, but `polls_go` was not called yet; NULL: no events */
    const struct run *run;   /* of the same process, or alone; may be NULL */
    enum figure figure;      /* the one that the file opens with; of a run only its allocations */
};

int export_speedscope(FILE *out, const struct export_source *s);
int export_pprof(FILE *out, const struct export_source *s);
int export_collapsed(FILE *out, const struct export_source *s);
int export_chrome(FILE *out, const struct export_source *s);
int export_firefox(FILE *out, const struct export_source *s); /* a recording, with its polls */

/* Rounds fractions to whole numbers whose sum is the rounded sum of the fractions so far: each
 * result is the rounded sum minus the results before. Initialise with zeros. */
struct export_rounding {
    double sum;
    int64_t given;
};
int64_t export_round(struct export_rounding *r, double value);

/* ---- names ---- */

/* The name of process PID: TEXT of PIANO_REC_PATH, or a name in REC. Not yet safe to print. */
const char *export_process_name(char *text, const struct recording *rec, uint32_t pid);
/* The program of a source. The same. */
const char *export_program(char *text, const struct export_source *s);
/* The main thread of a process has its number. */
static inline bool export_is_main(const struct cpu_part *t)
{
    return t->tid == t->pid;
}

#endif
