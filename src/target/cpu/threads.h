/* The threads whose CPU time is sampled, and what makes the kernel interrupt each of them: a timer
 * or a perf event. */
#ifndef PIANO_TARGET_CPU_THREADS_H
#define PIANO_TARGET_CPU_THREADS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/record/gate.h"
#include "target/unwind/walk.h"

struct piano__cpu_wish {
    uint32_t hz;
    uint32_t source; /* enum piano__cpu_source */
    bool kernel;     /* perf: also sample time in the kernel, with its frames */
};

/* A thread has one from when it is first found until its end. */
struct piano__cpu_thread {
    uint32_t tid;  /* 0: free */
    uint32_t next; /* number + 1 of the next free one */
    bool is_armed;
    bool is_outside; /* existed before sampling, and does not report its end */
    int timer;       /* the kernel's timer id */
    int fd;          /* perf event */
    uint64_t fd_id;
    void *ring;
    uint64_t first_due; /* 1 + CPU time at which the timer's first sample is due; 0: was taken */
    /* CPU time at the newest sample, if samples are weighted by it. */
    uint64_t last_ns;
    uint64_t begun_ns; /* CPU time when the thread was armed */
    /* CPU time that samples since then represent. Only the thread itself writes it, in its
     * handler. */
    uint64_t sampled_ns;
    uint32_t samples;
    char name[16]; /* as last recorded */
    /* State of the sample that is being taken. It does not fit on a small stack. */
    struct piano__walker walker;
    struct piano__regs regs;
    struct piano__walk walk;
    struct piano__cpu_chain {
        uint32_t depth;
        uint64_t pcs[PIANO_MAX_FRAMES / 2];
    } chain; /* kernel frames, innermost first */
};

static inline bool piano__cpu_is_on(void)
{
    return piano__gate_is_open(&piano__gate->cpu);
}

/* Allocates the table; returns false if there is no memory. Sets WISH and SIGNAL. The gate must be
 * shut. */
bool piano__cpu_threads_init(const struct piano__cpu_wish *wish, int signal);
/* Call in a forked child, where nothing is armed. */
void piano__cpu_threads_forget(void);
/* Arms every thread: the calling one, all existing ones, and new ones while the gate is open.
 * Returns 0, or a negative errno if the calling thread cannot be armed. The gate must be open. */
int piano__cpu_threads_arm(void);
/* Disarms all threads; the gate must be shut. Returns false if a thread may have armed itself at
 * the same time and will not notice soon. */
bool piano__cpu_threads_disarm(void);
/* Call in a new thread, before its first function. */
void piano__cpu_threads_attach(void);
/* Stops signals for the calling thread, so that none is pending; or starts them again. */
void piano__cpu_thread_pause(bool is_pause);
/* Counts the samples that are missing although the threads were running. */
void piano__cpu_threads_settle(void);
/* Returns the number of threads. */
uint32_t piano__cpu_threads_count(void);

/* Call in a handler: returns the thread if the signal is from its timer or event, else NULL. */
struct piano__cpu_thread *piano__cpu_thread_of(const siginfo_t *info);
/* Returns whether a signal with INFO may be piano's, of any thread and at any time. */
bool piano__cpu_may_be_ours(const siginfo_t *info);

#endif
