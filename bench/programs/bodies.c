/* Functions of known length, for checking what a profiler says about them.
 *
 * Run plain, the program times each case itself (clock_gettime around many calls, nothing inside) and prints
 * `name calls least mean` lines: the truth. Run under a profiler the same output is ignored. */
#include <stdio.h>
#include <stdlib.h>

#include "chain.h"

enum {
    CHILDREN = 50000, /* of each call of a parent */
    PARENTS = 20,
};

#define BODY(name, steps)                                                                          \
    __attribute__((noinline)) void name(void)                                                      \
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

__attribute__((noinline)) void parent_of_calls(void)
{
    for (int i = 0; i < CHILDREN; i++)
        short_call();
    CHAIN(850000);
}

__attribute__((noinline)) void parent_of_allocs(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        void *p = malloc(64);
        __asm__ __volatile__("" ::"r"(p) : "memory");
        free(p);
    }
    CHAIN(850000);
}

struct spent {
    double least; /* of ten batches: interruptions only ever add */
    double mean;  /* what a profiler that adds up everything can know */
};

static struct spent per_call(void (*body)(void), int calls)
{
    struct spent ns = {1e18, 0};
    for (int batch = 0; batch < 10; batch++) {
        double start = clock_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < calls / 10; i++)
            body();
        double spent = (clock_ns(CLOCK_MONOTONIC) - start) / (calls / 10);
        ns.least = spent < ns.least ? spent : ns.least;
        ns.mean += spent / 10;
    }
    return ns;
}

/* What the calls cost is the caller's; DIFFERENT is what of NS is not the function's own. */
static void tell(const char *name, int calls, struct spent ns, double different)
{
    printf("%s %d %.2f %.2f\n", name, calls, ns.least - different, ns.mean - different);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*body)(void);
        int calls;
    } cases[] = {
        {"body_12ns", body_12ns, 1000000},  {"body_30ns", body_30ns, 500000},
        {"body_100ns", body_100ns, 200000}, {"body_300ns", body_300ns, 100000},
        {"body_1us", body_1us, 50000},      {"body_3us", body_3us, 20000},
        {"body_10us", body_10us, 5000},     {"body_100us", body_100us, 500},
        {"body_1ms", body_1ms, 50},
    };
    double call = per_call(body_empty, 100000).least;
    struct spent short_ns = per_call(short_call, 100000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tell(cases[i].name, cases[i].calls, per_call(cases[i].body, cases[i].calls), call);
    double children = CHILDREN * (short_ns.least - call);
    tell("short_call", 100000 + PARENTS * CHILDREN, short_ns, call);
    tell("parent_of_calls", PARENTS, per_call(parent_of_calls, PARENTS), call + children);
    tell("parent_of_allocs", PARENTS, per_call(parent_of_allocs, PARENTS), call);
    return state == 0;
}
