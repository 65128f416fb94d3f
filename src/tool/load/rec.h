/* The stages of reading a recording, in order; private to `recording.c` and the files below.
 *
 *   `recording.c`      file, header, list of chunks
 *   `rec_end.c`        how and when the program ended
 *   `rec_stacks.c`     modules and stacks; equal stacks become one
 *   `rec_tables.c`     sums and live blocks, added to their stacks
 *   `rec_blocks.c`     single live blocks, on request
 *   `rec_snapshots.c`  snapshots, assembled from their parts
 *   `rec_threads.c`    threads and names
 *   `rec_python.c`     code objects of CPython
 *   `rec_symbols.c`    names of addresses, stored when the recording was made
 *   `rec_samples.c`    CPU samples and switches, by thread and time
 *   `rec_seen.c`       which samples are new, if the recording was read before
 *   `rec_event.c`      one event, decoded
 *   `rec_parts.c`      chunks of definitions
 *   `rec_events.c`     where the events of each thread are
 *   `rec_clock.c`      times of events
 *   `rec_walk.c`       all events in order of time
 *   `rec_sums.c`       values derived from sums
 *   `rec_images.c`     the files of a program that replaces itself by exec
 *   `rec_join.c`       further processes, joined to the first
 *   `rec_processes.c`  which they are
 *   `rec_add.c`        what one of them adds to the header and the events
 *
 * Memory is allocated for what the file contains, never for what it claims, and each kind has a
 * limit. */
#ifndef PIANO_TOOL_LOAD_REC_H
#define PIANO_TOOL_LOAD_REC_H

#include "tool/load/recording.h"

enum {
    REC_MAX_CHUNKS = 1 << 15, /* 2 GB: what the limits below allow */
    REC_MAX_MODULES = 1 << 14,
    REC_MAX_STACKS = 1 << 19,
    REC_MAX_SNAPSHOTS = 1 << 16,
    REC_MAX_ENTRIES = 1 << 22, /* of all snapshots */
    REC_MAX_THREADS = 1 << 17,
    REC_MAX_NAMES = 1 << 18,
    REC_MAX_CODES = 1 << 18,
    REC_MAX_TEXTS = 1 << 20,   /* of stored names */
    REC_MAX_SYMBOLS = 1 << 20, /* addresses with names */
    REC_MAX_SAMPLES = 1 << 23,
    REC_MAX_SEGMENTS = 1 << 21, /* of events: a thread in a chunk */
};

#define REC_REASON 0x1p60   /* a larger value is not a sum of bytes */
#define REC_MAX_SIZE 0x1p47 /* a larger value is not the size of a block */
#define REC_MAX_RATE ((uint64_t)1 << 48)

/* A completed chunk of a known type. */
struct rec_chunk {
    uint64_t at; /* offset in the file */
    uint32_t type;
    uint64_t index;
    const char *payload;
    size_t used;       /* committed bytes of a log that are in the file */
    size_t there;      /* payload bytes that are in the file */
    uint64_t previous; /* EVENTS: see struct piano__chunk */
    size_t skip;       /* payload bytes that were read before */
};

/* Maps an id in the file to an index in `stacks`. */
struct rec_id {
    uint32_t id;
    uint32_t stack;
};

struct rec_reader {
    struct recording *rec;
    int fd;
    struct rec_chunk *chunks; /* by type, then index */
    size_t chunk_count, chunk_room;
    struct rec_id *ids; /* by id */
    size_t id_count;
};

struct stat;

/* Finds out how the program of the file with ST ended. */
void rec_find_end(struct recording *rec, const struct stat *st);
/* Finds the last known time, from what was read so far. */
void rec_find_duration(struct recording *rec);
/* Copies the bytes FROM to TO of the payload of CHUNK, number INDEX of its kind. REC owns the copy,
 * before which there is room for the head of a chunk of events. NULL if the chunk was reused
 * meanwhile, or without memory. */
char *rec_copy(struct recording *rec, const struct piano__chunk *chunk, uint64_t index, size_t from,
               size_t to);
void rec_free_copies(struct recording *rec);
/* Adds the parts of the chunk of definitions at byte AT of the file, with THERE bytes of payload, to
 * `chunks`, which has room for them. */
void rec_take_parts(struct rec_reader *r, uint64_t at, size_t there);
/* Returns whether a tool is writing to the recording at PATH (PIANO_REC_HELD_AT). */
bool rec_is_held(const char *path);

int rec_read_stacks(struct rec_reader *r);
int rec_read_tables(struct rec_reader *r);
/* Copies the record. Returns false if it is free or changes meanwhile. */
bool rec_live_at(const volatile struct piano__live *from, struct piano__live *out);
/* Bounds the variance of its peak. The rates must be known. */
void rec_bound_peak(const struct recording *rec, struct recording_sum *sum);
int rec_read_snapshots(struct rec_reader *r);
int rec_read_threads(struct rec_reader *r);
int rec_read_python(struct rec_reader *r);
void rec_free_python(struct recording *rec);
int rec_read_symbols(struct rec_reader *r);
void rec_free_symbols(struct recording *rec);
int rec_read_samples(struct rec_reader *r);
/* Adds the samples in the range to the sums of their stacks. */
void rec_sum_samples(struct recording *rec);
/* Is the chunk at AT known to have events, which are not read again? */
bool rec_seen_is_events(const struct recording_seen *seen, uint64_t at);
/* Is there nothing to read in CHUNK at AT, with USED bytes? *SKIP: bytes that were read before. */
bool rec_seen_has(struct recording_seen *seen, uint64_t at, const struct piano__chunk *chunk,
                  size_t used, size_t *skip);
