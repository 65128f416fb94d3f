/* Analysis of the events of a recording: polls, polled tasks, latencies, and problems;
 * docs/polls.md.
 *
 * A single pass over the events in order of time computes everything. It keeps sums, percentiles
 * and the longest polls, but no events. CPU samples and times off the CPU are joined by thread
 * and time: the pass takes the running sums at the begin and end of a poll, and their difference
 * belongs to the poll. */
#ifndef PIANO_TOOL_PROFILE_POLLS_H
#define PIANO_TOOL_PROFILE_POLLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/recording.h"
#include "tool/load/samples.h"
#include "tool/profile/profile.h"
#include "tool/profile/stretch.h"
#include "tool/util/map.h"

enum {
    POLLS_LONG_NS = 10 * 1000000,
    POLLS_VERY_LONG_NS = 50 * 1000000,
    POLLS_LATE_NS = 5 * 1000000,
    POLLS_STARVED_NS = 5 * 1000000,
    POLLS_BLOCKED_NS = 10 * 1000000, /* a smaller sum over all polls of a task is not reported */
    POLLS_AWAY_NS = 100 * 1000,      /* shorter times off the CPU are not recorded */
    POLLS_LOOP_PARKS = 4,            /* a thread with this many parks of a kind has a loop */
    POLLS_MAX_DEPTH = 64,            /* nested polls */
    POLLS_MAX_TASKS = 1 << 20,       /* alive at the same time */
    POLLS_MAX_GROUPS = 1 << 18,
    POLLS_MAX_SERIES = 1 << 16, /* queues, values, marks */
    POLLS_MAX_LONGEST = 4096,
    POLLS_TOP = 10,
    POLLS_QUARTERS = 4,
};

/* Sums over a range of a thread's time. */
struct polls_time {
    uint64_t cpu_ns, cpu_samples; /* from CPU samples */
    uint64_t off_ns;              /* off the CPU, for any reason */
    uint64_t preempted_ns;        /* part of off_ns: another thread ran */
    uint64_t waited_ns;           /* in parking calls during a poll */
};

enum polls_kind { POLLS_TASK, POLLS_PLACE, POLLS_CALLBACK, POLLS_LOOP, POLLS_UNNAMED };

/* Polls with one name: of all tasks spawned with it, of a callback, or of a thread's loop. */
struct polls_group {
    enum polls_kind kind;
    uint64_t key; /* number of the name or the track */
    char *name;   /* not yet safe to show */
    uint64_t polls, open, nested;
    uint64_t total_ns, max_ns;
    uint64_t long_polls, very_long; /* LONG includes VERY_LONG */
    struct polls_time time;
    struct samples durations, wakes;
    uint64_t woken, late, latest_ns;
    uint64_t spawned, ended;
};

#define POLLS_NO_GROUP UINT32_MAX

struct poll {
    uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
    uint64_t task;             /* 0 for a loop */
    uint32_t track, group;
    uint32_t depth;      /* number of polls around it */
    bool open;           /* not finished when the recording ended: END is the last known time */
    bool woken, spawned; /* what `cause_ns` refers to */
    uint64_t cause_ns;   /* time of the last wake, or of the spawn if it was never polled before */
    uint32_t waker_track, waker_group; /* origin; GROUP may be POLLS_NO_GROUP */
    uint64_t waker_task;
    uint64_t returned; /* for a loop: 1 + the return value of its wait; 0: unknown */
    struct polls_time time;
};

/* A figure over time, and its mean in each quarter of the time since its first value. */
struct polls_series {
    uint64_t key;
    uint64_t count;
    uint64_t start_ns, since_ns;
    int64_t value, first, max, min;
    bool has_value; /* `value` is set, perhaps by an event before the range */
    double area[POLLS_QUARTERS];
    double covered[POLLS_QUARTERS]; /* nanoseconds with a value */
};

/* Figures that the program reports, and what a report says about each: X(kind, key in JSON, key of
 * one of them if it is a number (else it is a name), has values, has means of the quarters). */
#define POLLS_SERIES_LIST(X)                                                                       \
    X(POLLS_QUEUES, "queues", "queue", true, true)                                                 \
    X(POLLS_VALUES, "values", NULL, true, false)                                                   \
    X(POLLS_MARKS, "marks", NULL, false, false)

#define POLLS_SERIES_KIND(kind, key, number, values, quarters) kind,
enum polls_series_kind { POLLS_SERIES_LIST(POLLS_SERIES_KIND) POLLS_SERIES_KINDS };

struct polls_series_list {
    struct polls_series *list; /* by first value */
    size_t count, cap;
    struct map of;
};

/* Names of enum piano__park. */
extern const char *const polls_park_names[PIANO_PARKS];

