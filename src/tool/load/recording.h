/* A recording in memory: what `src/common/recording.h` describes, validated, with sums that can be
 * added up. Addresses have no names yet; see `tool/report/heap.h`. */
#ifndef PIANO_TOOL_LOAD_RECORDING_H
#define PIANO_TOOL_LOAD_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/recording.h"
#include "tool/load/event.h"
#include "tool/load/range.h"
#include "tool/load/run.h"
#include "tool/util/map.h"

struct recording_module {
    char *path;
    uint64_t start, end, bias;
    uint64_t since, until; /* generations; the upper 32 bits: number of the part */
    uint8_t build_id[32];
    size_t build_id_len;
};

/* Sums over the samples of one stack, one site, or all stacks. */
struct recording_sum {
    uint64_t samples, freed_samples;
    double allocated_bytes, allocated_objects, allocated_variance;
    double freed_bytes, freed_objects, freed_variance;
    double live_bytes, live_objects, live_variance;
    double untracked_bytes, untracked_objects; /* allocated, then not tracked */
    double peak_bytes, peak_objects;           /* live when the whole program had its peak */
    double peak_variance; /* upper bound: the variance of the peak is not recorded */
    uint64_t lifetimes[PIANO_LIFETIMES];
    /* From the records of sampled blocks that are not freed. */
    uint64_t live_samples;
    double live_seen_bytes; /* their sizes, unweighted */
    uint64_t size_min, size_max;
    uint64_t oldest_ns, newest_ns; /* births, CLOCK_MONOTONIC; 0 if there are none */
    /* From CPU samples and switches. */
    uint64_t cpu_samples, cpu_ns;
    double cpu_squares; /* sum of squared weights: upper bound of the variance of `cpu_ns` */
    uint64_t off_samples, off_ns; /* waited for something other than a CPU */
    uint64_t preempted_ns;
};

