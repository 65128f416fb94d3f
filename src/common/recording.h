/* The recording: one file for all profilers that need no instrumented build.
 * docs/recording-format.md describes it byte by byte.
 *
 *   file  = header (PIANO_REC_HEADER_BYTES), then chunks of PIANO_REC_CHUNK_BYTES as claimed
 *   chunk = struct piano__chunk, then its payload
 *
 * The program maps the file shared. So everything it has stored is in the file, however it ends.
 * The program or the tool claims a chunk by raising `chunks` by 1. The disk blocks of a chunk are
 * reserved before it is mapped: a full disk makes the claim fail instead of raising SIGBUS. A
 * claimed chunk with `ready` 0 was never finished, and readers skip it. They also skip chunks of
 * unknown types.
 *
 * Tables (TOTALS, LIVE) are arrays of fixed-size records: chunk `index` i holds records i*n to
 * i*n+n-1. Logs (all other types except EVENTS and DEFINITIONS) hold `used` bytes of records. A record begins with
 * its length and never crosses a chunk boundary. Everything is little-endian and aligned to 8
 * bytes.
 *
 * A `double` here is a sum of weights: what the samples represent, see docs/heap.md. */
#ifndef PIANO_COMMON_RECORDING_H
#define PIANO_COMMON_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#define PIANO_REC_MAGIC "PIANOREC"

/* A tool that writes to a recording holds a read lock (F_OFD_SETLK) on this byte, far beyond the
 * file. So readers see that it is being written even if the program has not mapped it. */
#define PIANO_REC_HELD_AT ((int64_t)1 << 40)

enum {
    PIANO_REC_VERSION = 1, /* readers refuse a higher one */
    PIANO_REC_HEADER_BYTES = 4096,
    PIANO_REC_CHUNK_BYTES = 64 * 1024,
    PIANO_REC_PAYLOAD = PIANO_REC_CHUNK_BYTES - 64,
    PIANO_REC_PATH = 1024,
    PIANO_REC_MAX_CHUNKS = 16384, /* 1 GB */
    PIANO_MAX_FRAMES = 128,
    PIANO_LIFETIMES = 32,
    /* A chunk of DEFINITIONS has this many parts, each with a header of its own. */
    PIANO_DEFINITION_PARTS = 16,
    PIANO_DEFINITION_BYTES = PIANO_REC_PAYLOAD / PIANO_DEFINITION_PARTS & ~7,
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
    /* Events that say what exists: tasks and workers. EVENTS are reused when they are full; these
     * are not. */
    PIANO_CHUNK_DEFINITIONS = 12,
    PIANO_CHUNK_TYPES, /* all known types are below */
};

struct piano__chunk {
    uint32_t type;
    uint32_t ready; /* 1 once the chunk header is complete; stored last, with release */
    uint64_t index; /* counts the chunks of this type from 0 */
    uint64_t used;  /* committed payload bytes of a log; release store after the record */
    /* SNAPSHOT: 1 if several tools write to it, one at a time (flock on the file). */
    uint64_t shared;
    /* EVENTS: 1 + the index of the chunk that holds the events before; 0: there are none;
     * PIANO_EVENTS_GAP: some were dropped. */
    uint64_t previous;
    /* EVENTS, once the chunk is full: time of the newest event, number of events. */
    uint64_t last_ns;
    uint64_t events;
    uint64_t reserved;
};

#define PIANO_EVENTS_GAP UINT64_MAX

