/* The heap profiler's part of the installed interface, include/piano.h. */
#include "piano.h"

#include <errno.h>

#include "target/heap/heap.h"
#include "target/heap/stacks.h"
#include "target/heap/hooks.h"
#include "target/sys/recording.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int piano_heap_start(size_t mean_bytes)
{
    if (!piano__alloc_place)
        return -ENOSYS; /* linked statically: there are no hooks */
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
        .live_samples =
            h->stats.samples - h->stats.freed - h->stats.dropped_live - h->stats.dropped_memory,
        .freed_samples = h->stats.freed,
        .stacks = h->stats.stacks,
        .dropped = h->stats.dropped_live + h->stats.dropped_stacks + h->stats.dropped_memory +
                   h->stats.dropped_busy,
        .live_bytes = h->live_bytes,
        .live_objects = h->live_objects,
        .allocated_bytes = h->allocated_bytes,
        .peak_bytes = h->peak_bytes,
        .live_variance = h->live_variance,
        .room = piano__live_room(),
        .collisions = h->stats.collisions,
        .walks = h->stats.walked,
        .walked_frames = h->stats.walked_frames,
        .walks_cut = h->stats.walked_lost + h->stats.walked_full,
        .least_depth = h->stats.walked_least > 0 ? h->stats.walked_least - 1 : 0,
    };
    return 0;
}

EXPORT int piano_heap_blocks(int (*each)(void *arg, const struct piano_heap_block *block),
                             void *arg)
{
    if (!piano__heap_header())
        return -ENOTCONN;
    int count = 0;
    uint64_t records = piano__live_records();
    for (uint64_t i = 0; i < records; i++) {
        struct piano__block b;
        if (!piano__live_read(i, &b))
            continue;
        const struct piano__stack *s = piano__stacks_record(b.stack);
        struct piano__weight w = piano__poisson_weight(b.size, b.rate);
        struct piano_heap_block block = {.address = b.address,
                                         .size = b.size,
                                         .mean_bytes = b.rate,
                                         .birth_ns = b.birth_ns,
                                         .bytes = w.bytes,
                                         .objects = w.objects,
                                         .thread = b.thread,
                                         .stack = b.stack,
                                         .depth = s ? s->depth : 0,
                                         .pcs = s ? s->pcs : NULL};
        count++;
        if (each(arg, &block) != 0)
            break;
    }
    return count;
}

EXPORT void piano_heap_ignore(int on)
{
    piano__heap_ignore(on != 0);
}

EXPORT const char *piano_heap_recording(void)
{
    return piano__heap_header() ? piano__recording_path() : NULL;
}
