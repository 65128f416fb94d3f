/* Compares two recordings by everything that both recorded: CPU time by function, memory by
 * site, polls by task. */
#ifndef PIANO_TOOL_REPORT_RECORDINGS_DIFF_H
#define PIANO_TOOL_REPORT_RECORDINGS_DIFF_H

#include "tool/profile/cpu_diff.h"
#include "tool/profile/heap_diff.h"
#include "tool/profile/polls_diff.h"
#include "tool/report/report.h"

struct recordings_diff {
    bool has_cpu, has_heap, has_polls; /* recorded on both sides, with data on at least one */
    struct profile profiles[2];
    struct cpu cpus[2];
    struct polls polls[2];
    struct heap_diff heap;
    struct cpu_diff functions; /* set with `has_cpu` or `has_polls` */
    struct polls_diff tasks;
};

/* What of the recordings is compared. */
struct recordings_diff_wish {
    const struct heap_skip *skip;
    const struct range_asked *range;
    const char *process; /* name or number; NULL: all */
};

/* 0, or negative errno with ERROR filled: -ENOENT if they have nothing in common. Of a range of time
 * in both, memory is not compared. Notices go to stderr. LABELS must outlive D. */
int recordings_diff_make(struct recordings_diff *d, const char *const paths[2],
                         const char *const labels[2], const struct recordings_diff_wish *wish,
                         struct run_error *error);
void recordings_diff_release(struct recordings_diff *d);

/* Each returns 0 or negative errno. */
int recordings_diff_print(FILE *out, const struct recordings_diff *d,
                          const struct report_options *o);
int recordings_diff_json(FILE *out, const struct recordings_diff *d, double fail_above);

/* Reports what grew by more than PERCENT; returns whether anything did. */
bool recordings_diff_judge(const struct recordings_diff *d, double percent);

/* ---- one instrument ---- */

int cpu_diff_print(FILE *out, const struct cpu_diff *d, const struct report_options *o);
/* The members "functions" and "cpu_total". */
void cpu_diff_put(struct json_writer *w, const struct cpu_diff *d, double fail_above);
int heap_diff_print(FILE *out, const struct heap_diff *d, const struct report_options *o);
int heap_diff_json(FILE *out, const struct heap_diff *d, double fail_above);
/* The members "sites" and "heap_total". */
void heap_diff_put(struct json_writer *w, const struct heap_diff *d, double fail_above);
int polls_diff_print(FILE *out, const struct polls_diff *d, const struct report_options *o);
/* The member "tasks". */
void polls_diff_put(struct json_writer *w, const struct polls_diff *d, double fail_above);
/* The members "programs" and "runs". */
void recordings_diff_put_paths(struct json_writer *w, const struct recording *a,
                               const struct recording *b);

#endif