/* Counters by cause. Any thread adds (relaxed). */
struct piano__heap_stats {
    uint64_t samples;       /* allocations sampled */
    uint64_t freed;         /* sampled allocations that were freed */
    uint64_t stacks;        /* distinct stacks */
    uint64_t collisions;    /* stack look-ups that found another stack first */
    uint64_t filter_passes; /* frees that had to be looked up */
    uint64_t filter_misses; /* of these, frees of blocks that were not sampled */
    /* A sampled address was allocated again although its free was not seen. */
    uint64_t stale;
    uint64_t dropped_live;   /* samples not tracked as live: live table full */
    uint64_t dropped_stacks; /* samples with stack 0: stack table full */
    uint64_t dropped_memory; /* samples not tracked as live: no memory, disk full, file gone */
    uint64_t dropped_busy;   /* samples of a signal handler that interrupted another sample */
    uint64_t walked;         /* stacks walked */
    uint64_t walked_frames;  /* the sum of their depths */
    /* Walks that ended before the thread's first function: no table, no frame pointer. */
    uint64_t walked_lost;
    uint64_t walked_full;  /* walks truncated at PIANO_MAX_FRAMES */
    uint64_t walked_by_fp; /* walks that used a frame pointer somewhere */
    uint64_t threads;      /* threads that took a sample */
    uint64_t map_calls;    /* mmap and munmap of anonymous memory, if recorded */
    uint64_t map_partial;  /* munmap of a part of a mapping: not tracked */
    uint64_t walked_least; /* 1 + the depth of the shallowest stack; 0: none was walked */
    /* An allocator in the executable: enum piano__own_state, _kind and _reason. */
    uint64_t own_state;
    uint64_t own_kind;
    uint64_t own_reason;
    uint64_t reserved[9];
};

enum piano__rec_state {
    PIANO_REC_STARTING = 0,
    PIANO_REC_ACTIVE = 1,
    PIANO_REC_STOPPED = 2,    /* no new samples; frees are still tracked */
    PIANO_REC_TERMINATED = 3, /* permanently */
    PIANO_REC_ENDED = 4,      /* the program exited normally */
};

enum piano__rec_flags {
    PIANO_REC_HAS_HEAP = 1,
    PIANO_REC_HAS_MAPS = 2, /* anonymous mmap is recorded too */
    PIANO_REC_CHILD = 4,    /* of a forked process; does not contain what it inherited */
    PIANO_REC_HAS_CPU = 8,
    PIANO_REC_HAS_EVENTS = 16,
    /* The process ran already (`piano record --pid`): what it allocated before is unknown. */
    PIANO_REC_ATTACHED = 32,
};

enum piano__cpu_source {
    PIANO_CPU_NONE = 0,
    PIANO_CPU_CLOCK = 1,  /* perf, software cpu-clock */
    PIANO_CPU_CYCLES = 2, /* perf, hardware cycles */
    PIANO_CPU_TIMERS = 3, /* a CPU-time timer and a signal per thread, if perf is refused */
};

/* Events and CPU samples. */
struct piano__trace {
    uint64_t start_ticks; /* ticks of the events' clock at `start_mono_ns` */
    uint64_t end_ticks;   /* the same pair again, as late as possible; 0: none */
    uint64_t end_mono_ns;
    uint32_t has_counter; /* the events' clock is the processor's counter, else CLOCK_MONOTONIC */
    uint32_t cpu_source;  /* enum piano__cpu_source */
    uint64_t cpu_hz;
    uint64_t events;         /* events written */
    uint64_t dropped_memory; /* events dropped because no chunk was available */
    uint64_t dropped_busy;   /* events of a signal handler that interrupted another event */
    uint64_t dropped_names;  /* names beyond the table: their events have name 0 */
    /* Chunks of old events that were reused for new ones, to stay within the size limit. */
    uint64_t recycled;
    uint64_t samples;
    uint64_t samples_lost;    /* as reported by the kernel, or computed from missing CPU time */
    uint64_t samples_unwound; /* samples with a complete stack */
    uint64_t switches;
    uint64_t threads_missed; /* threads that got neither a timer nor a perf event */
    /* The ring of events: chunks it has so far, and how many it may have. */
    uint64_t ring_chunks;
    uint64_t ring_most;
    uint64_t overwritten;    /* events in recycled chunks */
    uint64_t overwritten_ns; /* time of the newest of them: all later events are there */
    /* Definitions in the ring, where they may be overwritten: their log was full. */
    uint64_t definitions_in_ring;
    uint64_t reserved[7];
    uint64_t sampled_ns; /* CPU time that all samples represent */
    /* CPU time of what was sampled as the kernel counts it, written by the tool; 0: unknown. */
    uint64_t kernel_ns;
    uint64_t cpu_error; /* errno: why there are no CPU samples although they were asked for */
};

