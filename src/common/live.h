/* What a run has in memory, and how to read it from outside.
 *
 * The runtime keeps all its state in one file-backed shared mapping, the `.live` file beside the run
 * file, so that a program which dies by any means (SIGKILL, `_exit`, a crash) leaves its numbers behind
 * without a handler or a flush. At a clean exit the file is removed.
 *
 *   image   = header (one page), then `block_bytes` bytes per thread block
 *   block   = struct piano__thread | heads[fn_capacity] | slots[fn_capacity] |
 *             entries[PIANO_MAX_DEPTH] | text[text_bytes] | struct piano__merged
 *   head    = what the inline probe needs of one function on one thread
 *   slot    = the rest of it: control words and two tallies
 *   entry   = one open timed call (the span stack)
 *   text    = finished NDJSON lines not yet written to the run file
 *   merged  = frames without a line of their own
 *
 * A tally is settled work. `now` holds what happened since the last line; `kept` what was set aside because
 * a frame began (it belongs to whatever encloses that frame). The slots with something in `now` or in
 * `kept`, and those that are sampled, form three lists, linked by slot index + 1 (0 ends).
 *
 * Writers: each block is written by its thread alone. Readers (the tool; the exiting thread) take what they
 * see and must survive any bytes: every index is checked. */
#ifndef PIANO_COMMON_LIVE_H
#define PIANO_COMMON_LIVE_H

#include <stddef.h>
#include <stdint.h>

#include "common/hist.h"
#include "common/merged.h"

#define PIANO_LIVE_MAGIC "PIANOLV7"

enum {
    PIANO_LIVE_HEADER_BYTES = 4096,
    PIANO_MAX_DEPTH = 2048,
    PIANO_MAX_LEVEL = 8, /* how deep a main loop may hide below the outermost call */
    PIANO_NAME_BYTES = 16,
    PIANO_BODIES = 8,
};

/* Everything dropped, by cause; any thread, relaxed adds. */
struct piano__dropped {
    uint64_t frames;    /* frames without a line because the run file could not be written */
    uint64_t threads;   /* threads that could not get a block */
    uint64_t functions; /* functions beyond the capacity */
    uint64_t depth;     /* calls deeper than the span stack: counted, not timed */
    uint64_t write;     /* failed writes */
    uint64_t busy;      /* calls from a signal handler that hit the runtime at work */
};

struct piano__bias {     /* what probes cost, in 1/256 ticks; see target/span/calibrate.c */
    int64_t plain_inner; /* of a plain pair of clock reads, inside its own window */
    int64_t plain_outer; /* and outside, in the caller's */
    int64_t alloc;       /* of counting an allocation or a free */
    int64_t pair;        /* between two fenced clock reads with nothing between them */
    /* Around bodies of PIANO_BODIES lengths, shortest first: */
    int64_t body[PIANO_BODIES];
    int64_t window[PIANO_BODIES]; /* what a fenced pair reports for such a body */
    int64_t inner[PIANO_BODIES];  /* the part of that which is not the body */
    int64_t outer[PIANO_BODIES];
    int64_t counted[PIANO_BODIES];   /* of the inline path, all in the caller's window */
    int64_t recursing[PIANO_BODIES]; /* the same of a function that calls itself */
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
    uint32_t block_count; /* blocks ever used; grows only */
    uint32_t fn_count;
    int64_t start_ticks;
    uint64_t ns_per_tick_32; /* 32.32 fixed point */
    struct piano__bias bias;
    struct piano__dropped dropped;
};

struct piano__tally {
    int64_t calls;
    int64_t self; /* ticks; signed: a residue may be negative in one frame */
    int64_t total;
    int64_t raw; /* self without any correction */
    int64_t timed;
    double self_var; /* ticks squared: the variance of `self`, where it depends on an estimate */
    double total_var;
    int64_t
        looked; /* ticks: how long the watcher found the thread in this function, see span/watch.c */
    double looked_var; /* ticks squared: the variance of that */
    int64_t unwatched; /* ticks of self time before the watcher ran, see span/unwatched.c */
    int64_t longest;   /* ticks: the longest timed call */
    uint64_t alloc_count;
    uint64_t alloc_bytes;
    uint64_t free_count;
    uint64_t free_bytes;
    int64_t off_ns;  /* of the self time, off the CPU; known of `checked` calls only */
    int64_t runq_ns; /* of that, waiting for a CPU */
    int64_t checked; /* calls long enough to be checked */
};

