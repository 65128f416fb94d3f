/* A run in memory, independent of the file format: functions with sums and percentiles, frames as
 * compact records, threads, and how completely the file was read.
 *
 * The figures of single functions per frame are not stored. `run_frame_functions` reads them again
 * from the file, which stays mapped. */
#ifndef PIANO_TOOL_LOAD_RUN_H
#define PIANO_TOOL_LOAD_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/range.h"
#include "tool/load/samples.h"
#include "tool/util/buf.h"

#define RUN_NO_FN UINT32_MAX

/* Sums of one function, over the run, a thread or a frame. Saturating. */
struct tally {
    int64_t calls;
    int64_t timed; /* number of these calls that were timed */
    int64_t self_ns;
    int64_t total_ns; /* valid when has_total */
    int64_t alloc_count;
    int64_t alloc_bytes;
    int64_t free_count;
    int64_t free_bytes;
    int64_t looked_ns; /* how long the watcher found a thread in the function */
    double looked_var; /* ns squared: variance of looked_ns; 0 in files without it */
    int64_t held_ns;   /* the part of looked_ns between two looks that met the same call */
    int64_t
        unwatched_ns;  /* of the self time, what was before the watcher ran: timed, not estimated */
    double looked_sys; /* ns: how far that may be off in the same direction in every line */
    int64_t probes_ns; /* probe cost subtracted from its self time */
    double self_var;   /* ns squared: the variance of self_ns, see estimates.h */
    double self_sys;   /* ns: how far self_ns may be off in the same direction in every line */
    double self_cal; /* ns: the same of the calibration of timed calls; in intervals, no estimate */
    double
        self_probes; /* ns: the same of the cost of counted calls; equal in all runs of a program */
    double total_var;
    int64_t max_ns; /* the longest of the timed calls, when has_max and not lacks_max */
    bool has_max;
    bool lacks_max;  /* a line with timed calls did not give it */
    int64_t wait_ns; /* part of the self time known to be off the CPU */
    int64_t runq_ns; /* part of wait_ns spent waiting for a CPU */
    bool has_cpu;    /* some line gave its CPU time: a call was checked */
    bool disputed;   /* samples and looks disagree beyond their intervals */
    bool has_total;  /* every line that named the function gave its total */
    bool seen;
};

struct run_fn {
    char *name;
    char *place; /* "src/game.c:12" as in the file; NULL when the file has none */
    char *file;  /* file and line of `place`; NULL and 0 if unknown */
    int64_t line;
    bool alias;        /* a second id of another row: holds nothing, is never shown */
    uint32_t namesake; /* 0: the only one of its name; else its number among them, from 1 */
    struct tally sum;
    struct samples frames; /* self_ns in each frame it appears in */
    uint64_t listed;       /* number of these frames with a line of their own */
    int64_t p50_ns;
    int64_t p99_ns;      /* both valid when frames.count > 0 */
    int64_t worst_ns;    /* the longest single call; -1: not known */
    int64_t worst_frame; /* index into frames; -1: not known, or in none */
};

struct run_frame {
    uint64_t at; /* offset of its line */
    int64_t start_ns;
    int64_t wall_ns;
    int64_t alloc_count;
    int64_t alloc_bytes;
    uint32_t thread;
    uint32_t root : 31; /* index into fns; RUN_NO_ROOT when the file does not say */
    uint32_t spike : 1;
    uint32_t fold;   /* 1 + index into folds, 0: none */
    uint32_t turn;   /* 1 + index into turns, 0: the frame is one call */
    uint32_t why;    /* enum run_why, of a spike */
    int64_t cpu_ns;  /* -1: not known */
    int64_t runq_ns; /* of the rest, waiting for a CPU; -1: not known */
};

/* Main cause of a spike's time beyond the median, or beyond the budget if that is less, if it was
 * not the program's own work. */
enum run_why {
    RUN_WHY_WORK,    /* or unknown */
    RUN_WHY_RUNQ,    /* waited for a CPU */
    RUN_WHY_BLOCKED, /* slept, or waited for something else */
    RUN_WHY_OFF      /* one of the two */
};