enum piano__fired_kind {
    PIANO_FIRED_LONG_POLL = 1, /* `value` and `limit`: nanoseconds */
    PIANO_FIRED_GROWTH = 2, /* `value` and `limit`: thousandths of what was live a window before */
};
enum piano__fired_action { PIANO_FIRED_SNAPSHOT = 1, PIANO_FIRED_END = 2 };

/* A condition that the user gave to `piano record` came true. */
struct piano__fired {
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    uint32_t kind;
    uint32_t action;
    uint64_t value;
    uint64_t limit;
    char what[160]; /* the task and its thread; ends with a NUL */
};

/* Limits on the further processes that are recorded, in the recording of the program. They all map it
 * and change `count`, `refused` and `chunks` (relaxed: counters). */
struct piano__rec_family {
    uint32_t most;    /* processes with recordings at a time; 0: no limits */
    uint32_t count;   /* how many there are, without those whose recordings were removed */
    uint64_t refused; /* processes beyond */
    int64_t chunks;   /* that all of them together may still claim */
    uint64_t emptied; /* processes that removed their recordings, with nothing in them */
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
    uint64_t end_mono_ns; /* 0 unless the program exited normally */
    uint64_t rate;        /* current mean bytes between samples; 1 = every allocation */
    uint64_t exit_status; /* written by the tool: 0 unknown, else 1 + the status of waitpid */
    uint64_t snapshots;   /* snapshots begun so far */
    /* Sums over all stacks. `live_bytes` is what is not freed now; the peak is the maximum of
     * `live_bytes`. */
    double live_bytes;
    double live_objects;
    double allocated_bytes;
    double allocated_objects;
    double allocated_variance; /* of allocated_bytes: the sum over samples of w^2 (1-p) */
    double live_variance;
    double peak_bytes;
    double peak_objects;
    uint64_t peak_ns;    /* CLOCK_MONOTONIC */
    uint64_t peak_epoch; /* increases with every new peak; see struct piano__totals */
    struct piano__heap_stats stats;
    char program[PIANO_REC_PATH]; /* /proc/self/exe */
    char command[PIANO_REC_PATH]; /* argv, NUL between words, truncated if too long */
    struct piano__trace trace;
    double untracked_bytes;    /* over all stacks, see struct piano__totals */
    uint64_t max_chunks;       /* limit on the number of chunks; 0: PIANO_REC_MAX_CHUNKS */
    uint64_t samples_given_up; /* old CPU samples and switches that were overwritten by new ones */
    double peak_variance;      /* `live_variance` at the peak */
    /* CLOCK_MONOTONIC: the tool has ended the recording, but not the program. Nothing later counts.
     * 0: it has not. */
    uint64_t ended_ns;
    uint64_t fired; /* how often a condition came true: time n, from 0, is in `fires[n % 4]` */
    struct piano__fired fires[4];
    /* CLOCK_MONOTONIC when `piano record` started: the same in the recordings of all processes of
     * one command. Written by the tool at the end; 0: unknown. */
    uint64_t session_ns;
    struct piano__rec_family family;
    /* CPU time of this process alone as the kernel counts it, written by the tool; 0: unknown. */
    uint64_t process_cpu_ns;
};

/* Returns the largest number of chunks that the recording may have. */
static inline uint64_t piano__rec_most(const struct piano__rec_header *h)
{
    return h->max_chunks > 0 && h->max_chunks < PIANO_REC_MAX_CHUNKS ? h->max_chunks
                                                                     : PIANO_REC_MAX_CHUNKS;
}

