/* The clock of the probes: the processor's time-stamp counter if it is invariant and the kernel
 * trusts it, else CLOCK_MONOTONIC in nanoseconds.
 *
 * A plain counter read does not wait for earlier instructions. A fenced read has a barrier before
 * and after it, so code between two fenced reads runs between them. calibrate.c measures the cost
 * of each. */
#ifndef PIANO_TARGET_SYS_CLOCK_H
#define PIANO_TARGET_SYS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Set once by piano__clock_init(), before any thread is attached. */
extern bool piano__clock_is_counter;

static inline int64_t piano__monotonic_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline int64_t piano__counter(void)
{
#if defined(__x86_64__)
    uint32_t lo, hi;
    __asm__ __volatile__("rdtsc" : "=a"(lo), "=d"(hi)::"memory");
    return (int64_t)((uint64_t)hi << 32 | lo);
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value)::"memory");
    return (int64_t)value;
#else
    return piano__monotonic_ns();
#endif
}

static inline void piano__clock_fence(void)
{
#if defined(__x86_64__)
    __asm__ __volatile__("lfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

static inline int64_t piano__ticks(void)
{
    return __builtin_expect(piano__clock_is_counter, 1) ? piano__counter() : piano__monotonic_ns();
}

static inline int64_t piano__ticks_fenced(void)
{
    piano__clock_fence();
    int64_t now = piano__ticks();
    piano__clock_fence();
    return now;
}

/* Waits for everything before it. Later instructions may start before the read. */
static inline int64_t piano__ticks_end(void)
{
    piano__clock_fence();
    return piano__ticks();
}

/* Chooses the clock. Only the first call has an effect. */
void piano__clock_init(void);

/* The same moment on both clocks. */
struct piano__clock_pair {
    uint64_t ticks;
    uint64_t mono_ns;
};
struct piano__clock_pair piano__clock_pair(void);

#endif