/* What is known of a thread's time off the CPU, see target/span/onoff.h. */
struct piano__offcpu {
    int64_t tick;       /* of the last reading; 0: none */
    int64_t off;        /* ns off the CPU since the thread was attached */
    int64_t runq;       /* of these, waiting for a CPU; -1: not known */
    int64_t given;      /* of `off`, what is accounted for by checked calls */
    int64_t runq_given; /* the same of `runq` */
    int64_t timed;      /* ticks in checked calls */
};

enum piano__recursion { PIANO_NOT_RECURSIVE = 0, PIANO_CALLS_ITSELF, PIANO_CALLED_BACK };

enum piano__mode { PIANO_FENCED = 0, PIANO_PLAIN, PIANO_SAMPLED };

struct piano__head { /* struct __piano_head of common/probe.h */
    int32_t left;
    int32_t given;
    uint64_t each;
};

/* What is left for the inline probe. That takes one off before it looks, and puts it back when there was none: in between, where a
 * signal handler may come, or the end of the program, there is one less than none. */
static inline int32_t piano__head_left(const struct piano__head *head)
{
    return head->left > 0 ? head->left : 0;
}

/* The calls counted inline since the head was settled. */
static inline int64_t piano__head_pending(const struct piano__head *head)
{
    int64_t pending = (int64_t)head->given - piano__head_left(head);
    return pending > 0 ? pending : 0;
}

/* `each` of a head, and their sum. */
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

/* Samples that are taken inside a call cut its own time into pieces. */
enum piano__piece { PIANO_PIECE_FIRST, PIANO_PIECE_INNER, PIANO_PIECE_LAST, PIANO_PIECES };
enum { PIANO_PIECE_SIZES = 4, PIANO_PAYEES = 2 };

/* Whom the watcher found when it looked inside long pieces of a function's own time. */
struct piano__looks {
    uint32_t payee
        [PIANO_PAYEES]; /* index + 1 of a sampled function that it calls, more or less directly; 0: none */
    uint16_t count[PIANO_PAYEES];
    uint16_t own; /* the function itself */
};

struct piano__slot {
    struct piano__tally now;
    struct piano__tally kept;
    int32_t left_saved; /* `left` between outermost calls, when these are always timed */
    int64_t
        total_price; /* ticks per counted call, callees included; the price of self is in the head */
    int64_t sample_self; /* sums over the last `samples` timed calls */
    int64_t sample_total;
    double mean;   /* ticks: running mean over timed calls */
    double square; /* ticks squared, likewise */
    int64_t
        rare_square; /* the same of rare long calls, as a mean over all calls; 0 where there are few */
    int64_t seen_ticks; /* sums over timed calls, to tell rare calls from interrupts */
    int64_t rare_ticks;
    double rare_sum; /* of squares */
    uint32_t seen_calls;
    uint32_t rare_calls;
    int64_t cost; /* 1/256 ticks: what timing one call takes, callees timed for it included */
    int64_t outer_total;  /* of the outermost calls in this window */
    int64_t window_start; /* when the current window of calls began, or the last sample ended */
    /* What its probes took, in this window and ever, in 1/256 ticks. */
    int64_t window_spent;
    int64_t spent;
    int64_t looked;      /* ticks, ever; written by the watcher alone */
    double looked_var;   /* ticks squared, likewise */
    int64_t looked_seen; /* the parts of these that are in tallies */
    double looked_var_seen;
    int64_t unwatched;  /* ticks of self time, while the watcher does not run */
    int64_t debt;       /* ticks: what samples say, and no measured time was left for */
    double seen_ever;   /* ticks in timed calls, older ones count less, */
    double rare_ever;   /* and by how much rare long ones of them were longer */
    int64_t rare_usual; /* how long such a call usually is */
    int64_t reserve;    /* ticks that rare long calls among the counted ones must have taken */
    struct piano__looks looks[PIANO_PIECES][PIANO_PIECE_SIZES];
    int64_t piece[PIANO_PIECES]; /* ticks that such a piece of a call's own time takes, at most */
    int64_t frame_calls;         /* calls per frame: a running mean, in 1/16 */
    int64_t frame_wall;          /* ns: wall time of the frames it was called in, likewise */
    uint32_t samples;
    uint32_t window_calls;
    uint32_t outer_calls;
    uint32_t window_frames; /* calls of this window that were frames */
    uint32_t stratum;       /* when sampled: of so many calls one is timed, */
    int32_t rest;           /* and so many of them follow it */
    uint32_t next_now;
    uint32_t next_kept;
    uint32_t next_sampled;
    uint16_t open; /* timed calls of this function on the stack */
    uint8_t mode;
    uint8_t in_now;
    uint8_t in_kept;
    uint8_t in_sampled;
    uint8_t recursive;   /* enum piano__recursion */
    uint8_t sampling;    /* a sampled call of it is open */
    uint8_t warm;        /* the next call that is due is timed, and not the one that warms up */
    uint8_t resting;     /* the sample of this stratum has been taken */
    uint8_t outer_timed; /* sampled only inside its outermost call, which is always timed */
    uint8_t was_first;   /* has been a first call at some level, see frame.c */
    uint8_t framed;      /* has been the root of a frame line */
    uint8_t was_long;    /* its next call is to be checked, see target/span/onoff.c */
    uint32_t mediums;    /* calls of medium length since the last of them that was checked */
    int64_t medium_time; /* ticks in them since the last reading taken for their sake */
} __attribute__((aligned(64)));

