/* The state of a run in memory, and how to read it from another process.
 *
 * The runtime keeps all its state in one shared mapping of a file, the `.live` file next to the run
 * file. So a program that ends in any way (SIGKILL, `_exit`, a crash) leaves its numbers in the
 * file, without a handler or a flush. A clean exit removes the file.
 *
 *   image   = header (one page), then `block_bytes` bytes per thread block
 *   block   = struct piano__thread | heads[fn_capacity] | slots[fn_capacity] |
 *             entries[PIANO_MAX_DEPTH] | text[text_bytes] | struct piano__merged
 *   head    = what the inline probe needs for one function on one thread
 *   slot    = the rest of a function's state: control words and two tallies
 *   entry   = one open timed call (the span stack)
 *   text    = finished NDJSON lines that are not yet in the run file
 *   merged  = frames without a line of their own
 *
 * A tally counts finished work. `now` holds the work since the last line. `kept` holds the work
 * that was set aside when a frame began: it belongs to the level that encloses the frame. Three
 * linked lists connect the slots with something in `now`, those with something in `kept`, and those
 * that are sampled. A link is a slot index + 1; 0 ends the list.
 *
 * Only its thread writes to a block, except for `claim` and for what the watcher writes. Readers
 * (the tool, the exiting thread) must accept any bytes, so they check every index. */
#ifndef PIANO_COMMON_LIVE_H
#define PIANO_COMMON_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "common/hist.h"
#include "common/merged.h"

#define PIANO_LIVE_MAGIC "PIANOLV9"

enum {
    PIANO_LIVE_HEADER_BYTES = 4096,
    PIANO_MAX_DEPTH = 2048,
    PIANO_MAX_LEVEL = 8, /* a main loop is at most this many calls below the outermost */
    PIANO_NAME_BYTES = 16,
    PIANO_BODIES = 8,
};

/* Dropped items, by cause. Any thread adds (relaxed). */
struct piano__dropped {
    uint64_t frames;    /* frames without a line because the run file could not be written */
    uint64_t threads;   /* threads that could not get a block */
    uint64_t functions; /* functions beyond the capacity */
    uint64_t depth;     /* calls deeper than the span stack: counted, not timed */
    uint64_t write;     /* failed writes */
    uint64_t busy;      /* calls from a signal handler that interrupted the runtime */
    uint64_t
        allocators; /* 1: allocations are not known, an allocator in the executable is hidden */
};

struct piano__bias {     /* cost of the probes, in 1/256 ticks; see target/span/calibrate.c */
    int64_t plain_inner; /* a plain pair of clock reads: the part inside its own window */
    int64_t plain_outer; /* and the part outside, in the caller's window */
    int64_t alloc;       /* counting an allocation or a free */
    int64_t pair;        /* two fenced clock reads with nothing between them */
    /* How much longer a fenced probe takes when it measures itself, at the begin and at the end of
     * a call; see target/span/toll.h. */
    int64_t begin_read;
    int64_t end_read;
    /* Measured with bodies of PIANO_BODIES lengths, shortest first: */
    int64_t body[PIANO_BODIES];
    int64_t window[PIANO_BODIES]; /* what a fenced pair reports for such a body */
    int64_t inner[PIANO_BODIES];  /* the part of `window` that is not the body */
    int64_t outer[PIANO_BODIES];
    int64_t counted[PIANO_BODIES];   /* the inline path; its whole cost is in the caller's window */
    int64_t recursing[PIANO_BODIES]; /* the same for a function that calls itself */
};

struct piano__live_header {
    char magic[8];
    uint32_t header_bytes;
    uint32_t thread_bytes;
    uint32_t head_bytes;
    uint32_t slot_bytes;
    uint32_t entry_bytes;
    uint32_t fn_capacity;
    uint32_t text_bytes;
    uint64_t block_bytes;
    uint32_t block_count; /* blocks ever used; never decreases */
    uint32_t fn_count;
    int64_t start_ticks;
    uint64_t ns_per_tick_32; /* 32.32 fixed point */
    struct piano__bias bias;
    struct piano__dropped dropped;
};