/* Returns how many chunks a file of BYTES can hold; 0: no limit. */
static inline uint64_t piano__rec_chunks_in(uint64_t bytes)
{
    uint64_t chunks = bytes > PIANO_REC_HEADER_BYTES
                          ? (bytes - PIANO_REC_HEADER_BYTES) / PIANO_REC_CHUNK_BYTES
                          : 0;
    return bytes > 0 && chunks == 0 ? 1 : chunks;
}

enum piano__module_flags { PIANO_MODULE_BUILD_ID = 1 };

/* A log record. The module belongs to the stacks of generations `since` <= g < `until`; `until` is
 * UINT32_MAX if it was not replaced. A new generation begins when another library is found where a
 * module was unloaded (target/record/modules.c). File address of a pc = pc - bias. */
struct piano__module {
    uint32_t bytes; /* of this record, a multiple of 8 */
    uint32_t since;
    uint32_t until;
    uint32_t build_id_len;
    uint64_t start; /* bounds of its mapping */
    uint64_t end;
    uint64_t bias;
    uint8_t build_id[32];
    char path[]; /* ends with a NUL */
};

/* The path of a mapping with code but no file, as a runtime makes it for JIT code. */
#define PIANO_NO_FILE "//anon"

enum piano__stack_flags {
    PIANO_STACK_LOST = 1,  /* the walk ended early */
    PIANO_STACK_FULL = 2,  /* deeper than PIANO_MAX_FRAMES */
    PIANO_STACK_BY_FP = 4, /* a frame pointer was used */
    PIANO_STACK_MMAP = 8,  /* the memory is from mmap, not from malloc */
};

/* A log record. Frames are return addresses, innermost first: the call is at pc-1. The first frame
 * is the caller of malloc (or mmap). Stack 0 has no record: samples get it when there is no room
 * for their stack. */
struct piano__stack {
    uint32_t bytes; /* of this record */
    uint32_t id;    /* from 1; also its index in TOTALS */
    uint32_t flags;
    uint32_t depth;
    uint64_t generation; /* module generation, see above */
    uint64_t hash;
    uint64_t pcs[];
};

/* Sums per stack. Lifetime bucket b counts freed samples that lived at least 2^(b-1) and less than
 * 2^b microseconds.
 *
 * Live bytes at the peak: `peak_*` if `seen_epoch` equals the header's `peak_epoch`, else the
 * current live bytes, which have not changed since. */
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
    uint64_t last_ns; /* time of the newest sample, CLOCK_MONOTONIC */
    /* Samples that found no room in the live table: their frees are not seen. They are in none of
     * the sums of freed or live bytes. */
    uint64_t untracked;
    double untracked_bytes;
    double untracked_objects;
    double untracked_variance;
    uint32_t lifetimes[PIANO_LIFETIMES];
};

/* A sampled block that is not freed. `key` is 0 if the record is free. Else its low 48 bits are the
 * address, and the bits above are a generation of the record. A reader accepts the record if `key`
 * is the same before and after reading it. */
struct piano__live {
    uint64_t key;
    uint64_t size;
    uint64_t rate; /* rate when the gap that selected this block was drawn */
    uint64_t birth_ns;
    uint32_t stack;
    uint32_t thread; /* its tid */
    uint64_t next;   /* for the program's free list; readers ignore it */
};

enum piano__snapshot_kind {
    PIANO_SNAPSHOT_TIMER = 1,
    PIANO_SNAPSHOT_ASKED = 2,  /* `piano snapshot PID`, or a signal to `piano record` */
    PIANO_SNAPSHOT_CALLED = 3, /* piano_heap_snapshot */
};

/* One stack at one time: sums as in TOTALS. */
struct piano__snapshot_entry {
    uint32_t stack;
    uint32_t live_samples;
    double live_bytes;
    double live_objects;
    double allocated_bytes;
    double live_variance;
};

