/* A heap recording with names, and the reports made from it.
 *
 * A site is where memory is asked for: the innermost frame of a stack that is not plumbing (malloc,
 * operator new, the C and C++ libraries; see `heap_sites.c`), by function, file and line, and the function
 * that called it. Stacks of one site are one row. */
#ifndef PIANO_TOOL_REPORT_HEAP_H
#define PIANO_TOOL_REPORT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tool/load/recording.h"
#include "tool/report/report.h"
#include "tool/symbol/symbol.h"

enum {
    HEAP_MAX_INLINES = 32, /* frames of one address, the function itself included */
    HEAP_MAX_PCS = 1 << 20,
    HEAP_MAX_FRAMES = PIANO_MAX_FRAMES * HEAP_MAX_INLINES,
};

/* An address in a module, named. */
struct heap_pc {
    uint64_t pc; /* of the call */
    const struct recording_module *module;
    struct symbol_frame *frames; /* innermost first */
    uint32_t count;
};

struct heap_stack {
    uint32_t *pcs; /* indices in `pcs` of the heap; NULL: nothing was sampled there */
    uint32_t depth;
    uint32_t site;
    uint32_t site_frame; /* which of its frames, inlined ones counted, is the site */
};

struct heap_site {
    const char *function, *file, *module; /* file may be NULL */
    unsigned line;
    const char *caller; /* the function that called it; NULL: none that counts */
    bool mmap;
    struct recording_sum sum;
    uint32_t stacks; /* how many */
    uint32_t best;   /* the one with most live bytes, else most allocated bytes */
};

struct heap {
    struct recording rec;
    struct symbols *symbols;
    struct heap_pc *pcs;
    size_t pc_count;
    struct heap_stack *stacks; /* as in `rec` */
    struct heap_site *sites;
    size_t site_count;
};

/* Which figure. */
enum heap_by { HEAP_LIVE, HEAP_ALLOCATED, HEAP_PEAK, HEAP_CHURN, HEAP_BYS };
extern const char *const heap_by_names[HEAP_BYS]; /* "live", ... */
double heap_figure(const struct recording_sum *sum, enum heap_by by);

/* Reads and names a recording; progress goes to stderr. 0, or negative errno with ERROR filled. */
int heap_load(struct heap *heap, const char *path, struct run_error *error);
void heap_unload(struct heap *heap);

/* What has to be known besides the numbers, on stderr: see `report_notices`. */
void heap_notices(const struct heap *heap);

/* The frames of a stack, innermost first, into FRAMES of HEAP_MAX_FRAMES. A stack that is not known has
 * one. Returns how many. */
size_t heap_frames(const struct heap *heap, uint32_t stack, const struct symbol_frame **frames);

/* Assigns stacks to sites. 0 or -ENOMEM. */
int heap_make_sites(struct heap *heap);
/* Is this frame plumbing between a program and its memory? */
bool heap_is_plumbing(const struct symbol_frame *frame);
/* Indices of all sites with a figure above 0, the greatest first; malloc'd, or NULL. */
uint32_t *heap_sorted(const struct heap *heap, enum heap_by by, size_t *count);

/* ---- reports ---- */

enum heap_mode { HEAP_SUMMARY, HEAP_TREE, HEAP_LEAKS, HEAP_GROWTH, HEAP_AT_PEAK };

struct heap_growth;

enum { HEAP_TO_END = -1, HEAP_NOT_GIVEN = -2 };

struct heap_options {
    enum heap_mode mode;
    enum heap_by by;
    long from, to;                    /* numbers of snapshots, HEAP_TO_END or HEAP_NOT_GIVEN */
    const struct heap_growth *growth; /* with HEAP_GROWTH */
};

/* Each returns 0 or negative errno. */
int heap_report(FILE *out, const struct heap *heap, const struct heap_options *h,
                const struct report_options *o);
int heap_report_json(FILE *out, const struct heap *heap, const struct heap_options *h,
                     const struct report_options *o);

/* ---- growth between two snapshots ---- */

struct heap_growth_row {
    uint32_t site;
    double from, to;    /* live bytes */
    double variance;    /* of the difference, at most */
    double per_second;  /* slope over all snapshots */
    double correlation; /* of live bytes with time; 0 when nothing moves */
};

struct heap_growth {
    const struct recording_snapshot *from, *to; /* TO may be `end` */
    struct recording_snapshot end;              /* what the recording ended with */
    struct heap_growth_row *rows;               /* greatest change first */
    size_t count;
    size_t points; /* snapshots the trend is over */
};

/* 0, or negative errno with ERROR filled: fewer than two moments, a number that is not there. */
int heap_growth_make(struct heap_growth *g, const struct heap *heap, const struct heap_options *h,
                     struct run_error *error);
void heap_growth_release(struct heap_growth *g);
/* "grows", "shrinks", "varies", "flat", or NULL with too few snapshots. */
const char *heap_trend(const struct heap_growth *g, const struct heap_growth_row *row);

/* ---- pieces ---- */

int64_t heap_whole(double v); /* rounded, within int64_t */
const char *heap_bytes(char *text, double v);
/* "file.c:12", the path short enough for a table; "-" when unknown. */
const char *heap_place(char *text, size_t size, const char *file, unsigned line);
/* A name made safe, with " (mmap)" where that is so; malloc'd, or NULL. */
char *heap_name(const char *function, bool mmap);
/* "f < g": who called the site in its greatest stack; malloc'd, or NULL. */
char *heap_callers(const struct heap *heap, const struct heap_site *site);

void heap_print_answer(FILE *out, const struct heap *heap, const struct report_options *o);
int heap_print_tables(FILE *out, const struct heap *heap, const struct heap_options *h,
                      const struct report_options *o);
int heap_print_tree(FILE *out, const struct heap *heap, const struct heap_options *h,
                    const struct report_options *o);
int heap_print_leaks(FILE *out, const struct heap *heap, const struct report_options *o);
int heap_print_growth(FILE *out, const struct heap *heap, const struct heap_growth *g,
                      const struct report_options *o);
void heap_put_tree(struct buf *b, const struct heap *heap, enum heap_by by, int *err);
void heap_put_growth(struct buf *b, const struct heap *heap, const struct heap_growth *g);

#endif