enum {
    PIANO_ENTRY_FENCED = 1,
    PIANO_ENTRY_SAMPLED = 2,
    PIANO_ENTRY_FRAME = 4,
    PIANO_ENTRY_FIRST = 8,
    PIANO_ENTRY_WARM =
        16, /* the call before a sample: brings the probe into the caches, tells nothing */
    PIANO_ENTRY_BELOW = 32 /* timed because its caller is a sample */
};

struct piano__entry {
    uint32_t slot; /* index */
    uint32_t flags;
    uint64_t seq;    /* tells this use of the entry from others */
    uintptr_t stack; /* stack pointer of the function and place of its probe, to notice a longjmp */
    uintptr_t site;
    uint64_t owner; /* previous owner of allocations (an address in the block, or 0) */
    int64_t start;
    int64_t attributed; /* the thread's running sums when the call began */
    int64_t overhead;
    int64_t raw;
    int64_t correction;
    double variance;
    int64_t itself;            /* ticks in timed calls of the same function right below */
    int64_t probe;             /* 1/256 ticks: what the probe took before the call began */
    int64_t own;               /* own time when a sample was last taken inside */
    int64_t unpaid;            /* the part of it that a long counted call may have taken */
    int64_t piece_start;       /* when that was */
    int64_t noise;             /* what it corrected */
    uint32_t payee;            /* index + 1 of the function of that sample */
    struct piano__offcpu look; /* the thread's when the call began; valid below `looked_depth` */
};

/* What a committed line holds, and is cleared right after. Of merged frames, with the index of the entry, or of the
 * function's histogram, from bit 8 on. */
enum {
    PIANO_CLEAR_NOW = 1,
    PIANO_CLEAR_KEPT = 2,
    PIANO_CLEAR_MERGED = 4,
    PIANO_CLEAR_MERGED_FN = 8
};

/* Who may change a block's lines: its thread sets CHANGING and WRITING, the exiting thread of the program sets TAKEN, for good. */
enum { PIANO_CLAIM_CHANGING = 1, PIANO_CLAIM_WRITING = 2, PIANO_CLAIM_TAKEN = 4 };

enum piano__thread_state { PIANO_THREAD_FREE = 0, PIANO_THREAD_RUNNING, PIANO_THREAD_ENDED };

/* What the watcher found in one burst of looks at a thread: a function, and ticks given to it. */
enum { PIANO_BURST = 32 };
struct piano__found {
    uint32_t slot; /* index */
    int64_t ticks;
};

struct piano__thread {
    struct piano__head
        none; /* the beginning is shared with the inline probe: struct __piano_thread */
    uint64_t limit;
    uint64_t owner;
    uint64_t counted;
    uint64_t probing; /* a probe times a call: the watcher ignores what it finds meanwhile */

    int64_t attributed; /* ticks given to functions so far, but for those in `counted` */
    int64_t overhead;   /* 1/256 ticks the probes themselves took, likewise */
    int64_t raw;        /* the part of it that was charged to functions */
    int64_t correction; /* ticks that samples have added to what counted calls were priced at */
    double variance;    /* the sum of the squares of these */
    uint64_t real_limit;
    uint64_t seq;
    uint64_t random;
    uintptr_t busy; /* the stack address of the call that changes the tables; 0: none does */
    uint32_t depth;
    uint32_t state;
    uint32_t number; /* in the run file; never reused */
    int32_t tid;
    uint32_t now_list;
    uint32_t kept_list;
    uint32_t sampled_list; /* every function that has ever been sampled on this block */
    int32_t kept_depth;    /* the frame level `kept` belongs to; -1 = outside any */
    uint32_t chain;        /* levels open as first calls, see frame.c */
    uint32_t parent_thread;
    int32_t parent_fn;
    int64_t born;      /* ticks */
    int64_t last_tick; /* of the last timed exit */
    int64_t last_flush;
    uintptr_t stack_low; /* where this thread's stack is mapped, once asked for */
    uintptr_t stack_high;
    union { /* one store commits a line and says that the tallies in it are void */
        uint64_t commit;
        struct {
            uint32_t text_len; /* bytes of `text`; the lower half of `commit` */
            uint32_t clearing; /* PIANO_CLEAR_*: they are in `text`, and not yet cleared */
        };
    };
    char name[PIANO_NAME_BYTES];

