/* Measures the cost of two clock reads around a body, and the error of the time between them.
 *
 * Prints a line for each way to read: `cost`, the ns of the pair beyond an empty body, and for
 * each other length of the body how much the measured time exceeds it. All are minima of many rounds. */
#define _GNU_SOURCE
#include <stdio.h>

#include "chain.h"

enum { CALLS = 2000, ROUNDS = 60, LENGTHS = 4 };
static const int lengths[LENGTHS] = {0, 4, 20, 100};

static inline __attribute__((always_inline)) uint64_t tsc(void)
{
    uint32_t low, high;
    __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

static inline __attribute__((always_inline)) uint64_t tscp(void)
{
    uint32_t low, high;
    __asm__ __volatile__("rdtscp" : "=a"(low), "=d"(high)::"memory", "rcx");
    return (uint64_t)high << 32 | low;
}

static inline __attribute__((always_inline)) void fence(void)
{
    __asm__ __volatile__("lfence" ::: "memory");
}

struct result {
    double all, window; /* ns, ticks */
};

#define WAY(name, before, read1, after, before2, read2, after2)                                    \
    static struct result name(int steps)                                                           \
    {                                                                                              \
        struct result best = {1e18, 0};                                                            \
        for (int round = 0; round < ROUNDS; round++) {                                             \
            uint64_t sum = 0;                                                                      \
            double start = clock_ns(CLOCK_MONOTONIC);                                              \
            for (int i = 0; i < CALLS; i++) {                                                      \
                before;                                                                            \
                uint64_t first = read1;                                                            \
                after;                                                                             \
                CHAIN(steps);                                                                      \
                before2;                                                                           \
                sum += read2 - first;                                                              \
                after2;                                                                            \
            }                                                                                      \
            double all = (clock_ns(CLOCK_MONOTONIC) - start) / CALLS;                              \
            if (all < best.all)                                                                    \
                best = (struct result){all, (double)sum / CALLS};                                  \
        }                                                                                          \
        return best;                                                                               \
    }

WAY(bare, , 0, , , 0, )
WAY(plain, , tsc(), , , tsc(), )
WAY(one_fence, fence(), tsc(), , fence(), tsc(), )
WAY(p_plain, , tscp(), , , tscp(), )
WAY(late_fence, , tsc(), fence(), fence(), tsc(), )
WAY(fenced_open, fence(), tsc(), fence(), fence(), tsc(), )
WAY(p_fenced, , tscp(), fence(), , tscp(), )
WAY(fenced, fence(), tsc(), fence(), fence(), tsc(), fence())

int main(void)
{
    static const struct {
        const char *name;
        struct result (*run)(int);
    } ways[] = {{"rdtsc|rdtsc", plain},
                {"lfence;rdtsc|lfence;rdtsc", one_fence},
                {"rdtscp|rdtscp", p_plain},
                {"rdtsc;lfence|lfence;rdtsc", late_fence},
                {"lfence;rdtsc;lfence|lfence;rdtsc", fenced_open},
                {"rdtscp;lfence|rdtscp", p_fenced},
                {"lfence;rdtsc;lfence|lfence;rdtsc;lfence", fenced}};
    double from = clock_ns(CLOCK_MONOTONIC);
    uint64_t first = tsc();
    while (clock_ns(CLOCK_MONOTONIC) - from < 2e7)
        ;
    double ns_per_tick = (clock_ns(CLOCK_MONOTONIC) - from) / (double)(tsc() - first);
    struct result alone[LENGTHS];
    for (int i = 0; i < LENGTHS; i++)
        alone[i] = bare(lengths[i]);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        printf("%s %.1f", ways[w].name, ways[w].run(0).all - alone[0].all);
        for (int i = 1; i < LENGTHS; i++)
            printf(" %.1f", ways[w].run(lengths[i]).window * ns_per_tick - alone[i].all);
        printf("\n");
    }
    return 0;
}
