/* The recording: one file for every instrument that needs no instrumented build, byte by byte in
 * docs/recording-format.md.
 *
 *   file  = header (PIANO_REC_HEADER_BYTES), then chunks of PIANO_REC_CHUNK_BYTES, in order of claim
 *   chunk = struct piano__chunk, then its payload
 *
 * The program has the file mapped and shared: what it has stored is in the file, however it ends. A chunk is claimed
 * by adding 1 to `chunks`, by the program or by the tool; its disk blocks are reserved before it is mapped, so a full
 * disk is a refused claim and not a SIGBUS. A claimed chunk whose `ready` is 0 was never finished: readers leave it
 * out. Readers skip chunks of a type they do not know.
 *
 * Tables (TOTALS, LIVE) are arrays of fixed records; chunk `index` i holds records i*n to i*n+n-1. Logs (all others but
 * EVENTS) hold records one after another, `used` bytes of them, each beginning with its length; a record never
 * crosses a chunk. Everything is little-endian, and aligned to 8 bytes.
 *
 * A `double` here is a sum of weights: what the samples stand for, see docs/heap.md. */
#ifndef PIANO_COMMON_RECORDING_H
#define PIANO_COMMON_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#define PIANO_REC_MAGIC "PIANOREC"

enum {
    PIANO_REC_VERSION = 1, /* readers refuse a higher one */
    PIANO_REC_HEADER_BYTES = 4096,
    PIANO_REC_CHUNK_BYTES = 64 * 1024,
    PIANO_REC_PAYLOAD = PIANO_REC_CHUNK_BYTES - 64,
    PIANO_REC_PATH = 1024,
    PIANO_REC_MAX_CHUNKS = 16384, /* 1 GB */
    PIANO_MAX_FRAMES = 128,
    PIANO_LIFETIMES = 32,
};

enum piano__chunk_type {
    PIANO_CHUNK_MODULES = 1,
    PIANO_CHUNK_STACKS = 2,
    PIANO_CHUNK_TOTALS = 3,
    PIANO_CHUNK_LIVE = 4,
    PIANO_CHUNK_SNAPSHOT = 5,
    PIANO_CHUNK_THREADS = 6,
    PIANO_CHUNK_EVENTS = 7, /* common/events.h */
    PIANO_CHUNK_SAMPLES = 8,
    PIANO_CHUNK_NAMES = 9,
    PIANO_CHUNK_PYTHON = 10, /* common/python.h */
    PIANO_CHUNK_SYMBOLS = 11,
};

struct piano__chunk {
    uint32_t type;
    uint32_t ready; /* 1 once the header of the chunk is whole; stored last, released */
    uint64_t index; /* counts the chunks of this type from 0 */
    uint64_t used;  /* committed payload bytes of a log; stored after the record, released */
    uint64_t
        shared; /* SNAPSHOT: 1 when several tools write to it, one at a time (flock on the file) */
    uint64_t reserved[4];
};

/* What happened, counted by cause. Any thread adds, relaxed. */
struct piano__heap_stats {
    uint64_t samples;       /* allocations sampled */
    uint64_t freed;         /* of them freed again */
    uint64_t stacks;        /* distinct stacks */
    uint64_t collisions;    /* stack look-ups that met another stack first */
    uint64_t filter_passes; /* frees that had to be looked up */
    uint64_t filter_misses; /* and were not of a sampled block */
    uint64_t stale; /* a sampled address was handed out again although its free was not seen */
    uint64_t dropped_live;   /* samples not tracked as live: live table full */
    uint64_t dropped_stacks; /* samples with stack 0: stack table full */
    uint64_t dropped_memory; /* a chunk could not be had: no memory, disk full, file gone */
    uint64_t dropped_busy;   /* allocations due in the middle of another sample: signal handlers */
    uint64_t walked;         /* stacks walked */
    uint64_t walked_frames;  /* their depths, added up */
    uint64_t
        walked_lost; /* walks that ended before the thread's first function: no table, no frame pointer */
    uint64_t walked_full;  /* walks cut at PIANO_MAX_FRAMES */
    uint64_t walked_by_fp; /* walks that had to trust a frame pointer somewhere */
    uint64_t threads;      /* threads that took a sample */
    uint64_t map_calls;    /* mmap and munmap of anonymous memory seen, when asked for */
    uint64_t map_partial;  /* munmap of a part of a mapping: not followed */
    uint64_t walked_least; /* 1 + the depth of the shallowest stack; 0: none was walked */
    uint64_t reserved[12];
};

