/* A recording that is read again and again while it is written: for `piano top`.
 *
 * Each reading makes a picture, which contains everything that is shown and refers to nothing else.
 * Its figures come from the same functions as those of the reports. Rates are the difference to the
 * reading before.
 *
 * A reading costs little, whatever the length of the recording: the tables of the heap are small,
 * and of the samples only new ones are read. Polls need all events. So they are read seldom, and
 * the picture says how old they are. `live_patience` says when the next reading may be, so that the
 * reader takes at most one hundredth of a CPU. */
#ifndef PIANO_TOOL_PROFILE_LIVE_H
#define PIANO_TOOL_PROFILE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/load/recording.h"
#include "tool/symbol/strings.h"

enum {
    LIVE_ROWS = 4096, /* of a list, at most */
    LIVE_LONGEST = 20,
    LIVE_STACKS = 3, /* of a row, in its detail */
};

/* Times since the last reading and so far. */
struct live_times {
    uint64_t cpu_ns, off_ns;
};

struct live_function {
    const char *function, *module;
    struct live_times now, all; /* `cpu_ns`: self; `off_ns`: in it and its callees */
    uint64_t total_now_ns, total_ns;
    uint64_t samples; /* self, so far */
};

struct live_site {
    const char *function, *caller, *file; /* CALLER and FILE may be NULL */
    unsigned line;
    bool mmap;
    double live_bytes, live_objects, allocated_bytes;
    double growth, allocated; /* bytes a second since the last reading */
    const char *trend;        /* of the whole recording, see `heap_trend`; NULL: unknown */
};

struct live_thread {
    const char *name; /* may be empty */
    uint32_t pid, tid;
    struct live_times now, all;
};

struct live_group {
    const char *name;
    uint64_t polls, long_polls, max_ns, total_ns;
    int64_t p50_ns, p99_ns;
    double on_cpu; /* negative: unknown */
};

struct live_poll {
    const char *name, *thread;
    uint64_t at_ns; /* since the start of the recording */
    int64_t duration_ns;
    double on_cpu; /* negative: unknown */
    bool open;
    const char *stacks; /* lines */
};

/* What is shown of a row when it is chosen. */
struct live_choice {
    enum { LIVE_NO_ROW, LIVE_FUNCTION, LIVE_SITE, LIVE_THREAD } kind;
    const char *name, *other; /* function and module; function and caller */
    unsigned line;
    uint32_t tid;
};

struct live_picture {
    struct strings texts; /* all texts below; not yet safe to show */
    const char *program;
    uint32_t pid;
    enum recording_end end;
    int status;
    unsigned instruments;
    uint64_t at_ns;  /* CLOCK_MONOTONIC of the reading */
    double span_s;   /* since the last reading; 0: there are no rates */
    int64_t wall_ns; /* -1: unknown */
    double live_bytes, live_low, live_high, live_objects;
    double growth;     /* bytes a second since the last reading */
    uint64_t lost;     /* samples, allocations and events that could not be recorded */
    uint64_t given_up; /* samples and chunks of events that were overwritten */
    uint64_t cpu_ns;   /* of all samples since the last reading */
    uint64_t all_cpu_ns;
    bool has_waits; /* times off the CPU are known */

    struct live_function *functions; /* most self time first */
    struct live_site *sites;         /* most live bytes first */
    struct live_thread *threads;
    struct live_group *groups; /* most time first */
    struct live_poll *longest;
    const char **flags; /* safe to show */
    size_t function_count, site_count, thread_count, group_count, longest_count, flag_count;
    bool has_polls;
    uint64_t polls, polls_at_ns; /* CLOCK_MONOTONIC of the reading of polls */
};

struct live;

/* PATH: a recording, which may not exist yet. NULL: out of memory. */
struct live *live_new(const char *path);
void live_free(struct live *l);
/* Makes a picture. 0, or negative errno with ERROR filled; -EAGAIN: there is no recording yet. */
int live_read(struct live *l, struct live_picture *to, struct run_error *error);
/* The detail of a row at the last reading: lines, malloc'd; NULL: none. */
char *live_detail(struct live *l, const struct live_choice *choice);
/* Seconds until the next reading may begin, at least LEAST_S. */
double live_patience(const struct live *l, double least_s);
/* The file that was read last. */
const char *live_path(const struct live *l);

void live_picture_release(struct live_picture *p);

/* ---- what is shared by the files that make it ---- */

struct cpu;
struct cpu_flat;
struct profile;
struct polls;

/* A figure of a row at the last reading. */
struct live_before {
    struct map of; /* by a hash of the names of a site */
    struct live_was {
        double live_bytes, allocated_bytes;
    } * list;
    size_t count, cap;
};

/* All return 0 or -ENOMEM. NOW: NULL if there are no rates. */
int live_functions(struct live_picture *to, const struct cpu_flat *now, const struct cpu_flat *all);
int live_sites(struct live_picture *to, struct profile *p, struct live_before *before);
int live_threads(struct live_picture *to, const struct cpu *c, const struct recording_seen *seen);
int live_polls(struct live_picture *to, struct polls *p);
/* Copies the polls of FROM. */
int live_polls_again(struct live_picture *to, const struct live_picture *from);
char *live_detail_of(const struct live_choice *choice, struct profile *p, struct cpu *c);
/* Adds the frames of a stack, one per line. */
struct buf;
void live_put_stack(struct buf *b, const struct profile *p, uint32_t stack);

#endif