    /* Frames closed on this thread. */
    uint64_t frames;
    int64_t brake;       /* 1/16: what strata are multiplied with because timing takes too much */
    int64_t frame_fns;   /* 1/16: sampled functions in a frame, a running mean */
    int64_t frame_work;  /* 1/256 ticks: of `overhead`, what frames and readings of CPU time took */
    int64_t budget_tick; /* what the probes may take, see mode.c */
    int64_t budget_spent;
    int64_t share;
    int64_t density;      /* how densely calls are sampled, see mode.c */
    int64_t target;       /* timed calls may take 1/target of the time */
    int64_t target_tick;  /* when it last changed */
    int64_t pace;         /* of fenced probes, see span/pace.h; 0 until known */
    int64_t look_tick;    /* when the watcher last looked at the thread, */
    uint32_t look_slot;   /* and the function it found, by index; */
    uint32_t burst_count; /* what it found in its last burst of looks, */
    struct piano__found burst[PIANO_BURST];
    uint64_t burst_counted; /* and `counted` and `seq` then. It alone writes these. */
    uint64_t burst_seq;
    uint32_t watched; /* the thread has noticed that the watcher runs */
    int64_t pair_ticks;
    int32_t pairs;
    int32_t next_pair;  /* fenced calls until it is taken again */
    int64_t token_tick; /* token bucket of frame lines */
    int64_t tokens;
    int64_t
        deep_tokens; /* for lines below the outermost level, of which there may be many by mistake */
    int64_t median_wall; /* ticks; 0 until known */
    uint32_t walls_seen;
    uint32_t walls[PIANO_HIST_BUCKETS]; /* ns, for the median */
    /* While `text` goes into the run file: 1 + a size that the file had before. Else 0. */
    uint64_t flush_at;
    uint32_t claim; /* PIANO_CLAIM_* */
    /* While a tally is replaced, 2 * (slot + 1) + 1 if `kept` of that slot is `moved` and `now` is void, 2 * (slot + 1) if `now` is
     * `moved` and nothing is pending. Else 0. */
    uint32_t moving;
    struct piano__tally moved;

    /* Time off the CPU, ns: see target/span/onoff.c. */
    struct piano__offcpu look;
    int64_t look_soon; /* ticks: when the next reading is worth it for a function with long calls */
    int64_t look_late; /* and when for any */
    int64_t off_base;  /* the clock less the CPU time, when `look.off` was 0 */
    int64_t runq_base; /* the kernel's count when `look.runq` was 0 */
    int64_t runq_off;  /* `look.off` when the kernel was last asked for `look.runq` */
    int64_t off_skipped;  /* not in `look.off`: while the profiler was at work */
    int64_t runq_skipped; /* the same of `look.runq` */
    uint32_t runq_file;   /* 1 + index of the open schedstat; 0: none */
    uint32_t
        looked_depth; /* open calls below it have a `look`; those above began with the present one */
} __attribute__((aligned(64)));

/* Bytes of the run file that the image belongs to. */
struct piano__written {
    const char *data;
    size_t len;
};

/* Calls SINK with text (whole lines, each ending in a newline; several per call possible) that is not in the file WRITTEN. Trusts
 * nothing in IMAGE: returns 0, or -EINVAL when it is not a live image of this version. */
int piano__live_lines(const void *image, size_t size, struct piano__written written,
                      void (*sink)(void *ctx, const char *text, size_t len), void *ctx);

/* The same for one block, as of END ticks: for threads that still run when the program exits. LOOK is what was
 * read of it just now, or NULL. */
void piano__live_thread(const struct piano__live_header *header, const void *block, int64_t end,
                        const struct piano__offcpu *look,
                        void (*sink)(void *ctx, const char *text, size_t len), void *ctx);

#endif
