/* A recording in memory: what `src/common/recording.h` describes, checked, with every sum a number
 * that can be added up. Nothing here has names yet; see `tool/report/heap.h`. */
#ifndef PIANO_TOOL_LOAD_RECORDING_H
#define PIANO_TOOL_LOAD_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/recording.h"
#include "tool/load/run.h"

struct recording_module {
    char *path;
    uint64_t start, end, bias;
    uint32_t since, until;
    uint8_t build_id[32];
    size_t build_id_len;
};

/* What the samples of one stack, of one site, or of all of them add up to. */
struct recording_sum {
    uint64_t samples, freed_samples;
    double allocated_bytes, allocated_objects, allocated_variance;
    double freed_bytes, freed_objects, freed_variance;
    double live_bytes, live_objects, live_variance;
    double peak_bytes, peak_objects; /* live when all of the program had its peak */
    uint64_t lifetimes[PIANO_LIFETIMES];
    /* From the records of sampled blocks that are not freed. */
    uint64_t live_samples;
    double live_seen_bytes; /* their sizes, not weighed */
    uint64_t size_min, size_max;
    uint64_t oldest_ns, newest_ns; /* births, CLOCK_MONOTONIC; 0 when there are none */
};

struct recording_stack {
    uint32_t flags;
    uint32_t depth;
    uint64_t generation;
    const uint64_t *pcs; /* innermost first; in the mapped file */
    struct recording_sum sum;
};

struct recording_entry {
    uint32_t stack; /* index in `stacks` */
    uint32_t live_samples;
    double live_bytes, live_objects, live_variance, allocated_bytes;
};

struct recording_snapshot {
    uint32_t number, kind;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    double live_bytes, allocated_bytes;
    uint64_t resident_bytes; /* 0: unknown */
    struct recording_entry *entries;
    size_t count;
};

/* Something that is not in the file, or cannot be used. */
struct recording_gap {
    uint64_t from, to; /* bytes of the file; TO 0: at FROM */
    const char *what;
};

enum recording_end {
    RECORDING_RUNNING, /* the program is there, and has the file mapped */
    RECORDING_EXITED,  /* `status` is its exit status, or -1: not known */
    RECORDING_KILLED,  /* `status` is the signal */
    RECORDING_UNKNOWN, /* gone without a word */
};

enum { RECORDING_GAPS = 16, RECORDING_TYPES = 8 };

struct recording {
    char *path;
    const char *map; /* the whole file */
    size_t map_len;
    struct piano__rec_header header; /* a copy; texts terminated, doubles finite */
    enum recording_end end;
    int status;
    int64_t duration_ns;   /* -1: unknown */
    bool duration_atleast; /* up to the last thing seen, not to the end */
    uint64_t end_ns;       /* CLOCK_MONOTONIC that ages are counted to */
    bool foreign;          /* of another user */

    struct recording_module *modules; /* by start, then since */
    size_t module_count;
    /* Entry 0 is what has no stack, or one that the file does not hold. */
    struct recording_stack *stacks;
    size_t stack_count;
    struct recording_sum total;           /* over all stacks */
    struct recording_snapshot *snapshots; /* whole ones, by number */
    size_t snapshot_count;

    struct recording_gap gaps[RECORDING_GAPS]; /* the first ones */
    size_t gap_count;                          /* all */
    uint64_t unknown_chunks;                   /* of types that are not known */
    uint64_t unfinished_chunks;                /* claimed and never made ready */
    uint64_t partial_snapshots;
    uint64_t merged_stacks;
    uint64_t bad_numbers; /* not finite, negative or beyond reason: taken as 0 */
    uint64_t bad_number_at;
    uint64_t orphans;     /* samples whose stack is not in the file */
    uint64_t read_chunks; /* used */
};

/* Does PATH hold a recording, or is it at least named like one? */
bool recording_is(const char *path);
/* Does the ending of NAME say so (`.rec`, and `.rec.2`, `.rec-PID` of further processes)? */
bool recording_named(const char *name);

/* Only the header and how it ended; what has to do with chunks stays empty. 0, or negative errno with
 * ERROR filled. */
int recording_peek(struct recording *rec, const char *path, struct run_error *error);
/* All of it. */
int recording_load(struct recording *rec, const char *path, struct run_error *error);
void recording_unload(struct recording *rec);

void recording_sum_add(struct recording_sum *to, const struct recording_sum *more);
/* 95 % interval of live (or allocated) bytes of SUM, which is of REC: never below what was really seen. With
 * no sample at all it reaches up to what escapes sampling 2.5 times in 100. */
void recording_live_interval(const struct recording *rec, const struct recording_sum *sum,
                             double *low, double *high);
void recording_allocated_interval(const struct recording *rec, const struct recording_sum *sum,
                                  double *low, double *high);
/* Of freed samples, how many lived less than 2^BUCKET microseconds. */
uint64_t recording_freed_within(const struct recording_sum *sum, unsigned bucket);
/* Median lifetime of freed samples in nanoseconds, interpolated in its bucket; -1 without any. */
int64_t recording_median_life(const struct recording_sum *sum);
/* What is freed within about a millisecond, in bytes: freed bytes by the share of such samples. */
double recording_churn(const struct recording_sum *sum);
/* The module PC was in at GENERATION, or NULL. */
const struct recording_module *recording_module_of(const struct recording *rec, uint64_t pc,
                                                   uint64_t generation);

#endif