struct piano__tally {
    int64_t calls;
    int64_t self; /* ticks; may be negative in one frame, as a remainder */
    int64_t total;
    int64_t raw; /* self without any correction */
    int64_t timed;
    double self_var; /* variance of `self` in ticks squared, where `self` is an estimate */
    double total_var;
    /* Ticks: how long the watcher found the thread in this function, see target/span/watch.c. */
    int64_t looked;
    double looked_var; /* variance of `looked`, in ticks squared */
    int64_t held;      /* the part of `looked` between two looks that met the same call */
    int64_t unwatched; /* ticks of self time before the watcher ran, see target/span/unwatched.c */
    int64_t longest;   /* ticks: the longest timed call */
    uint64_t alloc_count;
    uint64_t alloc_bytes;
    uint64_t free_count;
    uint64_t free_bytes;
    int64_t off_ns;  /* off-CPU part of the self time; known only for `checked` calls */
    int64_t runq_ns; /* the part of `off_ns` waiting for a CPU */
    int64_t checked; /* calls long enough to be checked */
};

/* A thread's time off the CPU, see target/span/onoff.h. */
struct piano__offcpu {
    int64_t tick;       /* time of the last reading; 0: none */
    int64_t off;        /* ns off the CPU since the thread was attached */
    int64_t runq;       /* the part of `off` waiting for a CPU; -1: unknown */
    int64_t given;      /* the part of `off` that checked calls account for */
    int64_t runq_given; /* the same for `runq` */
    int64_t timed;      /* ticks in checked calls */
};

enum piano__recursion { PIANO_NOT_RECURSIVE = 0, PIANO_CALLS_ITSELF, PIANO_CALLED_BACK };

enum piano__mode { PIANO_FENCED = 0, PIANO_PLAIN, PIANO_SAMPLED };

/* What probes cost that do not measure themselves, in 1/256 ticks; see target/span/toll.h. */
struct piano__toll {
    int64_t begin; /* charged to a call: at its begin and at its end */
    int64_t end;
    int64_t begin_mean; /* of measured probes, including the reads that measure them */
    int64_t end_mean;
    uint32_t seen; /* measured probes */
};

/* Value of `given` of a function with every call timed by the fenced clock, once its slot is set
 * up: the probe may take the path of target/span/span.c for such functions. */
enum { PIANO_GIVEN_FENCED = -1 };

struct piano__head { /* layout of struct __piano_head in common/probe.h */
    int32_t left;
    int32_t given;
    uint64_t each;
};

/* Returns how many calls the inline probe may still count. The probe decrements `left` before it
 * tests it, and increments it again if nothing was left. In between, a signal handler or the end of
 * the program may find -1. */
static inline int32_t piano__head_left(const struct piano__head *head)
{
    return head->left > 0 ? head->left : 0;
}

/* Returns the number of calls counted inline since the head was last settled. */
static inline int64_t piano__head_pending(const struct piano__head *head)
{
    int64_t pending = (int64_t)head->given - piano__head_left(head);
    return pending > 0 ? pending : 0;
}

/* Pack and unpack `each` of a head. The layout also holds for sums of `each`. */
static inline uint64_t piano__each(int64_t self, int64_t cost)
{
    return (uint64_t)self << 32 | (uint32_t)cost;
}

static inline int64_t piano__each_self(uint64_t each)
{
    return (int64_t)(each >> 32);
}

static inline int64_t piano__each_cost(uint64_t each)
{
    return (uint32_t)each;
}

/* Samples taken inside a call divide its self time into pieces. */
enum piano__piece { PIANO_PIECE_FIRST, PIANO_PIECE_INNER, PIANO_PIECE_LAST, PIANO_PIECES };
enum { PIANO_PIECE_SIZES = 4, PIANO_PAYEES = 2 };

/* What the watcher found when it looked during long pieces of a function's self time. */
struct piano__looks {
    /* Index + 1 of a sampled function that it calls, directly or not; 0: none. */
    uint32_t payee[PIANO_PAYEES];
    uint16_t count[PIANO_PAYEES];
    uint16_t own; /* found in the function itself */
};