enum piano__rec_state {
    PIANO_REC_STARTING = 0,
    PIANO_REC_ACTIVE = 1,
    PIANO_REC_STOPPED = 2,    /* no new samples; frees are still followed */
    PIANO_REC_TERMINATED = 3, /* for good */
    PIANO_REC_ENDED = 4,      /* the program came to its end in the ordinary way */
};

enum piano__rec_flags {
    PIANO_REC_HAS_HEAP = 1,
    PIANO_REC_HAS_MAPS = 2, /* anonymous mmap is recorded too */
    PIANO_REC_CHILD = 4,    /* of a forked process: what it inherited is not in it */
    PIANO_REC_HAS_CPU = 8,
    PIANO_REC_HAS_EVENTS = 16,
};

enum piano__cpu_source {
    PIANO_CPU_NONE = 0,
    PIANO_CPU_CLOCK = 1,  /* perf, software cpu-clock */
    PIANO_CPU_CYCLES = 2, /* perf, hardware cycles */
    PIANO_CPU_TIMERS = 3, /* a CPU-time timer and a signal per thread, where perf is refused */
};

/* Events and CPU samples. */
struct piano__trace {
    uint64_t start_ticks; /* of the events' clock, when `start_mono_ns` was taken */
    uint64_t end_ticks;   /* the same pair again, as late as possible; 0: none */
    uint64_t end_mono_ns;
    uint32_t has_counter; /* the events' clock is the processor's counter; else CLOCK_MONOTONIC */
    uint32_t cpu_source;  /* enum piano__cpu_source */
    uint64_t cpu_hz;
    uint64_t events;         /* written */
    uint64_t dropped_memory; /* events without a chunk to go to */
    uint64_t dropped_busy;   /* events of a signal handler in the middle of another */
    uint64_t dropped_names;  /* names beyond the table: their events have name 0 */
    uint64_t
        recycled; /* chunks of old events given up for new ones, to stay within the size asked for */
    uint64_t samples;
    uint64_t samples_lost;    /* as the kernel says, or by the CPU time they do not stand for */
    uint64_t samples_unwound; /* with a whole stack */
    uint64_t switches;
    uint64_t threads_missed; /* threads that got no timer, or no perf event, of their own */
    uint64_t reserved[15];
};

struct piano__rec_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint32_t chunk_bytes;
    uint32_t machine; /* ELF e_machine */
    uint32_t pid;
    uint32_t parent;
    uint32_t flags; /* enum piano__rec_flags */
    uint32_t state; /* enum piano__rec_state */
    uint64_t chunks;
    uint64_t start_mono_ns;
    uint64_t start_real_ns;
    uint64_t end_mono_ns; /* 0 unless it ended in the ordinary way */
    uint64_t rate;        /* mean bytes between samples, now; 1 = every allocation */
    uint64_t exit_status; /* by the tool: 0 unknown, else 1 + what waitpid gave */
    uint64_t snapshots;   /* begun so far */
    /* All kinds together. `live_bytes` is what is not freed now; the peak is that of `live_bytes`. */
    double live_bytes;
    double live_objects;
    double allocated_bytes;
    double allocated_objects;
    double allocated_variance; /* of allocated_bytes: the sum over samples of w^2 (1-p) */
    double live_variance;
    double peak_bytes;
    double peak_objects;
    uint64_t peak_ns;    /* CLOCK_MONOTONIC */
    uint64_t peak_epoch; /* grows with every new peak; see struct piano__totals */
    struct piano__heap_stats stats;
    char program[PIANO_REC_PATH]; /* /proc/self/exe */
    char command[PIANO_REC_PATH]; /* argv, NUL between words, cut where it is too long */
    struct piano__trace trace;
    double untracked_bytes;    /* of all stacks, see struct piano__totals */
    uint64_t max_chunks;       /* it may hold so many; 0: PIANO_REC_MAX_CHUNKS */
    uint64_t samples_given_up; /* old CPU samples and switches that made room for new ones */
};

/* How many chunks there may be. */
static inline uint64_t piano__rec_most(const struct piano__rec_header *h)
{
    return h->max_chunks > 0 && h->max_chunks < PIANO_REC_MAX_CHUNKS ? h->max_chunks
                                                                     : PIANO_REC_MAX_CHUNKS;
}

