/* A recording in memory: what `src/common/recording.h` describes, checked, with every sum a number
 * that can be added up. Nothing here has names yet; see `tool/report/heap.h`. */
#ifndef PIANO_TOOL_LOAD_RECORDING_H
#define PIANO_TOOL_LOAD_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/recording.h"
#include "tool/load/run.h"

enum { RECORDING_PARKS = 11 };

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
    double untracked_bytes, untracked_objects; /* allocated, and then nobody knows */
    double peak_bytes, peak_objects;           /* live when all of the program had its peak */
    double peak_variance;                      /* at most: that of the peak is not recorded */
    uint64_t lifetimes[PIANO_LIFETIMES];
    /* From the records of sampled blocks that are not freed. */
    uint64_t live_samples;
    double live_seen_bytes; /* their sizes, not weighed */
    uint64_t size_min, size_max;
    uint64_t oldest_ns, newest_ns; /* births, CLOCK_MONOTONIC; 0 when there are none */
    /* From CPU samples and switches. */
    uint64_t cpu_samples, cpu_ns;
    double cpu_squares; /* of what each sample stands for: the variance of `cpu_ns`, at most */
    uint64_t off_samples, off_ns; /* it waited for something, not for a CPU */
    uint64_t preempted_ns;
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

/* A thread of the program, as the program or the tool named it. */
struct recording_thread {
    uint32_t tid, pid;
    char name[17]; /* may be empty */
};

struct recording_name {
    uint32_t id;
    char *text;
};

/* A code object of CPython. Its texts are shared: equal ones are the same pointer. */
struct recording_code {
    uint32_t id;
    uint32_t first_line;
    char *name, *file;    /* "?" where they are not known */
    const uint8_t *table; /* of lines, in the mapped file; see common/python.h */
    size_t table_len;
};

/* Names of addresses, kept in the recording when it was made. */
struct recording_symbols;

/* A moment of a thread: `common/recording.h`, struct piano__sample. */
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
    uint32_t segments; /* how many, from `first` */
    size_t first;
    uint64_t events;
    uint64_t polls;                  /* begun */
    uint64_t parks[RECORDING_PARKS]; /* by enum piano__park; kinds that are not known last */
};

/* Events of one thread that lie together in a chunk. */
struct recording_segment {
    const char *from, *to; /* in the mapped file */
    uint64_t ticks;        /* of the event before */
    uint32_t track;
};

/* At `ticks` of the events' clock it was `ns` of CLOCK_MONOTONIC. */
struct recording_pair {
    uint64_t ticks, ns;
};

/* A line through every pair: both grow from pair to pair. */
struct recording_clock {
    struct recording_pair *pairs;
    size_t count;
    double rate;  /* ns a tick, over all */
    bool counter; /* else ticks are nanoseconds */
    bool rough;   /* the pairs are too near to each other for a rate to be trusted */
};

struct recording_events {
    struct recording_track *tracks; /* by first event */
    size_t track_count;
    struct recording_segment *segments; /* by track, then order of events */
    size_t segment_count;
    struct recording_clock clock;
    uint64_t count;
    uint64_t unknown; /* of codes that are not known */
    uint64_t bad;     /* fields that do not fit their event */
    uint64_t first_ns, last_ns;
};

enum { RECORDING_GAPS = 16 };

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
    uint64_t rate_low,
        rate_high; /* of the header and of all live blocks: equal unless it was changed */

    struct recording_module *modules; /* by start, then since */
    size_t module_count;
    /* Entry 0 is what has no stack, or one that the file does not hold. */
    struct recording_stack *stacks;
    size_t stack_count;
    struct recording_sum total;           /* over all stacks */
    struct recording_snapshot *snapshots; /* whole ones, by number */
    size_t snapshot_count;

    struct recording_thread *threads; /* by tid */
    size_t thread_count;
    struct recording_name *names; /* by id */
    size_t name_count;
    struct recording_code *codes; /* by id */
    size_t code_count;
    char **code_texts; /* all of theirs */
    size_t code_text_count;
    struct recording_symbols *symbols; /* NULL: none are kept */
    struct recording_sample *samples;  /* by tid, then time */
    size_t sample_count;
    uint64_t cpu_samples, off_samples;
    struct recording_events events;

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

    /* To read blocks from; see `recording_blocks`. */
    struct rec_chunk *live_chunks;
    size_t live_chunk_count;
    struct rec_id *ids;
    size_t id_count;
    struct rec_copy *copies; /* of chunks, where the program runs */
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
/* Only what addresses are in it and what names are kept of them: modules, stacks, names, symbols. */
int recording_load_addresses(struct recording *rec, const char *path, struct run_error *error);
void recording_unload(struct recording *rec);