struct piano__slot {
    struct piano__tally now;
    struct piano__tally kept;
    int32_t left_saved; /* `left` between outermost calls, if these are always timed */
    /* Ticks per counted call, callees included. The head has the price of the self time. */
    int64_t total_price;
    int64_t sample_self; /* sums over the last `samples` timed calls */
    int64_t sample_total;
    double mean;   /* ticks: running mean over timed calls */
    double square; /* ticks squared: running mean of squares */
    /* The same for rare long calls, as a mean over all calls; 0 if there are few. */
    int64_t rare_square;
    int64_t seen_ticks; /* sums over timed calls, to tell rare long calls from interrupts */
    int64_t rare_ticks;
    double rare_sum; /* sum of squares */
    uint32_t seen_calls;
    uint32_t rare_calls;
    /* 1/256 ticks: what timing one call takes, including callees that are timed because of it. */
    int64_t cost;
    int64_t outer_total;  /* of the outermost calls in this window */
    int64_t window_start; /* when the current window of calls began, or the last sample ended */
    /* Time that this function's probes took, in this window and in total, in 1/256 ticks. */
    int64_t window_spent;
    int64_t spent;
    int64_t looked;      /* ticks in total; only the watcher writes it */
    double looked_var;   /* variance of `looked`, in ticks squared; only the watcher writes it */
    int64_t held;        /* the part of `looked` between two looks that met the same call */
    int64_t looked_seen; /* the part of `looked` that is already in tallies */
    double looked_var_seen;
    int64_t held_seen;
    int64_t unwatched;  /* ticks of self time, while the watcher does not run */
    int64_t debt;       /* ticks that samples estimated, but for which no measured time was left */
    double seen_ever;   /* ticks in timed calls, older ones weighted less */
    double rare_ever;   /* the excess of rare long calls among them */
    int64_t rare_usual; /* usual length of such a call */
    int64_t reserve;    /* ticks that rare long calls among the counted ones must have taken */
    struct piano__looks looks[PIANO_PIECES][PIANO_PIECE_SIZES];
    int64_t piece[PIANO_PIECES]; /* ticks: longest usual piece of each kind */
    struct piano__toll toll;
    int64_t lack;        /* ticks: how far recent totals were below zero; <= 0 */
    int64_t frame_calls; /* calls per frame: a running mean, in 1/16 */
    int64_t frame_wall;  /* ns: wall time of the frames with calls: a running mean */
    uint32_t samples;
    uint32_t window_calls;
    uint32_t outer_calls;
    uint32_t window_frames; /* calls of this window that were frames */
    uint32_t stratum;       /* when sampled: one of this many calls is timed */
    int32_t rest;           /* how many of them follow the timed call */
    uint32_t next_now;
    uint32_t next_kept;
    uint32_t next_sampled;
    uint16_t open; /* timed calls of this function on the span stack */
    uint8_t mode;
    uint8_t in_now;
    uint8_t in_kept;
    uint8_t in_sampled;
    uint8_t recursive;   /* enum piano__recursion */
    uint8_t sampling;    /* a sampled call of this function is open */
    uint8_t warm;        /* the next due call is timed; it is not the warm-up call */
    uint8_t resting;     /* the sample of this stratum has been taken */
    uint8_t outer_timed; /* sampled only inside its outermost call, which is always timed */
    uint8_t was_first;   /* has been a first call at some level, see frame.c */
    uint8_t framed;      /* has been the root of a frame line */
    uint8_t was_long;    /* check its next call, see target/span/onoff.c */
    uint32_t mediums;    /* calls of medium length since the last checked one */
    int64_t medium_time; /* ticks in such calls since the last reading taken for them */
} __attribute__((aligned(64)));

enum {
    PIANO_ENTRY_FENCED = 1,
    PIANO_ENTRY_SAMPLED = 2,
    PIANO_ENTRY_FRAME = 4,
    PIANO_ENTRY_FIRST = 8,
    /* The call before a sample. It warms the caches for the probe and is not evaluated. */
    PIANO_ENTRY_WARM = 16,
    PIANO_ENTRY_BELOW = 32, /* timed because its caller is a sample */
    /* The probe did not measure itself, at the begin and at the end of the call. */
    PIANO_ENTRY_BEGIN_UNMEASURED = 64,
    PIANO_ENTRY_END_UNMEASURED = 128,
    PIANO_ENTRY_DRAWN = 256 /* measured because it was drawn at random */
};