/* So many chunks are within BYTES of a file; 0: no limit is meant. */
static inline uint64_t piano__rec_chunks_in(uint64_t bytes)
{
    uint64_t chunks = bytes > PIANO_REC_HEADER_BYTES
                          ? (bytes - PIANO_REC_HEADER_BYTES) / PIANO_REC_CHUNK_BYTES
                          : 0;
    return bytes > 0 && chunks == 0 ? 1 : chunks;
}

enum piano__module_flags { PIANO_MODULE_BUILD_ID = 1 };

/* A log record. The module was mapped at generations `since` <= g < `until` (`until` is UINT32_MAX while it is). A
 * generation ends with every dlclose. File address of a pc = pc - bias. */
struct piano__module {
    uint32_t bytes; /* of this record, a multiple of 8 */
    uint32_t since;
    uint32_t until;
    uint32_t build_id_len;
    uint64_t start; /* of its mapping */
    uint64_t end;
    uint64_t bias;
    uint8_t build_id[32];
    char path[]; /* ends with a NUL */
};

enum piano__stack_flags {
    PIANO_STACK_LOST = 1,  /* the walk ended early */
    PIANO_STACK_FULL = 2,  /* deeper than PIANO_MAX_FRAMES */
    PIANO_STACK_BY_FP = 4, /* a frame pointer was trusted */
    PIANO_STACK_MMAP = 8,  /* its memory is from mmap, not from malloc */
};

/* A log record. Frames are return addresses, innermost first: the call is at pc-1. The first frame is the caller of
 * malloc (or mmap). Stack 0 has no record: it is what samples get when there is no room for theirs. */
struct piano__stack {
    uint32_t bytes; /* of this record */
    uint32_t id;    /* from 1; also its place in TOTALS */
    uint32_t flags;
    uint32_t depth;
    uint64_t generation; /* of the modules, see above */
    uint64_t hash;
    uint64_t pcs[];
};

/* Per stack. Lifetime bucket b counts freed samples that lived less than 2^b microseconds (and 2^(b-1) or more).
 *
 * What was live at the peak: `peak_*` when `seen_epoch` is the header's `peak_epoch`, else live is what it was. */
struct piano__totals {
    uint64_t samples;
    uint64_t freed;
    double allocated_bytes;
    double allocated_objects;
    double allocated_variance;
    double freed_bytes;
    double freed_objects;
    double freed_variance;
    double peak_bytes;
    double peak_objects;
    uint64_t seen_epoch;
    uint64_t last_ns; /* of the newest sample, CLOCK_MONOTONIC */
    /* Samples that found no room in the live table: allocated, and then nobody knows. In none of the sums of what is freed or
     * live. */
    uint64_t untracked;
    double untracked_bytes;
    double untracked_objects;
    double untracked_variance;
    uint32_t lifetimes[PIANO_LIFETIMES];
};

/* A sampled block that is not freed. `key` is 0 when the record is free; else the address in its low 48 bits and
 * a generation of the record above. A reader takes the record when `key` is the same before and after. */
struct piano__live {
    uint64_t key;
    uint64_t size;
    uint64_t rate; /* in force when the gap was drawn that hit it */
    uint64_t birth_ns;
    uint32_t stack;
    uint32_t thread; /* its tid */
    uint64_t next;   /* for the free list of the program; readers ignore it */
};

enum piano__snapshot_kind {
    PIANO_SNAPSHOT_TIMER = 1,
    PIANO_SNAPSHOT_ASKED = 2,  /* piano snapshot PID, or a signal to `piano record` */
    PIANO_SNAPSHOT_CALLED = 3, /* piano_heap_snapshot */
};

/* One stack at one moment: sums as in TOTALS. */
struct piano__snapshot_entry {
    uint32_t stack;
    uint32_t live_samples;
    double live_bytes;
    double live_objects;
    double allocated_bytes;
    double live_variance;
};

/* A log record. A snapshot of many stacks has several parts, `part` 0 to `parts`-1, with the same `number`; it is
 * whole when all are there. Stacks with nothing allocated are left out. */
struct piano__snapshot {
    uint32_t bytes;
    uint32_t number;
    uint32_t part;
    uint32_t parts;
    uint32_t kind;
    uint32_t count; /* entries */
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    double live_bytes;
    double allocated_bytes;
    uint64_t resident_bytes; /* of the program, from /proc; 0 unknown */
    struct piano__snapshot_entry entries[];
};

