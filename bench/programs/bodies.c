/* Functions of known length, to check the figures of a profiler.
 *
 * Each has a twin that does the same and is never instrumented. The program times the twins (clock_gettime around many
 * calls), alternately with calls of the instrumented functions, and prints `name calls least mean` lines: the truth
 * for the same period that the profiler saw. */
#include <stdio.h>
#include <stdlib.h>

#include "chain.h"

enum {
    CHILDREN = 50000, /* calls that each call of a parent makes */
    PARENTS = 20,
};

#define TWIN __attribute__((noinline, no_instrument_function))

#define BODY(name, steps)                                                                          \
    __attribute__((noinline)) void name(void)                                                      \
    {                                                                                              \
        CHAIN(steps);                                                                              \
    }                                                                                              \
    TWIN void twin_of_##name(void)                                                                 \
    {                                                                                              \
        CHAIN(steps);                                                                              \
    }

BODY(body_empty, 0)
BODY(body_12ns, 10)
BODY(body_30ns, 25)
BODY(body_100ns, 85)
BODY(body_300ns, 255)
BODY(body_1us, 850)
BODY(body_3us, 2550)
BODY(body_10us, 8500)
BODY(body_100us, 85000)
BODY(body_1ms, 850000)
BODY(short_call, 10)

#define CALLS(child)                                                                               \
    do {                                                                                           \
        for (int i = 0; i < CHILDREN; i++)                                                         \
            child();                                                                               \
        CHAIN(850000);                                                                             \
    } while (0)

__attribute__((noinline)) void parent_of_calls(void)
{
    CALLS(short_call);
}

TWIN void twin_of_parent_of_calls(void)
{
    CALLS(twin_of_short_call);
}

#define ALLOCATIONS(malloc, free)                                                                  \
    do {                                                                                           \
        for (int i = 0; i < CHILDREN; i++) {                                                       \
            void *p = malloc(64);                                                                  \
            __asm__ __volatile__("" ::"r"(p) : "memory");                                          \
            free(p);                                                                               \
        }                                                                                          \
        CHAIN(850000);                                                                             \
    } while (0)

__attribute__((noinline)) void parent_of_allocs(void)
{
    ALLOCATIONS(malloc, free);
}

/* The twin calls glibc's malloc directly, not a profiler's. */
void *__libc_malloc(size_t size);
void __libc_free(void *p);

TWIN void twin_of_parent_of_allocs(void)
{
    ALLOCATIONS(__libc_malloc, __libc_free);
}

struct spent {
    double
        least; /* of a hundred pieces: interruptions only add time, and one comes every millisecond or two */
    double mean; /* what a profiler that times every call measures */
};

static void call(void (*body)(void), int calls)
{
    for (int i = 0; i < calls; i++)
        body();
}

/* Times the TWIN. BODY is called as often, before or after it. */
static struct spent per_call(void (*body)(void), void (*twin)(void), int calls)
{
    struct spent ns = {1e18, 0};
    for (int batch = 0; batch < 10; batch++) {
        if (batch % 2)
            call(body, calls / 10);
        int piece = calls >= 100 ? calls / 100 : 1, pieces = calls / 10 / piece;
        for (int i = 0; i < pieces; i++) {
            double start = clock_ns(CLOCK_MONOTONIC);
            call(twin, piece);
            double spent = (clock_ns(CLOCK_MONOTONIC) - start) / piece;
            ns.least = spent < ns.least ? spent : ns.least;
            ns.mean += spent / 10 / pieces;
        }
        if (batch % 2 == 0)
            call(body, calls / 10);
    }
    return ns;
}

/* The cost of the calls belongs to the caller. DIFFERENT is the part of NS that belongs to callees. */
static void tell(const char *name, int calls, struct spent ns, double different)
{
    printf("%s %d %.2f %.2f\n", name, calls, ns.least - different, ns.mean - different);
}

#define CASE(name) #name, name, twin_of_##name

int main(void)
{
    static const struct {
        const char *name;
        void (*body)(void), (*twin)(void);
        int calls;
    } cases[] = {
        {CASE(body_12ns), 1000000}, {CASE(body_30ns), 500000}, {CASE(body_100ns), 200000},
        {CASE(body_300ns), 100000}, {CASE(body_1us), 50000},   {CASE(body_3us), 20000},
        {CASE(body_10us), 5000},    {CASE(body_100us), 500},   {CASE(body_1ms), 50},
    };
    double empty = per_call(body_empty, twin_of_body_empty, 100000).least;
    struct spent short_ns = per_call(short_call, twin_of_short_call, 100000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tell(cases[i].name, cases[i].calls, per_call(cases[i].body, cases[i].twin, cases[i].calls),
             empty);
    double children = CHILDREN * (short_ns.least - empty);
    tell("short_call", 100000 + PARENTS * CHILDREN, short_ns, empty);
    tell("parent_of_calls", PARENTS, per_call(parent_of_calls, twin_of_parent_of_calls, PARENTS),
         empty + children);
    tell("parent_of_allocs", PARENTS, per_call(parent_of_allocs, twin_of_parent_of_allocs, PARENTS),
         empty);
    return state == 0;
}
