/* Frames without a line of their own: sums and histograms by root.
 *
 * The structure follows the text in a thread's block (live.h). Some roots have an entry each;
 * the last entry is for all other roots. For each function in the frames of an entry, a
 * histogram counts the self times per frame. `table` finds it (open addressing by entry and
 * function). The size is fixed: functions beyond PIANO_MERGED_FNS are only counted in `unlisted`
 * of their entry. */
#ifndef PIANO_COMMON_MERGED_H
#define PIANO_COMMON_MERGED_H

#include <stdint.h>

#include "common/hist.h"

enum {
    PIANO_MERGED_ROOTS = 16,
    PIANO_MERGED_REST = PIANO_MERGED_ROOTS,     /* the entry for all other roots */
    PIANO_MERGED_WALLS = 40 * PIANO_HIST_STEPS, /* up to 2^44 ns; longer frames count in the last
                                                 * bucket */
    PIANO_MERGED_FNS = 256,
    PIANO_MERGED_TABLE = 2 * PIANO_MERGED_FNS,
    PIANO_MERGED_STEP = 4,      /* hist.h buckets per bucket of a function: 8 per power of two */
    PIANO_MERGED_BUCKETS = 256, /* up to 2^36 ns */
};

struct piano__merged_root {
    uint64_t frames;
    uint64_t used; /* the thread's frame count when a frame was last added */
    int64_t wall;  /* ticks */
    int64_t max;
    uint32_t root; /* not valid for PIANO_MERGED_REST */
    int32_t depth;
    int32_t under;     /* function, -1 = none */
    uint32_t unlisted; /* how often a function in a frame found no free histogram */
    uint64_t looked;   /* frames with known CPU time; their sums follow, ns */
    int64_t looked_wall;
    int64_t cpu;
    int64_t runq; /* waiting for a CPU; -1: unknown for some of them */
};

struct piano__merged_fn {
    uint32_t id;
    uint16_t entry; /* index into roots */
    uint16_t used;
    uint16_t counts[PIANO_MERGED_BUCKETS]; /* self time in a frame, ns */
};

struct piano__merged {
    uint32_t in_use;   /* entries with frames */
    uint32_t fn_count; /* at most PIANO_MERGED_FNS */
    struct piano__merged_root roots[PIANO_MERGED_ROOTS + 1];
    uint16_t table[PIANO_MERGED_TABLE];                         /* 1 + index into fns */
    uint32_t walls[PIANO_MERGED_ROOTS + 1][PIANO_MERGED_WALLS]; /* per entry, ns */
    struct piano__merged_fn fns[PIANO_MERGED_FNS];
} __attribute__((aligned(64)));

static inline unsigned piano__merged_bucket(int64_t self_ns)
{
    unsigned bucket = piano__hist_bucket(self_ns > 0 ? (uint64_t)self_ns : 0) / PIANO_MERGED_STEP;
    return bucket < PIANO_MERGED_BUCKETS ? bucket : PIANO_MERGED_BUCKETS - 1;
}

#endif
