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
    uint32_t
        caller_frame; /* and which called it, of another function; HEAP_NO_FRAME: none counts */
};
#define HEAP_NO_FRAME UINT32_MAX

struct heap_site {
    const char *function, *file, *module; /* file may be NULL */
    unsigned line;
    const char *caller; /* the function that called it; NULL: none that counts */
    bool mmap;
    struct recording_sum sum;
    uint32_t stacks; /* how many */
    uint32_t best;   /* the one with most live bytes, else most allocated bytes */
};

enum { HEAP_SKIPS = 64 };

/* Functions that are wrappers of malloc, beside those that everybody knows. */
struct heap_skip {
    const char *patterns[HEAP_SKIPS]; /* of the shell; not owned */
    size_t count;
    bool none; /* not even the known ones */
};

struct heap {
    struct recording rec;
    struct symbols *symbols;
    struct heap_pc *pcs;
    size_t pc_count;
    struct heap_addresses *addresses; /* to find `pcs` by */
    struct heap_stack *stacks;        /* as in `rec` */
    struct heap_site *sites;
    size_t site_count;
    struct heap_skip skip;
    const char *wrapper; /* one that was passed over for a site; NULL: none was */
};

/* Which figure. Those from HEAP_BYS on are of CPU samples, in nanoseconds. */
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
/* A figure as text, TEXT of UNITS_LEN. */
const char *heap_figure_text(char *text, double figure, enum heap_by by);
double heap_figure(const struct recording_sum *sum, enum heap_by by);

/* Reads and names a recording; progress goes to stderr. 0, or negative errno with ERROR filled. */
int heap_load(struct heap *heap, const char *path, struct run_error *error);
/* Without a name yet: `heap_name_stack` gives them to those that are shown. */
int heap_open(struct heap *heap, const char *path, struct run_error *error);
/* Names the frames of STACK, once. 0 or -ENOMEM. */
int heap_name_stack(struct heap *heap, uint32_t stack);
void heap_unload(struct heap *heap);

/* What the module of the program itself is called: the last part of its path. */
const char *heap_program(const struct heap *heap);
/* NAME where it is one; of an address in PROGRAM that has none, "program+0x1139", only where it is: "+0x1139". So that
 * two recordings can be compared, whatever the files of their programs are called. */
const char *heap_name_within(const char *name, const char *program);

/* What has to be known besides the numbers, on stderr: see `report_notices`. */
void heap_notices(const struct heap *heap);

/* The frames of a stack, innermost first, into FRAMES of HEAP_MAX_FRAMES. A stack that is not known has
 * one. Returns how many. */
size_t heap_frames(const struct heap *heap, uint32_t stack, const struct symbol_frame **frames);

/* Assigns stacks to sites. 0 or -ENOMEM. */
int heap_make_sites(struct heap *heap);
/* The same again, with other wrappers passed over. */
int heap_resite(struct heap *heap, const struct heap_skip *skip);
/* Is this frame plumbing between a program and its memory? */
bool heap_is_plumbing(const struct symbol_frame *frame);
/* Is it a wrapper? */
bool heap_skip_is(const struct heap_skip *skip, const struct symbol_frame *frame);
/* Cuts what lies inside of the sites off the stacks. */
void heap_trim(struct heap *heap);
/* PATTERN has to stay. 0, or -E2BIG. */
int heap_skip_add(struct heap_skip *skip, const char *pattern);
/* Where the qualified name begins in a demangled one, behind a return type. */
const char *heap_qualified(const char *name);
/* Indices of all sites with a figure above 0, the greatest first; malloc'd, or NULL. */
uint32_t *heap_sorted(const struct heap *heap, enum heap_by by, size_t *count);

/* ---- reports ---- */

enum heap_mode { HEAP_SUMMARY, HEAP_TREE, HEAP_LEAKS, HEAP_GROWTH, HEAP_AT_PEAK };

struct heap_growth;

enum { HEAP_TO_END = -1, HEAP_NOT_GIVEN = -2 };

struct heap_options {
    enum heap_mode mode;
    enum heap_by by;
    bool by_given;                    /* and not by default */
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
    double from, to;        /* live bytes */
    double variance;        /* of the difference, at most */
    double per_second;      /* slope over the window */
    double correlation;     /* of live bytes with time; 0 when nothing moves */
    double late_per_second; /* slope over its later half */
    double late_range;      /* greatest less smallest there */
};

struct heap_growth {
    const struct recording_snapshot *from, *to; /* TO may be `end` */
    struct recording_snapshot end;              /* what the recording ended with */
    struct heap_growth_row *rows;               /* greatest change first */
    size_t count;
    const struct recording_snapshot **window; /* what the trend is over, by time */
    size_t points;                            /* how many */
    size_t late;                              /* from here on, the later half */
};

/* 0, or negative errno with ERROR filled: fewer than two moments, a number that is not there. */
int heap_growth_make(struct heap_growth *g, const struct heap *heap, const struct heap_options *h,
                     struct run_error *error);
void heap_growth_release(struct heap_growth *g);
/* "grows", "grew, then flat", "shrinks", "shrank, then flat", "varies", "flat", or NULL with too few snapshots. */
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

/* Members of JSON reports of any recording: "run" and "missing", each without a comma behind it. */
void heap_put_run(struct buf *b, const struct recording *rec);
void heap_put_missing(struct buf *b, const struct recording *rec);
/* "stack":[...] of a named stack; FRAMES of HEAP_MAX_FRAMES. */
void heap_put_frames(struct buf *b, const struct heap *heap, uint32_t stack,
                     const struct symbol_frame **frames);
/* "program (pid 4711) | 2.4s | exit status 0" */
void heap_print_program(FILE *out, const struct recording *rec);
/* Notices about the file itself, and about names that could not be had. */
void heap_notice_reading(const struct recording *rec);
void heap_notice_symbols(const struct heap *heap);

/* "FILE | COMMAND", as short as it must be. */
void heap_print_source(FILE *out, const struct recording *rec, const struct report_options *o);
/* The largest resident size of all snapshots; 0: not known. */
uint64_t heap_resident(const struct recording *rec);
/* A line when the heap is less than half of what was resident. */
void heap_print_resident(FILE *out, const struct recording *rec);
/* What it means that stacks are cut short, and what to do. */
void heap_print_cut_short(FILE *out, const struct piano__heap_stats *s);
/* Is less than half of the peak live at the end? */
bool heap_is_past_peak(const struct heap *heap);
/* Then, below a report of what is live, where the rest is. */
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
