/* The samples of a source as a table, for formats that know no time: each row is a stack with the
 * thread, the process and the task that it belongs to, and has a value in each series. A series is
 * one figure: "cpu" in nanoseconds, "alloc_space" in bytes.
 *
 * The names of the series are those that other tools know. A figure that was not recorded has no
 * series: a column of zeros would claim that it is known. */
#ifndef PIANO_TOOL_EXPORT_SERIES_H
#define PIANO_TOOL_EXPORT_SERIES_H

#include "tool/export/export.h"

enum { SERIES_MOST = 12 };

struct series_type {
    const char *name, *unit;
};

struct series_row {
    const uint32_t *pcs;       /* innermost first, indices in `pcs` of the table */
    uint32_t depth;            /* 0: no stack */
    uint32_t pid;              /* 0: unknown */
    uint32_t tid;              /* 0: of all threads */
    uint32_t task_number;      /* + 1 in the groups of the polls; 0: none */
    const char *thread, *task; /* not yet safe to print; NULL: unknown, or none */
    double values[SERIES_MOST];
};

struct series {
    struct series_type types[SERIES_MOST];
    size_t type_count;
    size_t chosen; /* the type that the export opens with */
    struct series_type period_type;
    uint64_t period;        /* the mean of a sample; at least 1 */
    uint64_t start_real_ns; /* CLOCK_REALTIME */
    uint64_t duration_ns;   /* 0: unknown, or meaningless for `chosen` */
    const struct profile_pc *pcs;
    size_t pc_count;
    struct series_row *rows;
    size_t row_count, row_cap;

    struct map row_of; /* by a hash of stack, pid, tid and task */
    /* Of a run: its functions as addresses. */
    struct profile_pc *own_pcs;
    struct symbol_frame *own_frames;
    uint32_t *own_numbers;
};

/* PEAK: with the series of the peak, which other tools do not know, even if it is not the figure of
 * S. Runs the pass over the polls of S. 0 or negative errno; release T in any case. */
int series_make(struct series *t, const struct export_source *s, bool peak);
void series_release(struct series *t);

/* The frames of ROW, innermost first, in FRAMES of PROFILE_MAX_FRAMES. Returns their number. */
size_t series_frames(const struct series *t, const struct series_row *row,
                     const struct symbol_frame **frames);

/* ---- series_run.c ---- */

enum { SERIES_RUN_CALLS, SERIES_RUN_SELF, SERIES_RUN_OBJECTS, SERIES_RUN_BYTES };

int series_add_run(struct series *t, const struct run *run, enum figure figure);

/* ---- for both ---- */

void series_add_type(struct series *t, const char *name, const char *unit);
/* A new row; NULL: out of memory. */
struct series_row *series_add_row(struct series *t, const struct series_row *row);

#endif
