/* The heap profiler's part of the installed interface, include/piano.h. */
#include "piano.h"

#include <errno.h>

#include "target/heap/heap.h"
#include "target/preload/place.h"
#include "target/sys/recording.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int piano_heap_start(size_t mean_bytes)
{
    if (!piano__alloc_place)
        return -ENOSYS; /* linked statically: there are no hooks that could see anything */
    return mean_bytes == 0 ? -EINVAL : piano__heap_start(mean_bytes);
}

EXPORT int piano_heap_stop(void)
{
    return piano__heap_stop();
}

EXPORT int piano_heap_shutdown(void)
{
    return piano__heap_shutdown();
}

EXPORT int piano_heap_snapshot(void)
{
    return piano__heap_snapshot();
}

EXPORT int piano_heap_stats(struct piano_heap_stats *out)
{
    const struct piano__rec_header *h = piano__heap_header();
    if (!h)
        return -ENOTCONN;
    *out = (struct piano_heap_stats){
        .mean_bytes = h->rate,
        .samples = h->stats.samples,
        .live_samples = h->stats.samples - h->stats.freed,
        .freed_samples = h->stats.freed,
        .stacks = h->stats.stacks,
        .dropped = h->stats.dropped_live + h->stats.dropped_stacks + h->stats.dropped_memory +
                   h->stats.dropped_busy,
        .live_bytes = h->live_bytes,
        .live_objects = h->live_objects,
        .allocated_bytes = h->allocated_bytes,
        .peak_bytes = h->peak_bytes,
        .live_variance = h->live_variance,
    };
    return 0;
}
