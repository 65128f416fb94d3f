/* Measures and prints the truth of the programs in this folder, which profilers are compared with.
 *
 * Functions run chains of dependent multiplications. Each call counts its steps, and between two frames the program
 * times pieces of an uninstrumented chain. Steps x ns per step is a function's self time without the profiler's cost. */
#ifndef PIANO_BENCH_TRUTH_H
#define PIANO_BENCH_TRUTH_H

#include <stdio.h>
#include <stdlib.h>

#define CHAIN_STATE static __thread
#include "../chain.h"

#define FN __attribute__((noinline, noclone))
#define TWIN __attribute__((noinline, noclone, no_instrument_function))

enum {
    FUNCTIONS_MOST = 128,
    PIECE = 20000, /* steps of a piece */
    PIECES = 1 << 16,
    SHARE = 20, /* 1 / SHARE of the run goes into pieces */
};

struct tally {
    long calls, steps, made; /* made: calls of other functions of the table */
};

static __thread struct tally tallies[FUNCTIONS_MOST];
static struct tally sums[FUNCTIONS_MOST];

/* A call of NAME that works for STEPS. */
#define WORK(name, steps_)                                                                         \
    do {                                                                                           \
        int work_ = (steps_);                                                                      \
        tallies[ID_##name].calls++;                                                                \
        tallies[ID_##name].steps += work_;                                                         \
        CHAIN(work_);                                                                              \
    } while (0)
#define MADE(name, calls_) (tallies[ID_##name].made += (calls_))

static double pieces[PIECES]; /* ns per step */
static int piece_count;

TWIN static void piece(void)
{
    double start = clock_ns(CLOCK_MONOTONIC);
    CHAIN(PIECE);
    double took = clock_ns(CLOCK_MONOTONIC) - start;
    int at = __atomic_fetch_add(&piece_count, 1, __ATOMIC_RELAXED);
    pieces[at % PIECES] = took / PIECE;
}

/* Called after each frame. */
TWIN static void pulse(void)
{
    static __thread double since, owed;
    double now = clock_ns(CLOCK_MONOTONIC);
    owed += since ? (now - since) / SHARE : 0;
    for (since = now; owed > PIECE; since = now) {
        piece();
        now = clock_ns(CLOCK_MONOTONIC);
        owed -= now - since;
    }
}

static double began;

TWIN static void begin(void)
{
    began = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* At the end of each thread. */
TWIN static void sum_up(void)
{
    for (int i = 0; i < FUNCTIONS_MOST; i++) {
        __atomic_fetch_add(&sums[i].calls, tallies[i].calls, __ATOMIC_RELAXED);
        __atomic_fetch_add(&sums[i].steps, tallies[i].steps, __ATOMIC_RELAXED);
        __atomic_fetch_add(&sums[i].made, tallies[i].made, __ATOMIC_RELAXED);
    }
}

/* Replaces qsort, which allocates for large arrays, because allocations are compared too. */
TWIN static void sort(double *v, int n)
{
    for (int gap = n / 2; gap > 0; gap /= 2)
        for (int i = gap; i < n; i++) {
            double x = v[i];
            int k = i;
            for (; k >= gap && v[k - gap] > x; k -= gap)
                v[k] = v[k - gap];
            v[k] = x;
        }
}

/* Prints `fn NAME CALLS LOW TRUTH HIGH MADE` for each function, in ns of total self time. LOW uses the fastest piece, HIGH
 * includes all interruptions of the pieces, and TRUTH excludes interruptions longer than two pieces.
 * `spent NS STEPS CALLS` is the CPU time without the pieces, that of the steps, and the number of calls. Without a profiler,
 * the difference is the cost of the calls. */
TWIN static void tell(const char *const *names, int count)
{
    double spent = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began, all = 0, most = 0, steps = 0;
    int n = piece_count < PIECES ? piece_count : PIECES, kept = 0;
    long calls = 0;
    for (int i = 0; i < n; i++)
        spent -= pieces[i] * PIECE;
    for (; piece_count < 32; n = piece_count)
        piece();
    sort(pieces, n);
    for (int i = 0; i < n; i++) {
        all += pieces[i] / n;
        if (pieces[i] < 3 * pieces[n / 2])
            most += pieces[i], kept++;
    }
    double low = pieces[n / 100], truth = most / kept;
    for (int i = 0; i < count; i++) {
        const struct tally *t = &sums[i];
        steps += t->steps * all;
        calls += t->calls;
        if (t->calls)
            printf("fn %s %ld %.0f %.0f %.0f %ld\n", names[i], t->calls, t->steps * low,
                   t->steps * truth, t->steps * all, t->made);
    }
    printf("step %.4f %.4f %.4f\nspent %.0f %.0f %ld\n", low, truth, all, spent, steps, calls);
}

/* Prints that NAME makes the frame INDEX of ROOT slow. */
TWIN static void spike(const char *root, int index, const char *name)
{
    printf("spike %s %d %s\n", root, index, name);
}

#endif