/* A log record: a thread, by the program or by the tool; a later one with the same tid says more. */
struct piano__thread_record {
    uint32_t bytes;
    uint32_t tid;
    uint32_t pid;
    uint32_t reserved;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    char name[16];
};

/* A log record. Number 0 is no name. */
struct piano__name {
    uint32_t bytes;
    uint32_t id;
    char text[]; /* ends with a NUL */
};

/* A log record: a code object of CPython, met in a stack. Frames name it by its number, from 1 (common/python.h). Its texts are
 * characters of `width` bytes each, 0 where they could not be read. */
struct piano__python_code {
    uint32_t bytes;
    uint32_t id;
    uint32_t first_line;
    uint32_t name_len; /* in bytes, as the other two */
    uint32_t file_len;
    uint32_t table_len;
    uint8_t name_width;
    uint8_t file_width;
    uint8_t reserved[6];
    char text[]; /* its qualified name, its file, its table of lines (co_linetable) */
};

/* What addresses mean, put down by the tool while the files that ran are still there. Three kinds of log records in chunks of one
 * type; numbers of texts and modules are from 1. */
enum piano__symbol_kind {
    PIANO_SYMBOL_TEXT = 1,
    PIANO_SYMBOL_MODULE = 2,
    PIANO_SYMBOL_ADDRESS = 3,
};

struct piano__symbol_text {
    uint32_t bytes;
    uint32_t kind;
    uint32_t id;
    uint32_t reserved;
    char text[]; /* ends with a NUL */
};

/* By path and build-id, wherever and how often it was mapped. */
struct piano__symbol_module {
    uint32_t bytes;
    uint32_t kind;
    uint32_t id;
    uint32_t build_id_len;
    uint8_t build_id[32];
    char path[]; /* ends with a NUL */
};

enum piano__symbol_flags { PIANO_SYMBOL_INLINED = 1 };

struct piano__symbol_frame {
    uint32_t function; /* a text */
    uint32_t file;     /* a text; 0: not known */
    uint32_t line;     /* 0: not known */
    uint32_t flags;
};

/* The functions at one address, innermost first: those inlined there, then the one that is. */
struct piano__symbol_address {
    uint32_t bytes;
    uint32_t kind;
    uint32_t module; /* 0: the kernel */
    uint32_t count;  /* of frames */
    uint64_t
        address; /* in the file of the module, of the call where it is one; of the kernel in memory */
    struct piano__symbol_frame frames[];
};

enum piano__sample_kind {
    PIANO_SAMPLE_CPU = 1, /* `value`: ns of CPU time it stands for */
    PIANO_SAMPLE_OFF =
        2, /* the thread left its CPU here and was away for `value` ns; 0: it did not come back */
};

enum piano__sample_flags {
    PIANO_SAMPLE_PREEMPTED =
        1, /* it could have gone on: it waited for a CPU, not for anything else */
};

/* A log record. Stacks of the tool have bit 31 of their number set, and no TOTALS. */
struct piano__sample {
    uint32_t bytes;
    uint16_t kind;
    uint16_t flags;
    uint32_t tid;
    uint32_t pid;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    uint64_t value;
    uint32_t stack; /* 0: none */
    uint32_t cpu;
};

#define PIANO_TOOL_STACK 0x80000000u
/* And of what the program itself samples of its CPU time: the numbers of stacks, and the generations of their modules. */
#define PIANO_CPU_STACK 0xc0000000u

enum {
    PIANO_TOTALS_PER_CHUNK = PIANO_REC_PAYLOAD / 256,
    PIANO_LIVE_PER_CHUNK = PIANO_REC_PAYLOAD / 48,
    PIANO_SNAPSHOT_PER_PART = 1024,
};

_Static_assert(sizeof(struct piano__chunk) == 64, "a format is bytes");
_Static_assert(sizeof(struct piano__rec_header) <= PIANO_REC_HEADER_BYTES, "a format is bytes");
_Static_assert(sizeof(struct piano__totals) == 256, "a format is bytes");
_Static_assert(sizeof(struct piano__live) == 48, "a format is bytes");
_Static_assert(sizeof(struct piano__snapshot_entry) == 40, "a format is bytes");
_Static_assert(sizeof(struct piano__symbol_frame) == 16, "a format is bytes");
_Static_assert(offsetof(struct piano__rec_header, stats) == 176, "a format is bytes");

#endif
