/* The threads whose CPU time is sampled, and what makes the kernel interrupt each of them: a timer, or a perf event. */
#ifndef PIANO_TARGET_CPU_THREADS_H
#define PIANO_TARGET_CPU_THREADS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/record/gate.h"
#include "target/unwind/walk.h"

/* How to sample. */
struct piano__cpu_wish {
    uint32_t hz;
    uint32_t source; /* enum piano__cpu_source */
    bool kernel;     /* of perf: time in the kernel too, with the kernel's frames */
};

/* A thread has one from when it is first known to its end. */
struct piano__cpu_thread {
    uint32_t tid;  /* 0: free */
    uint32_t next; /* in the list of free ones, their number + 1 */
    bool is_armed;
    bool is_outside; /* it was there before, and will not say when it ends */
    int timer;       /* the kernel's number */
    int fd;          /* perf */
    uint64_t fd_id;
    void *ring;
    uint64_t
        last_ns; /* its CPU time at the newest sample, where that is what they are weighed by */
    uint64_t begun_ns;   /* its CPU time when it was armed */
    uint64_t sampled_ns; /* that samples stand for since; by the thread itself, in the handler */
    uint32_t samples;
    char name[16]; /* as it was last recorded */
    /* Of the sample being taken: a small stack has no room for it. */
    struct piano__walker walker;
    struct piano__regs regs;
    struct piano__walk walk;
    struct piano__cpu_chain {
        uint32_t depth;
        uint64_t pcs[PIANO_MAX_FRAMES / 2];
    } chain; /* the kernel's frames, innermost first */
};

static inline bool piano__cpu_is_on(void)
{
    return piano__gate_is_open(&piano__gate->cpu);
}

/* Room for them; false when there is no memory. From now on WISH and SIGNAL are what counts; the gate is shut. */
bool piano__cpu_threads_init(const struct piano__cpu_wish *wish, int signal);
/* In a forked child, where nothing is armed. */
void piano__cpu_threads_forget(void);
/* From now on every thread is interrupted: the calling one, all there are, and, as long as the gate is open, new ones. 0, or
 * negative errno when it cannot be done for the calling one. The gate must be open. */
int piano__cpu_threads_arm(void);
/* None any more; the gate is shut. False when one may be left that armed itself in this moment, and will not notice soon. */
bool piano__cpu_threads_disarm(void);
/* For a new thread, before its first function. */
void piano__cpu_threads_attach(void);
/* The calling thread is not interrupted, and no signal for it is on its way; or it is again. */
void piano__cpu_thread_pause(bool is_pause);
/* Counts what the samples do not stand for, although the threads were running. */
void piano__cpu_threads_settle(void);
/* How many there are. */
uint32_t piano__cpu_threads_count(void);

/* In a handler: the thread, when the signal is of what was armed for it; else NULL. */
struct piano__cpu_thread *piano__cpu_thread_of(const siginfo_t *info);
/* Whether a signal with INFO may be ours, of whatever thread and time. */
bool piano__cpu_may_be_ours(const siginfo_t *info);

#endif