/* A thread with events. */
struct polls_track {
    uint32_t tid;
    char name[17];
    bool is_worker;
    uint64_t worker, worker_name;
    int loop; /* enum piano__park that its loop waits in; -1: no loop */
    uint64_t events, polls, busy_ns;
    uint64_t longest_ns;         /* of its polls */
    struct polls_time busy_time; /* of polls that are not nested */
    uint64_t parks, parked_ns, park_max_ns;
    uint64_t parked_by[PIANO_PARKS];
    struct polls_time park_time;
    uint64_t park_cpu_ns;                /* of parks with known CPU time */
    uint64_t starved_ns, starved_max_ns; /* parked while a queue was not empty */
    uint64_t last_ns;                    /* last event or sample */

    /* Used during the pass over the events. */
    struct poll *stack;
    size_t depth, stack_cap;
    bool in_turn, parked;
    struct poll turn;
    uint64_t park_ns, park_queued;
    uint64_t
        moved_ns; /* by how much `park_ns` is later than the park, which began before the range */
    event_park park_kind;
    struct polls_time park_mark;
    struct polls_time stop; /* at the end of the range */
    uint64_t waited_ns;
    size_t sample, sample_end;
    struct polls_time passed; /* sums of whole samples so far */
    uint64_t away_from, away_to;
    bool away_preempted;
};

/* A worker on a thread; it gets another entry when it moves. */
struct polls_worker {
    uint64_t worker, name;
    uint32_t track;
    uint64_t from_ns, to_ns; /* TO 0: until the end */
};

struct polls_task {
    uint64_t id;
    uint64_t spawn_ns, wake_ns; /* 0: none */
    uint64_t waker_task;
    uint32_t waker_track, waker_group, spawner_track, spawner_group;
    uint32_t group; /* or POLLS_NO_GROUP */
    bool polled, spawned;
};

struct polls {
    struct profile *profile;
    const struct recording *rec;
    uint64_t start_ns, end_ns;
    struct range range;
    bool is_in, is_past;  /* the pass has reached the range; it has left it */
    uint64_t events;      /* in the range */
    uint64_t queued_stop; /* queued_until() the end of the range */

    struct polls_track *tracks; /* in the order of the recording */
    struct polls_group *groups;
    size_t group_count, group_cap;
    struct map group_of;
    struct polls_task *tasks;
    size_t task_count, task_cap;
    struct map task_of;
    struct polls_worker *workers;
    size_t worker_count, worker_cap;
    struct polls_series_list series[POLLS_SERIES_KINDS];
    struct polls_series alive; /* tasks spawned and not ended */
    bool alive_known;          /* else spawns or ends may have been overwritten */

    struct poll *longest; /* longest first, after the pass */
    size_t longest_count, longest_max;
    struct samples wakes, spawns; /* latencies */
    uint64_t wake_count, late, latest_ns;
    struct poll latest;
    uint64_t polls, open, stray_ends, too_deep, untracked;
    uint64_t cut; /* polls whose end was overwritten or dropped: in no other figure */
    uint64_t long_polls, very_long;
    uint64_t queued;    /* current depth of all queues together */
    uint64_t queued_ns; /* time so far in which it was not 0 */
    uint64_t queued_since;
    bool is_live;       /* the recording grows: a trend is not known yet */
    bool is_partial;    /* some threads were not read: nothing is known about wakes and queues */
    size_t track_count; /* allocated */
    bool exact;         /* the recording has times off the CPU */
    bool sampled;
    const struct polls_listener *listener;
};

/* Callbacks that polls_go() invokes during the pass. Any may be NULL. */
struct polls_listener {
    void (*poll)(void *ctx, const struct polls *p, const struct poll *poll);
    void (*park)(void *ctx, const struct polls *p, uint32_t track, uint64_t to_ns);
    void (*event)(void *ctx, const struct polls *p, const struct recording_event *e);
    void *ctx;
};

/* Prepares P for the events of PROFILE, which must outlive it. Keeps at most LONGEST polls. 0, or
 * negative errno with ERROR filled. */
int polls_start(struct polls *p, struct profile *profile, size_t longest, struct run_error *error);
/* Runs the pass over the events. 0 or -ENOMEM. */
int polls_go(struct polls *p, const struct polls_listener *listener);
/* Does both. */
int polls_make(struct polls *p, struct profile *profile, size_t longest, struct run_error *error);
void polls_release(struct polls *p);

/* ---- while the program runs (polls_live.c) ---- */

/* Prepares P for the events of REC, a recording that grows (load/follow.h). PROFILE is empty. 0 or
 * -ENOMEM. */
int polls_live_start(struct polls *p, struct profile *profile, const struct recording *rec);
/* Takes the new events of the recording. IS_PARTIAL: some threads were not read. 0 or -ENOMEM. */
int polls_live_go(struct polls *p, bool is_partial);
/* Forgets the figures so far, but not the tasks and what is open. */
void polls_live_forget(struct polls *p);
/* Copies the poll that is open for the longest time, with AT_NS as its end, to *POLL. False: none is
 * open. Leaves out turns of loops: a thread may end in one without a sign. */