struct piano__entry {
    uint32_t slot; /* index */
    uint32_t flags;
    uint64_t seq; /* tells this use of the entry from others */
    /* Stack pointer of the function and address of its probe, to detect a longjmp. */
    uintptr_t stack;
    uintptr_t site;
    uint64_t owner; /* previous owner of allocations (an address in the block, or 0) */
    int64_t start;
    int64_t attributed; /* the thread's running sums when the call began */
    int64_t overhead;
    int64_t raw;
    int64_t correction;
    double variance;
    int64_t itself;            /* ticks in timed calls of the same function directly below */
    int64_t probe;             /* 1/256 ticks: what the probe took before the call began */
    int64_t own;               /* self time when a sample was last taken inside */
    int64_t unpaid;            /* self time that a long counted call may have taken */
    int64_t piece_start;       /* when the current piece began */
    int64_t noise;             /* the size of the last sample's correction */
    uint32_t payee;            /* index + 1 of the function of the last sample */
    struct piano__offcpu look; /* `look` when the call began; valid below `looked_depth` */
    int64_t piece_off;         /* ns off the CPU between calls that it made, and the part of that */
    int64_t piece_runq;        /* waiting for a CPU; its tally gets them when it ends */
};

/* The tallies that a committed line contains. They are cleared right after the commit. For merged
 * frames, the bits from 8 on hold the index of the entry or of the function's histogram. */
enum {
    PIANO_CLEAR_NOW = 1,
    PIANO_CLEAR_KEPT = 2,
    PIANO_CLEAR_MERGED = 4,
    PIANO_CLEAR_MERGED_FN = 8
};

/* Which thread may change a block's lines. Its own thread sets and clears CHANGING and WRITING. The
 * exiting thread sets TAKEN, which is never cleared. */
enum { PIANO_CLAIM_CHANGING = 1, PIANO_CLAIM_WRITING = 2, PIANO_CLAIM_TAKEN = 4 };

enum piano__thread_state { PIANO_THREAD_FREE = 0, PIANO_THREAD_RUNNING, PIANO_THREAD_ENDED };

/* What the watcher found in one burst of looks at a thread: a function, and ticks given to it. */
enum { PIANO_BURST = 32 };
struct piano__found {
    uint32_t slot; /* index */
    int64_t ticks;
};

struct piano__thread {
    /* The beginning is shared with the inline probe: struct __piano_thread. */
    struct piano__head none;
    uint64_t limit;
    uint64_t owner;
    uint64_t counted;
    uint64_t probing;      /* a probe times a call: the watcher ignores what it finds meanwhile */
    int64_t unmeasured;    /* probes until the next one that is measured */
    int64_t crowded_until; /* until then every probe is measured, see target/span/toll.h */

    int64_t attributed; /* ticks attributed to functions so far, without those in `counted` */
    int64_t overhead;   /* 1/256 ticks that the probes took, likewise */
    int64_t raw;        /* the part of `overhead` that was charged to functions */
    int64_t correction; /* ticks that samples added to the price of counted calls */
    double variance;    /* the sum of the squares of these corrections */
    uint64_t real_limit;
    uint64_t seq;
    uint64_t random;
    uintptr_t busy; /* stack address of the call that changes the tables; 0: none */
    uint32_t depth;
    uint32_t state;
    uint32_t number; /* in the run file; never reused */
    int32_t tid;
    uint32_t now_list;
    uint32_t kept_list;
    uint32_t sampled_list; /* all functions that have ever been sampled on this block */
    int32_t kept_depth;    /* the frame level of `kept`; -1: outside any frame */
    uint32_t chain;        /* levels open as first calls, see frame.c */
    uint32_t parent_thread;
    int32_t parent_fn;
    int64_t born;      /* ticks */
    int64_t last_tick; /* time of the last timed exit */
    int64_t last_flush;
    uintptr_t stack_low; /* bounds of this thread's stack mapping, once it was looked up */
    uintptr_t stack_high;
    union { /* one store commits a line and invalidates the tallies in it */
        uint64_t commit;
        struct {
            uint32_t text_len; /* bytes of `text`; the lower half of `commit` */
            uint32_t clearing; /* PIANO_CLEAR_*: tallies in `text` that are not yet cleared */
        };
    };
    char name[PIANO_NAME_BYTES];