struct recording_stack {
    uint32_t flags;
    uint32_t depth;
    uint64_t generation; /* the upper 32 bits: number of the part */
    const uint64_t *pcs; /* innermost first; in the mapped file, or in `copies` of a part */
    uint64_t last_ns;    /* of its newest heap sample; 0: none */
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

/* Something that is missing from the file or unusable. */
struct recording_gap {
    uint64_t from, to; /* bytes of the file; TO 0: at FROM */
    const char *what;
};

enum recording_end {
    RECORDING_RUNNING, /* the program exists and has the file mapped */
    RECORDING_EXITED,  /* `status` is its exit status, or -1: unknown */
    RECORDING_KILLED,  /* `status` is the signal */
    RECORDING_UNKNOWN, /* no exit record */
};

/* A thread of the program, as the program or the tool named it. */
struct recording_thread {
    uint32_t tid, pid;
    char name[17]; /* may be empty */
};

struct recording_name {
    uint32_t id;
    char *text;
};

/* A code object of CPython. Equal texts are the same pointer. */
struct recording_code {
    uint32_t id; /* first: the list is sorted by it */
    uint32_t first_line;
    char *name, *file;    /* "?" if unknown */
    const uint8_t *table; /* of lines, in the mapped file; see common/python.h */
    size_t table_len;
};

/* Names of addresses, stored when the recording was made. */
struct recording_symbols;

/* A moment of a thread; see struct piano__sample in `common/recording.h`. */
struct recording_sample {
    uint64_t at_ns, value;
    uint32_t tid, pid;
    uint32_t stack; /* index in `stacks` */
    uint16_t kind, flags;
    uint32_t cpu;
};

/* A sampled block that is not freed. */
struct recording_block {
    uint64_t birth_ns; /* CLOCK_MONOTONIC */
    uint64_t size;
    double bytes, objects; /* what it stands for */
    uint32_t tid;
    uint32_t stack; /* index in `stacks` */
};

/* The events of one thread. */
struct recording_track {
    uint32_t tid;
    uint32_t part;        /* the file that has them; see struct recording_part */
    uint32_t segments;    /* how many, from `first` */
    uint32_t definitions; /* the last of them: definitions, in order of time for themselves */
    size_t first;
    uint64_t events;
    uint64_t polls;                  /* begun */
    uint64_t parks[PIANO_PARKS + 1]; /* by enum piano__park; unknown kinds last */
};

/* Consecutive events of one thread in a chunk. */
struct recording_segment {
    const char *from, *to; /* in the mapped file */
    uint64_t ticks;        /* of the event before */
    uint32_t track;
    bool defines;
    bool after_gap; /* events of the thread are missing before it */
};

/* At `ticks` of the events' clock, CLOCK_MONOTONIC was `ns`. */
struct recording_pair {
    uint64_t ticks, ns;
};

/* Piecewise linear through all pairs; both values grow from pair to pair. */
struct recording_clock {
    struct recording_pair *pairs;
    size_t count;
    double rate;  /* overall ns per tick */
    bool counter; /* else ticks are nanoseconds */
    bool rough;   /* the pairs are too close together for a reliable rate */
};

struct recording_events {
    struct recording_track *tracks; /* by first event */
    size_t track_count;
    struct recording_segment *segments; /* by track, definitions last, then order of events */
    size_t segment_count;
    struct recording_clock clock;
    uint64_t count;
    uint64_t unknown; /* events with unknown codes */
    uint64_t bad;     /* fields that do not fit their event */
    uint64_t first_ns, last_ns;
    uint64_t complete_ns; /* later events are all there; 0: all; UINT64_MAX: unknown */
};

/* A process of a recording of several (load/family.h). */
struct recording_process {
    uint32_t pid, parent;
    char *name;          /* not yet safe to show */
    char *program;       /* path */
    uint64_t start_ns;   /* CLOCK_MONOTONIC */
    uint64_t end_ns;     /* last known time */
    int64_t duration_ns; /* -1: unknown */
    bool duration_atleast;
    enum recording_end end;
    int status;
    uint64_t kernel_ns; /* CPU time as the kernel counts it; 0: unknown */
    bool has_heap, has_events;
    double live_bytes, allocated_bytes, peak_bytes;
    uint64_t events;
    uint64_t sampled_ns; /* CPU time of its samples */
};

/* A further file of a recording of several processes: part 1, 2, ... Part 0 is the recording
 * itself. */
struct recording_part;

/* What was read of a recording before, so that only new samples are read. Start with zeros. */
struct recording_seen {
    uint64_t since_ns; /* the reader sets it: waits that began before are cut there */
    struct recording_seen_chunk {
        uint64_t index;
        size_t used;
        bool is_events; /* nothing else of the chunk counts: its type never changes */
    } * chunks;         /* by position in the file */
    size_t chunk_count;
    /* All samples so far, by number of the stack in the file, and by pid << 32 | tid. */
    struct recording_seen_sums {
        struct recording_seen_sum {
            uint64_t key;
            struct recording_sum sum;
        } * list;
        size_t count, cap;
        struct map of;
    } stacks, threads;
};

enum { RECORDING_GAPS = 16 };

struct recording {
    char *path;
    const char *map; /* the whole file */
    size_t map_len;
    struct piano__rec_header header; /* a copy; texts terminated, doubles finite */
    enum recording_end end;
    int status;
    int64_t duration_ns;      /* -1: unknown */
    bool duration_atleast;    /* up to the last thing seen, not to the end */
    uint64_t end_ns;          /* CLOCK_MONOTONIC to which ages are counted */
    bool foreign;             /* belongs to another user */
    struct range_asked asked; /* set it before recording_read() */
    struct range range;       /* of CPU samples and waits in the sums, and of events */
    uint64_t rate_low,
        rate_high; /* of the header and of all live blocks: equal unless it was changed */

    struct recording_module *modules; /* by start, then since */
    size_t module_count;
    /* Entry 0 collects samples without a stack, or with one that the file does not hold. */
    struct recording_stack *stacks;
    size_t stack_count;
    struct recording_sum total;           /* over all stacks */
    struct recording_snapshot *snapshots; /* complete ones, by number */
    size_t snapshot_count;

    struct recording_thread *threads; /* by tid */
    size_t thread_count;
    struct recording_name *names; /* by id */
    size_t name_count;
    struct recording_code *codes; /* by id */
    size_t code_count;
    char **code_texts; /* all texts of codes */
    size_t code_text_count;
    struct recording_symbols *symbols; /* NULL: none stored */
    struct recording_sample *samples;  /* by tid, then time; all, whatever the range */
    size_t sample_count;
    uint64_t cpu_samples, off_samples; /* in the range */
    bool has_cpu, has_off;             /* there are some in the whole recording */
    struct recording_events events;

