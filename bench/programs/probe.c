/* Loads that show the cost of one enter+exit pair of a probe.
 *
 *   probe leaf N     N calls of a 4 ns leaf
 *   probe fib N      fib(N), about 1.3 ns per call
 *   probe game N     N frames of 1.1 ms over ten functions of 12 ns to 1 us
 *   probe frames N   N frames of 11 us over the same functions: shows the cost of frames
 *
 * Prints `calls cpu_ns wall_ns` of the loop only. The figure does not include a profiler's start-up and
 * what it writes at the end, so that fewer calls are enough for slow profilers.
 *
 * With -DBARE every function reads the TSC at its begin and at its end and adds up the difference: the minimum
 * cost of timing every call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"

#ifdef BARE
static uint64_t bare_sum;

static inline __attribute__((always_inline)) uint64_t read_tsc(void)
{
    uint32_t low, high;
    __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

static inline __attribute__((always_inline)) void read_again(const uint64_t *begin)
{
    bare_sum += read_tsc() - *begin;
}
#define PROBE const uint64_t begin __attribute__((cleanup(read_again))) = read_tsc();
#else
#define PROBE
#endif

#define BODY(name, steps)                                                                          \
    static __attribute__((noinline)) void name(void)                                               \
    {                                                                                              \
        PROBE                                                                                      \
        CHAIN(steps);                                                                              \
    }

BODY(leaf, 4)
BODY(g_input, 10)
BODY(g_net, 20)
BODY(g_timer, 30)
BODY(g_anim, 42)
BODY(g_path, 68)
BODY(g_ai, 119)
BODY(g_audio, 187)
BODY(g_cull, 272)
BODY(g_draw, 395)
BODY(g_physics, 850)

static __attribute__((noinline)) int fib(int n)
{
    PROBE
    if (n < 2)
        return n;
    int sum = fib(n - 1);
    int last = fib(n - 2);
    /* Keeps the second call from becoming a loop: every variant makes the same calls. */
    __asm__ __volatile__("" : "+r"(last));
    return sum + last;
}

static const struct {
    void (*body)(void);
    int calls;
} parts[] = {
    {g_input, 30}, {g_net, 20},  {g_timer, 15}, {g_anim, 12}, {g_path, 10},
    {g_ai, 10},    {g_audio, 6}, {g_cull, 4},   {g_draw, 4},  {g_physics, 3},
};
enum { PARTS = sizeof parts / sizeof *parts };

static __attribute__((noinline)) void update(int rounds)
{
    PROBE
    for (; rounds > 0; rounds--)
        for (int i = 0; i < PARTS; i++)
            for (int k = 0; k < parts[i].calls; k++)
                parts[i].body();
}

static long run_load(const char *load, int n)
{
    if (strcmp(load, "leaf") == 0) {
        for (int i = 0; i < n; i++)
            leaf();
        return n;
    }
    if (strcmp(load, "fib") == 0) {
        long calls = 1, before = 1; /* fib(k) makes 1 + those of fib(k-1) + those of fib(k-2) */
        for (int k = 2; k <= n; k++) {
            long next = 1 + calls + before;
            before = calls;
            calls = next;
        }
        state += (uint64_t)fib(n);
        return calls;
    }
    int rounds = strcmp(load, "game") == 0 ? 100 : strcmp(load, "frames") == 0 ? 1 : 0;
    long calls = 1;
    for (int i = 0; i < PARTS; i++)
        calls += (long)rounds * parts[i].calls;
    for (int i = 0; rounds > 0 && i < n; i++)
        update(rounds);
    return rounds > 0 ? calls * n : 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    double wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    long calls = run_load(argv[1], atoi(argv[2]));
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = clock_ns(CLOCK_MONOTONIC) - wall;
    printf("%ld %.0f %.0f\n", calls, cpu, wall);
    return calls == 0 || state == 0;
}
