/* Private to load/: the stages of reading an NDJSON run, in the order they run.
 *
 *   lines.c    every line's head, in parallel: an index of 56 bytes a line
 *   tables.c   header, function and thread tables, end line (serial, few lines)
 *   levels.c   which lines are frames, which fold into one, which only count to functions
 *   turns.c    frames that are turns of a cycle of calls
 *   sums.c     every line's functions (fns.c), in parallel: sums, percentiles, per-thread sums
 *   threads.c  threads by number
 *   clock.c    pairs of the run's clock and CLOCK_MONOTONIC
 *   worst.c    the longest call of each function and the frame it was in
 *   finish.c   order of frames, medians, spikes */
#ifndef PIANO_TOOL_LOAD_READER_H
#define PIANO_TOOL_LOAD_READER_H

#include "tool/load/run.h"
#include "tool/util/json.h"
#include "tool/util/map.h"

/* Order matters: lines from LINE_FRAME to LINE_PART have figures. */
enum line_kind {
    LINE_OTHER,
    LINE_CONTROL,
    LINE_DEMOTED,
    LINE_MERGED_FN, /* self times of a function in merged frames; `start_ns` is its id */
    LINE_FRAME,
    LINE_MERGED,
    LINE_OUTSIDE,
    LINE_PART,
    LINE_DEAD
};
enum line_role { ROLE_SUM, ROLE_FRAME, ROLE_FOLDED_FRAME, ROLE_MERGED };

struct line {
    uint64_t at;
    int64_t start_ns; /* INT64_MIN: not given; of a merged line, how many frames it stands for */
    int64_t wall_ns;  /* -1: not given */
    int64_t over_ns;  /* probe cost of the thread up to then; -1: not given */
    uint32_t thread;  /* 0: not given */
    uint32_t root;    /* id as in the file; RUN_NO_FN: not given; of a demoted line, which */
    uint32_t under;   /* id of the caller, likewise */
    uint32_t len;
    uint16_t depth;
    uint8_t kind;
    uint8_t role : 7;
    uint8_t rest : 1;  /* merged frames of several roots, none of which is given */
    uint32_t extra_ns; /* time by the clock beyond wall_ns, at most UINT32_MAX */
};

_Static_assert(sizeof(struct line) == 56, "a run of a million frames has a million of these");

struct reader {
    struct run *run;
    struct run_options options;
    struct line *lines;
    size_t line_count;
    uint32_t *fn_of_id; /* file id -> row in run->fns */
    size_t id_count;
    struct map known;   /* hash of (name, place) -> row */
    struct map threads; /* number -> index in run->threads */
    uint64_t bad_at;    /* offset of the first unreadable line; UINT64_MAX: none */
    const char *bad_why;
    uint64_t bad_count;
    uint64_t saturated;
    struct worst *worst;  /* by function; from sums.c to finish.c */
    uint32_t main_thread; /* its number; 0: unknown */
    size_t workers;
};

/* Returns the text at virtual offset AT (file, then live lines), and its remaining length. */
const char *reader_text(const struct run *run, uint64_t at, size_t *left);
void reader_bad(struct reader *r, uint64_t at, const char *why);

/* Calls WORK(ctx, i) for i < COUNT, each on its own thread if possible. */
void reader_parallel(size_t count, void (*work)(void *ctx, size_t i), void *ctx);
/* Tells the kernel that the mapped text FROM..TO was read and need not stay resident. */
void reader_forget(const struct run *run, uint64_t from, uint64_t to);

int lines_index(struct reader *r, uint64_t from);
int tables_header(struct reader *r, struct json *j);
int tables_control(struct reader *r);
/* Returns the thread of this number, creating it if needed; NULL when out of memory. */
struct run_thread *threads_get(struct reader *r, uint32_t number);
void threads_sort(struct run *run);
void tables_release(struct reader *r);
int levels_assign(struct reader *r);
/* The lines of one thread, in order, for turns.c. */
struct turns_lane {
    const size_t *lines;
    size_t count;
    uint32_t level;              /* the depth of its frames */
    uint32_t under;              /* row of their caller, or RUN_NO_FN */
    const size_t *demoted_until; /* by row: lines before this one are no frames; or NULL */
};
/* One turn. The lines of its fold are in order. */
struct turn {
    size_t line; /* of the call that starts it; first: the list is sorted by it */
    struct run_fold fold;
    struct run_turn sum;
};
struct turns {
    struct turn *list;
    size_t count, cap;
};
/* Appends the turns of LANE to TURNS and changes the roles of its lines. 0 or -ENOMEM. */
int turns_find(struct reader *r, const struct turns_lane *lane, struct turns *turns);
/* Sums the time of the turns of LANE without changing anything. Used before roles are known. */
int turns_time(struct reader *r, const struct turns_lane *lane, int64_t *ns);
/* Moves all TURNS to the run, with their folds, and empties TURNS. 0 or -ENOMEM. */
int turns_keep(struct reader *r, struct turns *turns);
void turns_release(struct turns *turns);
int sums_read(struct reader *r);
int finish_frames(struct reader *r);

/* Longest call of a function in the frames seen so far. */
struct worst {
    bool seen;
    int64_t ns;
    uint64_t at; /* offset of the frame */
};
/* Updates the longest calls from the frame at AT. WORST is indexed by function. */
void worst_see(struct worst *worst, const struct run_scratch *scratch, uint64_t at);
void worst_join(struct worst *worst, const struct worst *more, size_t fns);
/* Sets `worst_ns` and `worst_frame` of the functions. The frames must be sorted. 0 or -ENOMEM. */
int worst_settle(struct run *run, const struct worst *worst);

/* Sizes SCRATCH for FNS functions, empties it, and adds the functions of the line at J, which is
 * parsed strictly to its end. */
int fns_ready(struct run_scratch *scratch, size_t fns);
void fns_clear(struct run_scratch *scratch);
struct fns_head {
    int64_t depth, wall_ns, cpu_ns, runq_ns; /* of the frame; -1: not given */
    bool frame;                              /* the line is a frame line */
};
int fns_line(struct json *j, const struct run *run, struct run_scratch *scratch,
             struct fns_head *head);
/* Like `run_frame_functions`. Also sums into CALLS the calls of a turn whose CPU time is known. */
int fns_frame(const struct run *run, const struct run_frame *frame, struct run_scratch *scratch,
              struct fns_head *calls);

/* Numbers the functions that share a name. */
int tables_namesakes(struct run *run);
/* Adds one function and takes ownership of NAME and PLACE (may be NULL). */
int tables_add_fn(struct run *run, char *name, char *place);

/* Records that AT_NS of the run is MONO_NS; ignores invalid times. 0 or -ENOMEM. */
int clock_add(struct run *run, int64_t at_ns, int64_t mono_ns);
/* Makes the clock's line from the pairs. */
void clock_settle(struct run *run);

int v1_load(struct run *run, struct json *j);

#endif