    struct recording_gap gaps[RECORDING_GAPS]; /* the first ones */
    size_t gap_count;                          /* all */
    uint64_t unknown_chunks;                   /* of unknown types */
    uint64_t unfinished_chunks;                /* claimed but never completed */
    uint64_t partial_snapshots;
    uint64_t merged_stacks;
    uint64_t bad_numbers; /* not finite, negative or implausible: taken as 0 */
    uint64_t bad_number_at;
    uint64_t orphans;     /* samples whose stack is not in the file */
    uint64_t read_chunks; /* used */

    /* Source of single blocks; see `recording_blocks`. */
    struct rec_chunk *live_chunks;
    size_t live_chunk_count;
    struct rec_id *ids;
    size_t id_count;
    struct rec_copy *copies;     /* of chunks, if the program is running */
    struct recording_seen *seen; /* NULL: everything is read */

    /* Several processes; NULL and 0 for a recording that was opened alone. */
    struct family *family;
    struct recording_part *parts;
    size_t part_count;
    struct recording_process *processes; /* those with a file, by start */
    size_t process_count;
    size_t leader;           /* the one that did most, not the shell that started it */
    size_t heap_processes;   /* of these with figures of their heap */
    size_t unread_processes; /* their files could not be read */
};

/* Returns whether PATH holds a recording or is at least named like one. */
bool recording_is(const char *path);
/* Returns whether NAME ends like one (`.rec`, or `.rec.2` and `.rec-PID` of further processes). */
bool recording_named(const char *name);

/* Returns the process of the recording at PATH; 0: there is none, or it has no header yet. */
uint32_t recording_process(const char *path);
/* Returns the path where the program of recording BASE goes on after an exec, or BASE; malloc'd, or
 * NULL. While the program runs, the answer changes. */
char *recording_latest(const char *base);

/* Loads only the header and how the program ended; chunk data stays empty. 0, or negative errno
 * with ERROR filled. */
int recording_peek(struct recording *rec, const char *path, struct run_error *error);
/* Loads the rest of a recording that was peeked; unloads it if that fails. */
int recording_read(struct recording *rec, struct run_error *error);
/* Loads the rest without events, and of samples those that are not in SEEN, which is updated. The
 * sums of stacks count all samples, those in SEEN too. */
int recording_read_new(struct recording *rec, struct recording_seen *seen, struct run_error *error);
void recording_seen_release(struct recording_seen *seen);
/* Loads everything. */
int recording_load(struct recording *rec, const char *path, struct run_error *error);
/* Loads only addresses and their stored names: modules, stacks, names, symbols. */
int recording_load_addresses(struct recording *rec, const char *path, struct run_error *error);
void recording_unload(struct recording *rec);

/* Whether the figures of the heap are those of one process. The peak of several is not known, because
 * each had its own at another time; nor is their growth, which needs snapshots of one moment. */
bool recording_is_one_heap(const struct recording *rec);
/* The process PID among `processes`, or NULL. */
const struct recording_process *recording_process_of(const struct recording *rec, uint32_t pid);
/* The process that did most, if there are several; or NULL. */
const struct recording_process *recording_leader(const struct recording *rec);
/* The process that wrote the events of TRACK, or NULL if the recording was opened alone. */
const struct recording_process *recording_track_process(const struct recording *rec,
                                                        uint32_t track);
/* Numbers that programs choose, of tasks and queues, have the part in their upper bits, so that two
 * processes do not share one. Returns the number that the program chose. */
uint64_t recording_own_id(const struct recording *rec, uint64_t id);

/* The thread TID, or NULL. */
const struct recording_thread *recording_thread_of(const struct recording *rec, uint32_t tid);
/* Returns the text of name ID; NULL if there is no name or it is not in the file. */
const char *recording_name_of(const struct recording *rec, uint64_t id);
/* Code object ID, or NULL. */
const struct recording_code *recording_code_of(const struct recording *rec, uint32_t id);
/* ---- kept names ---- */

/* Returns the module with PATH and BUILD_ID of LEN bytes among those with stored names, from 1; 0
 * if it is not there. */
uint32_t recording_symbol_module(const struct recording_symbols *s, const char *path,
                                 const uint8_t *build_id, size_t len);
/* Returns the number of frames at file address ADDRESS of MODULE (0: the kernel, by memory
 * address); 0 if none are stored. The frames are in the mapped file; the numbers of their texts
 * count from *TEXTS. */
size_t recording_symbol_frames(const struct recording_symbols *s, uint32_t module, uint64_t address,
                               const struct piano__symbol_frame **frames, uint32_t *texts);
/* Returns text ID, or NULL. It is valid as long as the recording. */
const char *recording_symbol_text(const struct recording_symbols *s, uint32_t id);

/* A function in JIT code. */
struct recording_jit {
    const char *function, *file; /* FILE may be NULL; both are valid as long as the recording */
    uint32_t line;
};

/* Whether any names of JIT code are stored. S may be NULL. */
bool recording_symbol_has_jit(const struct recording_symbols *s);
/* Finds the function at ADDRESS of process PID at AT_NS (UINT64_MAX: at last). Returns false if
 * none is stored. */
bool recording_symbol_jit(const struct recording_symbols *s, uint32_t pid, uint64_t address,
                          uint64_t at_ns, struct recording_jit *found);

/* Moves a sample, and what it adds to the sums, to another stack. */
void recording_move_sample(struct recording *rec, size_t sample, uint32_t stack);

/* Returns the index of the first sample of TID at or after AT_NS. *END is the index after its
 * last. */
size_t recording_samples_of(const struct recording *rec, uint32_t tid, uint64_t at_ns, size_t *end);

/* Returns the part of S that is in the range of REC, in *PART. False if there is none. */
bool recording_clip(const struct recording *rec, const struct recording_sample *s,
                    struct recording_sample *part);

/* Returns the indices of all samples in order of time; samples of the same time in the order of
 * `samples`. Malloc'd; NULL: out of memory. */
uint32_t *recording_samples_by_time(const struct recording *rec);

/* Returns all sampled blocks that are not freed, by thread, then birth. Malloc'd, even if there are
 * none. They are read on request because there can be millions. 0 or -ENOMEM. */
int recording_blocks(const struct recording *rec, struct recording_block **blocks, size_t *count);
/* Returns the first of BLOCKS of TID born at or after AT_NS, or the position after its last. */
size_t recording_block_bound(const struct recording_block *blocks, size_t count, uint32_t tid,
                             uint64_t at_ns);

/* ---- events, all threads in order of time ---- */

struct recording_walk; /* reads the mapped file incrementally and stores no events */

/* NULL: out of memory. */
struct recording_walk *recording_walk_new(const struct recording *rec);
bool recording_walk_next(struct recording_walk *w, struct recording_event *e);
void recording_walk_free(struct recording_walk *w);

/* Returns the time of TICKS. AT is a guess of the preceding pair and is updated: times mostly go
 * forward. */
uint64_t recording_time(const struct recording_clock *clock, uint64_t ticks, size_t *at);

void recording_sum_add(struct recording_sum *to, const struct recording_sum *more);
/* 95 % interval of live (or allocated) bytes of SUM, which belongs to REC. Never below what was
 * seen. With no sample, the upper end is what escapes sampling with a probability of 2.5 %. */
void recording_live_interval(const struct recording *rec, const struct recording_sum *sum,
                             double *low, double *high);
void recording_allocated_interval(const struct recording *rec, const struct recording_sum *sum,
                                  double *low, double *high);
/* The same for what was live at the peak. Wider than necessary, see docs/heap.md. */
void recording_peak_interval(const struct recording *rec, const struct recording_sum *sum,
                             double *low, double *high);
/* The same for all that was live at the peak. */
void recording_whole_peak_interval(const struct recording *rec, double *low, double *high);
/* Upper bound of the mean bytes between samples. Infinite if the rate was changed, because freed
 * blocks do not record theirs. */
double recording_rate_bound(const struct recording *rec);
/* Upper bound of the variance of a change of live bytes from FROM to the later TO, for one
 * stack. */
double recording_change_variance(const struct recording *rec, const struct recording_entry *from,
                                 const struct recording_entry *to);
/* Returns how many freed samples lived less than 2^BUCKET microseconds. */
uint64_t recording_freed_within(const struct recording_sum *sum, unsigned bucket);
/* Median lifetime of freed samples in nanoseconds, interpolated in its bucket; -1 without any. */
int64_t recording_median_life(const struct recording_sum *sum);
/* Bytes freed within about a millisecond: freed bytes times the share of such samples. */
double recording_churn(const struct recording_sum *sum);
/* Returns the module that PC was in at GENERATION, or NULL. */
const struct recording_module *recording_module_of(const struct recording *rec, uint64_t pc,
                                                   uint64_t generation);

#endif
