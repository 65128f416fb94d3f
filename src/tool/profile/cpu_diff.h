/* Comparison of the CPU samples of two recordings, by function. */
#ifndef PIANO_TOOL_PROFILE_CPU_DIFF_H
#define PIANO_TOOL_PROFILE_CPU_DIFF_H

#include "tool/profile/cpu.h"

/* One function, or the sum of all functions, on both sides, [0] and [1]. */
struct cpu_change {
    const char *function, *module;
    const char *file; /* or NULL */
    bool present[2];  /* on the CPU in it or in its callees */
    double self_ns[2], total_ns[2];
    double squares[2]; /* the variance of `self_ns` */
    uint64_t samples[2];
    double noise;   /* a larger change of self time is beyond the noise */
    bool is_beyond; /* this change is beyond the noise */
    /* Heap figures, if both sides recorded the heap. */
    double alloc_count[2], alloc_bytes[2];
};

struct cpu_diff {
    const struct recording *recs[2];
    const char *labels[2];
    struct cpu_change *rows; /* largest change of self time first */
    size_t count;
    struct cpu_change total;
    bool has_cpu, has_heap;
};

/* Compares the CPU samples of SIDES and the allocations of their functions in HEAPS. Either may
 * be NULL. 0 or -ENOMEM. All must outlive D. */
int cpu_diff_make(struct cpu_diff *d, struct cpu sides[2], const struct profile heaps[2],
                  const char *const labels[2]);
void cpu_diff_release(struct cpu_diff *d);

/* Whether it grew by more than PERCENT, beyond the noise, and is at least 1 % of the total of
 * side B. */
bool cpu_diff_grew(const struct cpu_diff *d, const struct cpu_change *c, double percent);

#endif