    /* Frames closed on this thread. */
    uint64_t frames;
    int64_t brake;       /* 1/16: factor for strata, raised when timing takes too much */
    int64_t frame_fns;   /* 1/16: sampled functions per frame, a running mean */
    int64_t frame_work;  /* 1/256 ticks: part of `overhead`: frames and readings of CPU time */
    int64_t budget_tick; /* what the probes may take, see stratum.c */
    int64_t budget_spent;
    int64_t share;
    int64_t density;     /* how densely calls are sampled, see stratum.c */
    int64_t target;      /* timed calls may take 1/target of the time */
    int64_t target_tick; /* when `target` last changed */
    int64_t pace;        /* cost factor of fenced probes, see span/pace.h; 0: unknown yet */
    int64_t look_tick;   /* when the watcher last looked at the thread */
    /* Index of the function it found. Only the watcher writes this, `look_tick` and `burst_*`. */
    uint32_t look_slot;
    uint32_t burst_count; /* functions found in the last burst of looks */
    struct piano__found burst[PIANO_BURST];
    uint64_t burst_counted; /* `counted` and `seq` at that burst */
    uint64_t burst_seq;
    uint32_t watched; /* the thread has noticed that the watcher runs */
    int64_t pair_ticks;
    int32_t pairs;
    int32_t next_pair;  /* fenced calls until the next measurement of `pace` */
    int64_t token_tick; /* token bucket of frame lines */
    int64_t tokens;
    /* For lines below the outermost level, of which a wrong guess may produce many. */
    int64_t deep_tokens;
    int64_t median_wall; /* ticks; 0: unknown yet */
    uint32_t walls_seen;
    uint32_t walls[PIANO_HIST_BUCKETS]; /* ns, for the median */
    /* 1 + an earlier size of the run file, while `text` is written to it; else 0. */
    uint64_t flush_at;
    uint32_t claim; /* PIANO_CLAIM_* */
    /* Nonzero while a tally is replaced. 2 * (slot + 1) + 1: `moved` is `kept` of that slot, and
     * its `now` is void. 2 * (slot + 1): `moved` is its `now`, and it has no pending calls. */
    uint32_t moving;
    struct piano__tally moved;

    /* Time off the CPU, ns: see target/span/onoff.c. */
    struct piano__offcpu look;
    /* Ticks: when the next reading is due for a function with long calls, and for any other. */
    int64_t look_soon;
    int64_t look_late;
    int64_t off_base;     /* clock minus CPU time when `look.off` was 0 */
    int64_t runq_base;    /* the kernel's count when `look.runq` was 0 */
    int64_t runq_off;     /* `look.off` when the kernel was last asked for `look.runq` */
    int64_t off_skipped;  /* off-CPU time while the profiler worked; not in `look.off` */
    int64_t runq_skipped; /* the same for `look.runq` */
    uint32_t runq_file;   /* 1 + index of the open schedstat file; 0: none */
    /* Open calls below this depth have their own `look`. Those above began with the current one. */
    uint32_t looked_depth;
    int64_t reserved[6]; /* to the end of its cache line */
} __attribute__((aligned(64)));

/* The bytes of the run file that the image belongs to. */
struct piano__written {
    const char *data;
    size_t len;
};

/* Calls SINK with the text that is not in the file WRITTEN: whole lines, each ending in a newline,
 * possibly several per call. IMAGE may contain anything, and is aligned to a page. Returns 0, or -EINVAL if it is not a live
 * image of this version. */
int piano__live_lines(const void *image, size_t size, struct piano__written written,
                      void (*sink)(void *ctx, const char *text, size_t len), void *ctx);

/* The same for one block of a thread that still runs when the program exits, as of END ticks. LOOK
 * is a current reading of its CPU time, or NULL. */
void piano__live_thread(const struct piano__live_header *header, const void *block, int64_t end,
                        const struct piano__offcpu *look,
                        void (*sink)(void *ctx, const char *text, size_t len), void *ctx);

#endif
