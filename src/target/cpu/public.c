/* The CPU profiler's part of the installed interface, include/piano.h. */
#include "piano.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "target/cpu/cpu.h"
#include "target/sys/recording.h"

#define EXPORT __attribute__((visibility("default")))

_Static_assert((int)PIANO_SOURCE_CPU_CLOCK == (int)PIANO_CPU_CLOCK &&
                   (int)PIANO_SOURCE_CYCLES == (int)PIANO_CPU_CYCLES &&
                   (int)PIANO_SOURCE_TIMERS == (int)PIANO_CPU_TIMERS,
               "one numbering");

/* Fields that the caller's older header lacks are 0, and have their default meaning. */
EXPORT int piano_cpu_start(const struct piano_cpu_options *options)
{
    struct piano_cpu_options o = {.size = sizeof o};
    const unsigned char *from = (const unsigned char *)options;
    if (options && (options->size < sizeof o.size || options->size > 4096))
        return -EINVAL;
    for (size_t i = 0; options && i < options->size; i++) {
        if (i < sizeof o)
            ((unsigned char *)&o)[i] = from[i];
        else if (from[i] != 0)
            return -EINVAL; /* an option that this library does not know */
    }
    struct piano__cpu_wish wish = {.hz = o.frequency_hz ? o.frequency_hz : PIANO_CPU_HZ,
                                   .source = o.source ? o.source : PIANO_CPU_TIMERS,
                                   .kernel = o.include_kernel};
    if (wish.hz > PIANO_CPU_MOST_HZ || wish.source > PIANO_CPU_TIMERS || o.include_kernel > 1)
        return -EINVAL;
    if (wish.kernel && wish.source == PIANO_CPU_TIMERS)
        return -ENOTSUP;
    return piano__cpu_start(&wish);
}

EXPORT int piano_cpu_stop(void)
{
    return piano__cpu_stop();
}

static uint64_t get(const uint64_t *counter)
{
    /* Relaxed: a counter. */
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

EXPORT int piano_cpu_stats(struct piano_cpu_stats *out)
{
    const struct piano__rec_header *h = piano__recording.view.header;
    if (!h || !piano__gate_is_open(&piano__gate->recording) || !(h->flags & PIANO_REC_HAS_CPU))
        return -ENOTCONN;
    bool is_on = piano__cpu_is_on();
    *out = (struct piano_cpu_stats){.source = h->trace.cpu_source,
                                    .frequency_hz = (uint32_t)h->trace.cpu_hz,
                                    .is_sampling = is_on,
                                    .threads = is_on ? piano__cpu_threads_count() : 0,
                                    .samples = get(&h->trace.samples),
                                    .unwound = get(&h->trace.samples_unwound),
                                    .lost = get(&h->trace.samples_lost),
                                    .threads_missed = get(&h->trace.threads_missed)};
    return 0;
}
