/* Which clock to use; see clock.h. */
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

/* The kernel watches the counter against other clocks and leaves it when it is not to be trusted. A machine
 * without that file gets the benefit of the doubt. */
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
    piano__clock_is_counter = counter_is_invariant() && kernel_trusts_counter();
}
