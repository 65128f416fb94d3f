/* Chooses the clock; see clock.h. */
#include "target/sys/clock.h"

#include <string.h>

#include "target/sys/file.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool piano__clock_is_counter;

static bool counter_is_invariant(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

/* The kernel checks the counter against other clocks, and stops using it if it is unreliable. If
 * the file does not exist, the counter is trusted. */
static bool kernel_trusts_counter(void)
{
#if defined(__x86_64__)
    char name[32];
    int len = piano__file_read("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                               name, sizeof name);
    return len <= 0 || strncmp(name, "tsc", 3) == 0 || strncmp(name, "kvm-clock", 9) == 0 ||
           strncmp(name, "hyperv", 6) == 0;
#else
    return true;
#endif
}

void piano__clock_init(void)
{
    /* The run and the recording both call this. They must get the same answer. */
    static bool is_decided;
    if (is_decided)
        return;
    is_decided = true;
    piano__clock_is_counter = counter_is_invariant() && kernel_trusts_counter();
}

/* The thread may be preempted between the reads, so the closest of several tries is used. */
struct piano__clock_pair piano__clock_pair(void)
{
    enum { TRIES = 4 };
    struct piano__clock_pair best = {0, 0};
    int64_t narrowest = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t before = piano__ticks_fenced();
        int64_t ns = piano__monotonic_ns();
        int64_t width = piano__ticks_fenced() - before;
        if (width < 0 || width >= narrowest)
            continue;
        narrowest = width;
        best.ticks = (uint64_t)(piano__clock_is_counter ? before + width / 2 : ns);
        best.mono_ns = (uint64_t)ns;
    }
    return best;
}
