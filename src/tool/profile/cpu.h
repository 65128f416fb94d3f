/* CPU samples of a recording, by function.
 *
 * The self time of a function counts the samples whose innermost frame it is. Its total counts
 * all samples whose stack contains it, once per sample. Inlined functions count as functions.
 * Time off the CPU counts for every function of the stack, because the function that waits is
 * seldom the one that made the system call. */
#ifndef PIANO_TOOL_PROFILE_CPU_H
#define PIANO_TOOL_PROFILE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/profile/profile.h"

struct cpu_row {
    const char *function, *module, *file; /* FILE may be NULL */
    uint64_t self_ns, total_ns;
    uint64_t self_samples, total_samples;
    double self_squares; /* see struct recording_sum */
    uint64_t off_ns;     /* off the CPU in it or in its callees */
    uint32_t seen;       /* the last stack counted for it, + 1; used while rows are built */
};

/* Functions of a selection of samples. */
struct cpu_flat {
    struct cpu_row *rows; /* by self time, largest first */
    size_t count, cap;
    uint64_t cpu_ns, samples, off_ns, preempted_ns, switches;
};

/* A process, or a thread of one. */
struct cpu_part {
    uint32_t pid, tid; /* TID 0: the whole process */
    uint64_t cpu_ns, samples, off_ns, preempted_ns;
};

struct cpu {
    struct profile *profile;
    const struct recording *rec;
    struct cpu_part *processes, *threads; /* most CPU time first */
    size_t process_count, thread_count;
};

/* Names the stacks of CPU samples. P must outlive C. 0, or negative errno with ERROR filled. */
int cpu_make(struct cpu *c, struct profile *p, struct run_error *error);
void cpu_release(struct cpu *c);

/* Functions of PID (0: all processes), thread TID (0: all threads). 0 or negative errno. */
int cpu_flat_make(struct cpu_flat *f, struct cpu *c, uint32_t pid, uint32_t tid);
/* Functions of all samples, also of those that were read before (`recording_read_new`). */
int cpu_flat_all(struct cpu_flat *f, const struct cpu *c);
void cpu_flat_release(struct cpu_flat *f);

/* "name (4711)", safe to show. */
const char *cpu_thread_name(char *text, size_t size, const struct recording *rec, uint32_t tid);
/* "cpu-clock at 99 Hz" */
const char *cpu_source_text(char *text, size_t size, const struct recording *rec);

#endif
