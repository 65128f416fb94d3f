/* A heap recording with names, and the reports made from it.
 *
 * A site is the place that allocates memory: the innermost frame of a stack that is not plumbing
 * (malloc, operator new, the C and C++ libraries; see `heap_sites.c`). It is identified by
 * function, file, line and the calling function. All stacks of a site form one row. */
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
    HEAP_MAX_INLINES = 32, /* frames of one address, including the function itself */
    HEAP_MAX_PCS = 1 << 20,
    HEAP_MAX_FRAMES = PIANO_MAX_FRAMES * HEAP_MAX_INLINES,
};

/* An address in a module, with names. */
struct heap_pc {
    uint64_t pc; /* address of the call */
    const struct recording_module *module;
    struct symbol_frame *frames; /* innermost first */
    uint32_t count;
};

struct heap_stack {
    uint32_t *pcs; /* indices in `pcs` of the heap; NULL: no samples */
    uint32_t depth;
    uint32_t site;
    uint32_t site_frame;   /* index of the site's frame, including inlined frames */
    uint32_t caller_frame; /* frame of its caller, in another function; HEAP_NO_FRAME: none */
};
#define HEAP_NO_FRAME UINT32_MAX

struct heap_site {
    const char *function, *file, *module; /* file may be NULL */
    unsigned line;
    const char *caller; /* the calling function; NULL: none */
    bool mmap;
    struct recording_sum sum;
    uint32_t stacks; /* number of stacks */
    uint32_t best;   /* the one with the most live bytes, otherwise the most allocated bytes */
};

enum { HEAP_SKIPS = 64 };

/* Wrappers of malloc, in addition to the well-known ones. */
struct heap_skip {
    const char *patterns[HEAP_SKIPS]; /* shell patterns; not owned */
    size_t count;
    bool none; /* ignore the well-known ones too */
};

struct heap {
    struct recording rec;
    struct symbols *symbols;
    struct heap_pc *pcs;
    size_t pc_count;
    struct heap_addresses *addresses; /* index of `pcs` */
    struct heap_stack *stacks;        /* in the order of `rec` */
    struct heap_site *sites;
    size_t site_count;
    struct heap_skip skip;
    const char *wrapper; /* a wrapper that was skipped to find a site; NULL: none */
};

/* The figure to show. Those from HEAP_BYS on are CPU samples, in nanoseconds. */
enum heap_by {
    HEAP_LIVE,
    HEAP_ALLOCATED,
    HEAP_PEAK,
    HEAP_CHURN,
    HEAP_BYS,
    HEAP_CPU = HEAP_BYS,
    HEAP_OFF_CPU,
    HEAP_ALL_BYS
};
extern const char *const heap_by_names[HEAP_ALL_BYS]; /* "live", ... */
/* Formats a figure into TEXT of UNITS_LEN. */
const char *heap_figure_text(char *text, double figure, enum heap_by by);
double heap_figure(const struct recording_sum *sum, enum heap_by by);

/* Reads a recording and resolves its names; shows progress on stderr. 0, or negative errno with
 * ERROR filled. */
int heap_load(struct heap *heap, const char *path, struct run_error *error);
/* Reads a recording without names. `heap_name_stack` resolves the stacks that are shown. */
int heap_open(struct heap *heap, const char *path, struct run_error *error);
/* Resolves the frames of STACK, once. 0 or -ENOMEM. */
int heap_name_stack(struct heap *heap, uint32_t stack);
void heap_unload(struct heap *heap);

/* Module name of the program itself: the last part of its path. */
const char *heap_program(const struct heap *heap);
/* Returns NAME, except for an address in PROGRAM without a name: for "program+0x1139" it returns
 * "+0x1139". This makes two recordings comparable even if the files of their programs have
 * different names. */
const char *heap_name_within(const char *name, const char *program);

/* Prints notices on stderr; see `report_notices`. */
void heap_notices(const struct heap *heap);

/* Writes the frames of a stack, innermost first, into FRAMES of HEAP_MAX_FRAMES. An unknown
 * stack has one frame. Returns the number of frames. */
size_t heap_frames(const struct heap *heap, uint32_t stack, const struct symbol_frame **frames);

/* Assigns stacks to sites. 0 or -ENOMEM. */
int heap_make_sites(struct heap *heap);
/* Assigns stacks to sites again, with other wrappers skipped. */
int heap_resite(struct heap *heap, const struct heap_skip *skip);
/* Whether this frame is plumbing between a program and its memory. */
bool heap_is_plumbing(const struct symbol_frame *frame);
/* Whether FRAME is a wrapper. */
bool heap_skip_is(const struct heap_skip *skip, const struct symbol_frame *frame);
/* Removes the frames inside the sites from the stacks. */
void heap_trim(struct heap *heap);
/* PATTERN must outlive SKIP. 0, or -E2BIG. */
int heap_skip_add(struct heap_skip *skip, const char *pattern);
/* Start of the qualified name in a demangled one, after the return type. */
const char *heap_qualified(const char *name);
/* Indices of all sites with a figure above 0, largest first; malloc'd, or NULL. */
uint32_t *heap_sorted(const struct heap *heap, enum heap_by by, size_t *count);