/* Adds a new sample of stack STACK (in the file) to the sums, then cuts a wait that began before. 0
 * or -ENOMEM. */
int rec_seen_add(struct recording_seen *seen, uint32_t stack, struct recording_sample *s);
/* Makes the sums of the stacks those of all samples, not only of the new ones. */
void rec_seen_sums(struct recording *rec);
int rec_read_events(struct rec_reader *r);
/* The same for a recording that grows (follow.h): the chunks of R hold the events since the last
 * call. `segments` are then those of the new events; tracks and counts go on. Their clock goes
 * through the start and NOW. */
int rec_read_more_events(struct rec_reader *r, const struct recording_pair *now);
/* Returns the current moment by the clock of the events. */
struct recording_pair rec_clock_now(const struct recording *rec);
/* Returns the ticks NS before NOW. */
uint64_t rec_ticks_before(const struct recording *rec, const struct recording_pair *now,
                          uint64_t ns);
/* Takes ownership of PAIRS (malloc'd), in any order. */
void rec_make_clock(struct recording *rec, struct recording_pair *pairs, size_t count);

/* Reads the event at AT, which ends before END. Returns its length, or 0 if it cannot be read. */
struct rec_event {
    struct recording_event event; /* without time and track */
    uint64_t ticks;               /* since the event before */
    bool bad;                     /* a field was truncated and is 0 */
};
size_t rec_event_at(const char *at, const char *end, struct rec_event *e);
/* The same, without its fields. */
size_t rec_event_skip(const char *at, const char *end, uint64_t *ticks);

/* Returns the index in `stacks` of the stack with this id; 0 if there is none. */
uint32_t rec_stack_of(const struct rec_reader *r, uint32_t id);
/* Records that bytes FROM to TO (0: no range) are missing or unusable. WHAT is a literal. */
void rec_gap(struct recording *rec, uint64_t from, uint64_t to, const char *what);
/* Returns the sum at byte AT. A value that is not finite, negative or implausible is counted and
 * becomes 0. */
double rec_number(struct recording *rec, double value, uint64_t at);
/* The same for a count that can be at most MOST. */
uint64_t rec_count(struct recording *rec, uint64_t value, uint64_t most, uint64_t at);
/* Returns the largest number of samples that can stand for OBJECTS objects. */
uint64_t rec_samples_most(double objects);
/* Returns the longest time that anything in the recording can have taken. */
uint64_t rec_longest_ns(const struct recording *rec);
/* Bounds every number of the header. */
void rec_clean_header(struct recording *rec);

/* Returns the next record of a log at *AT and advances *AT. NULL at the end or at the first invalid
 * record (reported with WHAT). LEAST is the size of its fixed part; *BYTES its length. */
const char *rec_next(struct recording *rec, const struct rec_chunk *c, size_t *at, size_t least,
                     const char *what, uint32_t *bytes);

/* ---- several processes (family.h) ---- */

enum { REC_ID_SHIFT = 48 }; /* see recording_own_id() */

/* A file that was joined to a recording. It stays open, because stacks and events are in it. */
struct recording_part {
    struct recording rec;
    uint32_t *stacks;  /* by its stacks: index in `stacks` of the recording it is joined to */
    uint64_t **copies; /* of stacks with Python functions, which have other numbers there */
    size_t copy_count;
    uint64_t names; /* what the numbers of its names are increased by */
    bool is_chosen; /* else only samples of chosen processes are joined */
};

/* Reads the chunks of a peeked recording, without the sums of samples. */
int rec_read_all(struct recording *rec);
/* Finds the duration, applies the range that was asked for, and sums the samples. Unloads REC if
 * that fails. */
int rec_finish(struct recording *rec, struct run_error *error);
/* Fills in ERROR and returns ERR. */
int rec_fail(struct run_error *error, int err, const char *path, const char *what);
/* Reads the other processes of REC, which has its own chunks, and joins them. 0, or negative errno
 * with ERROR filled. */
int rec_join_family(struct recording *rec, struct run_error *error);
void rec_free_parts(struct recording *rec);
/* Adds the process of FROM, whose duration is known, to those of REC. 0 or -ENOMEM. */
int rec_add_process(struct recording *rec, const struct recording *from);
/* Finds the process that did most. 0 or -ENOMEM. */
int rec_find_leader(struct recording *rec);
/* Adds the events of PART, number NUMBER. 0 or -ENOMEM. */
int rec_add_events(struct recording *rec, const struct recording_part *part, uint32_t number);
/* Adds the figures of the header FROM. */
void rec_add_header(struct piano__rec_header *to, const struct piano__rec_header *from);
/* Makes the figures of the header those of the samples of REC alone. */
void rec_recount_samples(struct recording *rec);
/* Adds the stored names of FROM, which must stay open. 0 or -ENOMEM. */
int rec_add_symbols(struct recording *rec, const struct recording *from);
void rec_sort_modules(struct recording *rec);
int rec_sort_threads(struct recording *rec);
int rec_sort_samples(struct recording *rec);

/* Passes every record of every chunk of TYPE to TAKE, in order, until it returns an error: the
 * bytes, their number, and their offset in the file. */
int rec_each(struct rec_reader *r, uint32_t type, size_t least, const char *what,
             int (*take)(struct rec_reader *r, void *ctx, const char *record, uint32_t bytes,
                         uint64_t at),
             void *ctx);

#endif