/* A log record. A snapshot of many stacks has several parts with the same `number`: `part` 0 to
 * `parts`-1. It is complete when all parts are present. Stacks without allocations are left out. */
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
    uint64_t resident_bytes; /* of the program, from /proc; 0: unknown */
    struct piano__snapshot_entry entries[];
};

/* A log record: a thread, written by the program or by the tool. A later record with the same tid
 * updates it. */
struct piano__thread_record {
    uint32_t bytes;
    uint32_t tid;
    uint32_t pid;
    uint32_t reserved;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
    char name[16];
};

/* A log record. Number 0 means no name. */
struct piano__name {
    uint32_t bytes;
    uint32_t id;
    char text[]; /* ends with a NUL */
};

/* A log record: a CPython code object that was found in a stack. Frames refer to it by its number,
 * from 1 (common/python.h). Its texts are characters of `width` bytes each; a width of 0 means that
 * the text could not be read. */
struct piano__python_code {
    uint32_t bytes;
    uint32_t id;
    uint32_t first_line;
    uint32_t name_len; /* lengths in bytes */
    uint32_t file_len;
    uint32_t table_len;
    uint8_t name_width;
    uint8_t file_width;
    uint8_t reserved[6];
    char text[]; /* its qualified name, its file, its table of lines (co_linetable) */
};

/* The meaning of addresses, written by the tool while the files that ran still exist. Four kinds
 * of log records share one chunk type. Texts and modules are numbered from 1. */
enum piano__symbol_kind {
    PIANO_SYMBOL_TEXT = 1,
    PIANO_SYMBOL_MODULE = 2,
    PIANO_SYMBOL_ADDRESS = 3,
    PIANO_SYMBOL_JIT = 4,
};

struct piano__symbol_text {
    uint32_t bytes;
    uint32_t kind;
    uint32_t id;
    uint32_t reserved;
    char text[]; /* ends with a NUL */
};

/* A module, identified by path and build-id, no matter where and how often it was mapped. */
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
    uint32_t function; /* number of a text */
    uint32_t file;     /* number of a text; 0: unknown */
    uint32_t line;     /* 0: unknown */
    uint32_t flags;
};

/* The functions at one address, innermost first: inlined functions, then the containing one. */
struct piano__symbol_address {
    uint32_t bytes;
    uint32_t kind;
    uint32_t module; /* 0: the kernel */
    uint32_t count;  /* number of frames */
    /* In the module's file; the address of the call for a return address. For the kernel, in
     * memory. */
    uint64_t address;
    struct piano__symbol_frame frames[];
};

/* A function at an address of process `pid` that is in no file (JIT code), from `since` until
 * before `until` (CLOCK_MONOTONIC; 0 and UINT64_MAX: at any time). Of several that hold at one
 * time, the first in the file counts. */
struct piano__symbol_jit {
    uint32_t bytes;
    uint32_t kind;
    uint32_t pid;
    uint32_t line;    /* 0: unknown */
    uint64_t address; /* in memory; the address of the call for a return address */
    uint64_t since;
    uint64_t until;
    uint32_t function; /* number of a text */
    uint32_t file;     /* number of a text; 0: unknown */
};

enum piano__sample_kind {
    PIANO_SAMPLE_CPU = 1, /* `value`: ns of CPU time that the sample represents */
    /* The thread left the CPU here for `value` ns; 0: it did not return. */
    PIANO_SAMPLE_OFF = 2,
};

enum piano__sample_flags {
    /* The thread was still runnable: it waited only for a CPU. */
    PIANO_SAMPLE_PREEMPTED = 1,
};

/* A log record. Stacks written by the tool have bit 31 of their number set, and no TOTALS. */
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
/* CPU samples that the program takes itself: flag in the numbers of their stacks, and in the
 * generations of their modules. */
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
_Static_assert(sizeof(struct piano__symbol_jit) == 48, "a format is bytes");
_Static_assert(offsetof(struct piano__rec_header, stats) == 176, "a format is bytes");

#endif
