/* Functions of known length, for checking what a profiler says about them.
 *
 * Every body is a chain of dependent multiplications, so its length does not depend on what runs around it.
 * Run plain, the program times each case itself (clock_gettime around many calls, nothing inside) and prints
 * `name calls ns` lines: the truth. Run under a profiler the same output is ignored. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state = 1;

static inline __attribute__((always_inline)) void chain(int steps)
{
    uint64_t x = state;
    for (int i = 0; i < steps; i++) {
        x = x * 0x5851f42d4c957f2du + 1;
        __asm__ __volatile__("" : "+r"(x));
    }
    state = x;
}

#define BODY(name, steps)                                                                          \
    __attribute__((noinline)) void name(void)                                                      \
    {                                                                                              \
        chain(steps);                                                                              \
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
    for (int i = 0; i < 50000; i++)
        short_call();
    chain(850000);
}

__attribute__((noinline)) void parent_of_allocs(void)
{
    for (int i = 0; i < 50000; i++) {
        void *p = malloc(64);
        __asm__ __volatile__("" ::"r"(p) : "memory");
        free(p);
    }
    chain(850000);
}

static double now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* The least of several batches: interruptions only ever add. */
static double per_call(void (*body)(void), int calls)
{
    double best = 1e18;
    for (int batch = 0; batch < 10; batch++) {
        double start = now_ns();
        for (int i = 0; i < calls / 10; i++)
            body();
        double spent = (now_ns() - start) / (calls / 10);
        best = spent < best ? spent : best;
    }
    return best;
}

struct one {
    const char *name;
    void (*body)(void);
    int calls;
};

int main(void)
{
    static const struct one cases[] = {
        {"body_12ns", body_12ns, 1000000},
        {"body_30ns", body_30ns, 500000},
        {"body_100ns", body_100ns, 200000},
        {"body_300ns", body_300ns, 100000},
        {"body_1us", body_1us, 50000},
        {"body_3us", body_3us, 20000},
        {"body_10us", body_10us, 5000},
        {"body_100us", body_100us, 500},
        {"body_1ms", body_1ms, 50},
        {"parent_of_calls", parent_of_calls, 20},
        {"parent_of_allocs", parent_of_allocs, 20},
    };
    double call = per_call(body_empty, 100000);
    double short_ns = per_call(short_call, 100000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ns = per_call(cases[i].body, cases[i].calls);
        if (strcmp(cases[i].name, "parent_of_calls") == 0)
            ns -= 50000 * (short_ns - call);
        else
            ns -= call;
        printf("%s %d %.2f\n", cases[i].name, cases[i].calls, ns);
    }
    printf("# %d\n", (int)(state & 1));
    return 0;
}