#define RUN_NO_ROOT 0x7fffffffu

/* A frame from begin to begin of the function that starts a cycle of calls, see turns.c. */
struct run_turn {
    uint64_t at;        /* offset of the line of its first call */
    int64_t took_ns;    /* from begin to end by the clock */
    int64_t wall_ns;    /* the same without the cost of measuring */
    int64_t between_ns; /* part of wall_ns outside its calls */
    uint32_t caller;    /* index into fns, or RUN_NO_FN: not measured */
};

/* Further lines of a frame: deeper ones, and the other calls of a turn. */
struct run_fold {
    uint64_t *lines; /* offsets */
    size_t count;
    size_t line; /* index of the frame's own line, while the file is read */
};

/* One moment by both clocks: AT_NS as in frames, and CLOCK_MONOTONIC. */
struct run_pair {
    int64_t at_ns, mono_ns;
};

struct run_thread {
    uint32_t number; /* first: the list is sorted by it */
    int64_t tid;     /* 0: unknown */
    char *name;      /* or NULL */
    int64_t start_ns;
    int64_t end_ns;         /* -1: not known to have ended */
    uint32_t parent_thread; /* 0: none */
    uint32_t parent_fn;     /* index into fns, or RUN_NO_FN */
    int64_t cpu_wall_ns;    /* of its life, what the next two are about; 0: nothing is known */
    int64_t cpu_ns;
    int64_t runq_ns; /* waiting for a CPU; -1: not known */
    struct run_thread_fn {
        uint32_t fn;
        struct tally sum;
    } * fns; /* only when asked for */
    size_t fn_count;
};

/* Frames of one root function: what "slow" is measured against. */
struct run_group {
    uint32_t root;   /* or RUN_NO_ROOT */
    uint32_t caller; /* of turns, as in struct run_turn */
    bool turn;       /* the frames are turns that ROOT starts */
    int64_t between_sum;
    int64_t count; /* merged ones included */
    int64_t merged;
    int64_t wall_sum;
    int64_t wall_max;
    int64_t p50_ns;
    int64_t p99_ns;
    int64_t spikes;      /* above the budget, or twice the median */
    int64_t spikes_runq; /* of these, why: RUN_WHY_RUNQ */
    int64_t cpu_frames;  /* frames of which the CPU time is known, and their sums */
    int64_t cpu_wall_ns;
    int64_t cpu_ns;
    int64_t runq_ns;
    bool no_runq;   /* run queue wait is unknown for some of these */
    uint64_t *hist; /* of the merged ones, numbered as in common/hist.h; NULL when none */
};

enum run_drop {
    RUN_DROP_FRAMES,
    RUN_DROP_THREADS,
    RUN_DROP_FUNCTIONS,
    RUN_DROP_DEPTH,
    RUN_DROP_WRITE,
    RUN_DROP_BUSY,
    RUN_DROP_ALLOCATORS, /* not 0: allocations are not known */
    RUN_DROP_KINDS
};

extern const char *const run_drop_names[RUN_DROP_KINDS];

struct run {
    char *path;
    char *run_id;   /* never NULL */
    char *program;  /* or NULL */
    char *frame_fn; /* or NULL */
    char *clock;    /* or NULL */
    int format;     /* 1 or 2 */
    int64_t timestamp_ms;
    int64_t pid;     /* 0: unknown */
    int64_t wall_ns; /* length of the run; -1 unknown */
    int64_t main_ns; /* part of wall_ns in functions of the run on the main thread; -1 unknown */
    uint64_t file_bytes;
    char *companion; /* the recording of the same process, see companion.h; NULL: none is known */

    struct run_pair *pairs; /* both values grow from pair to pair; may be empty */
    size_t pair_count;
    double last_slope; /* of the clocks, after the last pair */
    struct run_fn *fns;
    size_t fn_count;
    struct run_frame *frames; /* in order of start */
    size_t frame_count;
    struct run_fold *folds;
    size_t fold_count;
    struct run_turn *turns;
    size_t turn_count;
    struct run_thread *threads; /* by number */
    size_t thread_count;
    struct run_group *groups; /* most frames first */
    size_t group_count;
    struct run_group all; /* over every frame */

