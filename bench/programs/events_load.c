/* usage: events_load KIND PAIRS. Alternates between two events of one kind and two reads of the counter. Prints the CPU
 * nanoseconds per read of the counter and per event, including the loop. Linked with libpiano.so. */
#include <piano.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 20000, TASKS = 1000 };

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
#else
    uint64_t value;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value)::"memory");
    return value;
#endif
}

static void reads(uint64_t base)
{
    static volatile uint64_t sink;
    (void)base;
    for (int i = 0; i < BATCH; i++) {
        sink = counter();
        sink = counter();
    }
}

static void polls(uint64_t base)
{
    for (uint64_t i = 0; i < BATCH; i++) {
        piano_poll_begin(base + i % TASKS * 64);
        piano_poll_end();
    }
}

static void wakes(uint64_t base)
{
    for (uint64_t i = 0; i < BATCH; i++) {
        piano_wake(base + i % TASKS);
        piano_queue_depth(1, i % 100);
    }
}

static void names(uint64_t base)
{
    (void)base;
    for (int64_t i = 0; i < BATCH; i++) {
        piano_mark("a name of some length");
        piano_value("another name", i);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(uint64_t);
        uint64_t base;
    } kinds[] = {{"small", polls, 0},
                 {"pointers", polls, 0x7f0000000000},
                 {"wakes", wakes, 0},
                 {"names", names, 0}};
    int64_t pairs = argc == 3 ? atoll(argv[2]) : 0, read = 0, events = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (argc != 3 || strcmp(argv[1], kinds[k].name) != 0)
            continue;
        for (int64_t done = 0; done < pairs; done += BATCH) {
            int64_t a = now_ns();
            reads(0);
            int64_t b = now_ns();
            kinds[k].run(kinds[k].base);
            read += b - a;
            events += now_ns() - b;
        }
        pairs = (pairs + BATCH - 1) / BATCH * BATCH;
        printf("%.3f %.3f\n", (double)read / 2 / (double)pairs, (double)events / 2 / (double)pairs);
        return 0;
    }
    return 2;
}