/* The thread TID, or NULL. */
const struct recording_thread *recording_thread_of(const struct recording *rec, uint32_t tid);
/* The text of name ID; NULL: no name, or one that is not in the file. */
const char *recording_name_of(const struct recording *rec, uint64_t id);
/* Code object ID, or NULL. */
const struct recording_code *recording_code_of(const struct recording *rec, uint32_t id);
/* ---- kept names ---- */

/* The module with PATH and BUILD_ID of LEN bytes among those whose addresses have names, from 1; 0: it is not. */
uint32_t recording_symbol_module(const struct recording_symbols *s, const char *path,
                                 const uint8_t *build_id, size_t len);
/* The frames at file address ADDRESS of MODULE (0: of the kernel, in memory), in the mapped file; their number, 0: none are kept. */
size_t recording_symbol_frames(const struct recording_symbols *s, uint32_t module, uint64_t address,
                               const struct piano__symbol_frame **frames);
/* Text ID; NULL: there is none. It lives as long as the recording. */
const char *recording_symbol_text(const struct recording_symbols *s, uint32_t id);

/* Index of the first sample of TID that is at AT_NS or later, and behind its last, in *END. */
size_t recording_samples_of(const struct recording *rec, uint32_t tid, uint64_t at_ns, size_t *end);

/* All sampled blocks that are not freed, by thread, then birth; malloc'd, also when there are none. They are read when they are
 * asked for: there can be millions. 0 or -ENOMEM. */
int recording_blocks(const struct recording *rec, struct recording_block **blocks, size_t *count);
/* The first of BLOCKS that is of TID and born at AT_NS or later, or behind those. */
size_t recording_block_bound(const struct recording_block *blocks, size_t count, uint32_t tid,
                             uint64_t at_ns);

/* ---- events, all threads in order of time ---- */

struct recording_event {
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    uint32_t track;
    uint32_t code; /* enum piano__event_code, or one that is not known */
    uint64_t fields[3];
};

struct recording_walk; /* reads the mapped file as it goes: no event is kept */

/* NULL: out of memory. */
struct recording_walk *recording_walk_new(const struct recording *rec);
bool recording_walk_next(struct recording_walk *w, struct recording_event *e);
void recording_walk_free(struct recording_walk *w);

/* Time of TICKS. AT is the pair it is likely behind, and is moved: times mostly go forward. */
uint64_t recording_time(const struct recording_clock *clock, uint64_t ticks, size_t *at);

void recording_sum_add(struct recording_sum *to, const struct recording_sum *more);
/* 95 % interval of live (or allocated) bytes of SUM, which is of REC: never below what was really seen. With
 * no sample at all it reaches up to what escapes sampling 2.5 times in 100. */
void recording_live_interval(const struct recording *rec, const struct recording_sum *sum,
                             double *low, double *high);
void recording_allocated_interval(const struct recording *rec, const struct recording_sum *sum,
                                  double *low, double *high);
/* The same of what was live at the peak; wider than it need be, see docs/heap.md. */
void recording_peak_interval(const struct recording *rec, const struct recording_sum *sum,
                             double *low, double *high);
/* Mean bytes between samples that no sample of the recording exceeds; infinite when it was changed, since
 * blocks that are freed do not tell theirs. */
double recording_rate_bound(const struct recording *rec);
/* Variance, at most, of a change of live bytes from FROM to TO, which is later: two moments of one stack. */
double recording_change_variance(const struct recording *rec, const struct recording_entry *from,
                                 const struct recording_entry *to);
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