/* ---- reports ---- */

enum heap_mode { HEAP_SUMMARY, HEAP_TREE, HEAP_LEAKS, HEAP_GROWTH, HEAP_AT_PEAK };

struct heap_growth;

enum { HEAP_TO_END = -1, HEAP_NOT_GIVEN = -2 };

struct heap_options {
    enum heap_mode mode;
    enum heap_by by;
    bool by_given;                    /* given by the user, not the default */
    long from, to;                    /* numbers of snapshots, HEAP_TO_END or HEAP_NOT_GIVEN */
    const struct heap_growth *growth; /* for HEAP_GROWTH */
};

/* Each returns 0 or negative errno. */
int heap_report(FILE *out, const struct heap *heap, const struct heap_options *h,
                const struct report_options *o);
int heap_report_json(FILE *out, const struct heap *heap, const struct heap_options *h,
                     const struct report_options *o);

/* ---- growth between two snapshots ---- */

struct heap_growth_row {
    uint32_t site;
    double from, to;        /* live bytes */
    double variance;        /* upper bound of the variance of the difference */
    double per_second;      /* slope over the window */
    double correlation;     /* of live bytes with time; 0 if nothing changes */
    double late_per_second; /* slope over the later half of the window */
    double late_range;      /* maximum minus minimum in the later half */
};

struct heap_growth {
    const struct recording_snapshot *from, *to; /* TO may be `end` */
    struct recording_snapshot end;              /* state at the end of the recording */
    struct heap_growth_row *rows;               /* largest change first */
    size_t count;
    const struct recording_snapshot **window; /* snapshots that the trend covers, by time */
    size_t points;                            /* number of snapshots in the window */
    size_t late;                              /* index where the later half starts */
};

/* 0, or negative errno with ERROR filled: fewer than two moments, or no snapshot of that number. */
int heap_growth_make(struct heap_growth *g, const struct heap *heap, const struct heap_options *h,
                     struct run_error *error);
void heap_growth_release(struct heap_growth *g);
/* "grows", "grew, then flat", "shrinks", "shrank, then flat", "varies", "flat", or NULL if there
 * are too few snapshots. */
const char *heap_trend(const struct heap_growth *g, const struct heap_growth_row *row);

/* ---- pieces ---- */

int64_t heap_whole(double v); /* rounded, within int64_t */
const char *heap_bytes(char *text, double v);
/* "file.c:12", the path shortened for a table; "-" if unknown. */
const char *heap_place(char *text, size_t size, const char *file, unsigned line);
/* A name that is safe to show, with " (mmap)" for mappings; malloc'd, or NULL. */
char *heap_name(const char *function, bool mmap);
/* "f < g": the callers of the site in its largest stack; malloc'd, or NULL. */
char *heap_callers(const struct heap *heap, const struct heap_site *site);

/* Members of JSON reports of any recording: "run" and "missing", each without a trailing comma. */
void heap_put_run(struct buf *b, const struct recording *rec);
void heap_put_missing(struct buf *b, const struct recording *rec);
/* "stack":[...] of a named stack; FRAMES of HEAP_MAX_FRAMES. */
void heap_put_frames(struct buf *b, const struct heap *heap, uint32_t stack,
                     const struct symbol_frame **frames);
/* "program (pid 4711) | 2.4s | exit status 0" */
void heap_print_program(FILE *out, const struct recording *rec);
/* Notices about the file itself, and about names that could not be resolved. */
void heap_notice_reading(const struct recording *rec);
void heap_notice_symbols(const struct heap *heap);

/* "FILE | COMMAND", shortened to fit. */
void heap_print_source(FILE *out, const struct recording *rec, const struct report_options *o);
/* The largest resident size of all snapshots; 0: unknown. */
uint64_t heap_resident(const struct recording *rec);
/* Prints a line if the heap is less than half of the resident size. */
void heap_print_resident(FILE *out, const struct recording *rec);
/* Explains truncated stacks and what to do about them. */
void heap_print_cut_short(FILE *out, const struct piano__heap_stats *s);
/* Whether less than half of the peak is live at the end. */
bool heap_is_past_peak(const struct heap *heap);
/* If so, prints the size of the peak and the command that shows it; for reports of live memory. */
void heap_print_past_peak(FILE *out, const struct heap *heap, const struct heap_options *h,
                          const struct report_options *o);
void heap_print_wrappers(FILE *out, const struct heap *heap, const struct report_options *o);

int heap_print_tree(FILE *out, const struct heap *heap, enum heap_by by,
                    const struct report_options *o);
int heap_print_leaks(FILE *out, const struct heap *heap, const struct report_options *o);
int heap_print_growth(FILE *out, const struct heap *heap, const struct heap_growth *g,
                      const struct report_options *o);
void heap_put_tree(struct buf *b, const struct heap *heap, enum heap_by by, int *err);
void heap_put_growth(struct buf *b, const struct heap *heap, const struct heap_growth *g);

#endif