bool polls_live_open(const struct polls *p, uint64_t at_ns, struct poll *poll);

/* Returns how long before the end the events are complete, in *NS: older ones were overwritten.
 * False if none were, or if the time is unknown. */
bool polls_covers(const struct polls *p, uint64_t *ns);
/* Share of TOTAL_NS on the CPU; negative: unknown. */
double polls_on_cpu(const struct polls *p, const struct polls_time *time, uint64_t total_ns);
/* Time off the CPU, except while another thread ran. If the recording has no times off the CPU:
 * time in parking calls. */
uint64_t polls_blocked(const struct polls *p, const struct polls_time *time);
int64_t polls_duration(const struct poll *poll);
/* Groups by total time, largest first; malloc'd indices, or NULL. */
uint32_t *polls_sorted(const struct polls *p, size_t *count);

/* ---- what is shared by the files that make it ---- */

/* Sums of a thread up to AT_NS, which must not decrease between calls. */
struct polls_time polls_until(struct polls *p, struct polls_track *t, uint64_t at_ns);
struct polls_time polls_between(const struct polls_time *from, const struct polls_time *to);
void polls_time_add(struct polls_time *to, const struct polls_time *more);
/* Nanoseconds up to AT_NS in which some queue was not empty. */
uint64_t polls_queued_until(const struct polls *p, uint64_t at_ns);
/* Allocates the tracks that are new. 0 or -ENOMEM. */
int polls_start_tracks(struct polls *p);
int polls_take(struct polls *p, const struct recording_event *e);
void polls_cut(struct polls *p, struct polls_track *t); /* events of T are missing */
/* The pass is at AT_NS: enters or leaves the range. */
void polls_pass_edges(struct polls *p, uint64_t at_ns);
/* Adds a poll to its group and to the longest polls. 0 or -ENOMEM. */
int polls_note(struct polls *p, const struct poll *poll);
uint32_t polls_group(struct polls *p, enum polls_kind kind, uint64_t key); /* or POLLS_NO_GROUP */
/* Writes the name of a callback or task, with its function if the name has an address. */
void polls_put_callback(struct buf *b, const struct polls *p, const char *name);
/* The module of the address in NAME, and the address in *PC; NULL: none. */
const struct recording_module *polls_callback_at(const struct recording *rec, const char *name,
                                                 uint64_t *pc);
struct polls_task *polls_task_of(struct polls *p, uint64_t id, bool make); /* or NULL */
void polls_task_gone(struct polls *p, uint64_t id);
/* NULL: beyond POLLS_MAX_SERIES, or out of memory; counted. */
struct polls_series *polls_series_of(struct polls *p, enum polls_series_kind kind, uint64_t key);
void polls_series_set(const struct polls *p, struct polls_series *s, uint64_t at_ns, int64_t value);
/* A range begins at AT_NS: forgets all but the current value. */
void polls_series_carry(struct polls_series *s, uint64_t at_ns);
void polls_series_end(const struct polls *p, struct polls_series *s);
double polls_series_mean(const struct polls_series *s, int quarter); /* negative: unknown */
/* Whether the mean grows from quarter to quarter, and the last is at least twice the first and
 * LEAST more. */
bool polls_series_grows(const struct polls_series *s, double least);

/* ---- what is wrong ---- */

enum polls_flag_kind {
    POLLS_FLAG_LONG,
    POLLS_FLAG_LATE,
    POLLS_FLAG_STARVED,
    POLLS_FLAG_QUEUE,
    POLLS_FLAG_TASKS,
    POLLS_FLAG_BLOCKED,
    POLLS_FLAG_CONTENTION,
};

extern const char *const polls_flag_names[]; /* "long-polls", ... */

struct polls_flag {
    enum polls_flag_kind kind;
    char text[400]; /* safe to show */
    uint64_t count;
    uint64_t worst_ns;
    const char *subject; /* a group or a thread, not yet safe to show; or NULL */
};

struct polls_flags {
    struct polls_flag *list;
    size_t count, cap;
};

int polls_flags_make(struct polls_flags *f, const struct polls *p);
void polls_flags_release(struct polls_flags *f);

/* ---- stacks of a poll ---- */

/* Stacks of KIND (enum piano__sample_kind) in POLL: see stretch.h. */
struct stretch_stack *polls_stacks(struct polls *p, const struct poll *poll, unsigned kind,
                                   size_t *count);

/* The name of a thread: its worker's, its own, or its number. TEXT of SIZE, safe to show. */
const char *polls_thread_name(char *text, size_t size, const struct polls *p, uint32_t track);

#endif
