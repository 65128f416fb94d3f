/* Work of a known length, and the clocks that the benchmark programs use. */
#ifndef PIANO_BENCH_CHAIN_H
#define PIANO_BENCH_CHAIN_H

#include <stdint.h>
#include <time.h>

#ifndef CHAIN_STATE
#define CHAIN_STATE static /* programs with threads say static __thread */
#endif

CHAIN_STATE uint64_t state = 1;

/* A chain of dependent multiplications. Its time does not depend on the code around it. It is a macro,
 * so that no profiler sees it as a function. */
#define CHAIN(steps)                                                                               \
    do {                                                                                           \
        uint64_t x = state;                                                                        \
        for (int step = 0; step < (steps); step++) {                                               \
            x = x * 0x5851f42d4c957f2du + 1;                                                       \
            __asm__ __volatile__("" : "+r"(x));                                                    \
        }                                                                                          \
        state = x;                                                                                 \
    } while (0)

__attribute__((no_instrument_function)) static double clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

#endif