    int64_t dropped[RUN_DROP_KINDS];
    bool ended;     /* the program exited cleanly */
    bool recovered; /* lines came from the live file */
    bool by_piano;  /* written by piano's runtime, which would have marked its end */
    bool truncated; /* the last line was incomplete and was ignored */
    bool foreign;   /* the file belongs neither to its reader nor to the owner of its directory */
    bool wall_estimated; /* frames without wall_ns: the sum of self times stands in */
    uint64_t bad_lines;  /* unreadable, left out */
    uint64_t bad_first;  /* line number of the first of them */
    char *bad_why;       /* what was wrong there */
    uint64_t saturated;  /* numbers that did not fit 63 bits */

    /* The text of the run: the mapped file, then lines recovered from the live file. */
    const char *map;
    size_t map_len;
    size_t text_len; /* up to the last complete line */
    struct buf live;
    uint32_t *fn_of_id; /* id in the file -> row */
    size_t id_count;
    bool uncorrected;
    bool merged_selves; /* percentiles of functions count merged frames, to within 6 % */
    int64_t unlisted;   /* times a function was in a merged frame and its self time was not kept */
    int64_t budget_ns;  /* as in the options */
    struct range range; /* of `frames`; times as in frames */
    size_t frames_before, all_frames; /* frames with a line of their own: before it, and in all */
};

struct run_options {
    bool uncorrected;  /* self times as measured, without the correction for the probes */
    bool threads;      /* per-thread sums too */
    int64_t budget_ns; /* frames that took longer are spikes; 0: more than twice the median */
    /* Keeps only the frames that begin in it. Groups, and so spikes, are still those of the run. */
    struct range_asked range;
};

/* Why a file could not be loaded. */
struct run_error {
    char text[512];
    char hint[1024]; /* or empty */
};

/* Loads PATH; 0 or negative errno with ERROR filled. */
int run_load(struct run *run, const char *path, const struct run_options *options,
             struct run_error *error);
void run_unload(struct run *run);

/* One function in one frame. */
struct run_entry {
    uint32_t fn;
    struct tally sum;
    double left, moved; /* for estimates.c, while it settles a line */
};

/* Room for the functions of one frame, reused from frame to frame. Starts zeroed. */
struct run_scratch {
    struct run_entry *entries;
    size_t count;
    size_t cap;
    uint32_t *slot; /* per function: 1 + index into entries */
    size_t slots;
    struct run_scratch *line; /* a line by itself, before it is added to others */
};

/* Reads the figures of each function in FRAME; 0 or negative errno. */
int run_frame_functions(const struct run *run, const struct run_frame *frame,
                        struct run_scratch *scratch);
void run_scratch_release(struct run_scratch *scratch);

/* Returns how long FRAME took by the clock: its wall time plus the cost of measuring inside it. */
int64_t run_frame_took(const struct run *run, const struct run_frame *frame);

/* Returns CLOCK_MONOTONIC at AT_NS; -1 if the file has no clock pairs. */
int64_t run_mono(const struct run *run, int64_t at_ns);

/* A thread by number, or NULL. */
const struct run_thread *run_thread_find(const struct run *run, uint32_t number);

/* Returns the wall time of FRAME that was neither on the CPU nor waiting for one; -1: unknown. */
int64_t run_frame_blocked(const struct run_frame *frame);

/* Sums the time that threads of RUN waited for a CPU, and the wall time this refers to. Returns
 * false if unknown. Ignores threads that were blocked most of the time, unless all were. */
bool run_busy(const struct run *run, int64_t *runq_ns, int64_t *of_ns);

/* Returns the cost of the probes that was subtracted from self times; 0: the run does not say. */
int64_t run_probes(const struct run *run);
/* Whether it is known how long each thread that was measured waited for a CPU. */
bool run_knows_runq(const struct run *run);

void tally_add(struct tally *sum, const struct tally *more);
int64_t saturating_add(int64_t a, int64_t b);
/* Converts X to an integer, saturating; 0 for NaN. */
int64_t saturating_int(double x);

#endif
