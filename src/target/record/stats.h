/* The event counters in the recording's header. */
#ifndef PIANO_TARGET_RECORD_STATS_H
#define PIANO_TARGET_RECORD_STATS_H

#include <stdint.h>

#include "target/sys/recording.h"

/* Never returns NULL: without a recording, it returns counters that are not used. */
static inline struct piano__trace *piano__trace_stats(void)
{
    static struct piano__trace nobody;
    /* Pairs with the release in piano__recording_create(). */
    struct piano__rec_header *h = __atomic_load_n(&piano__recording.view.header, __ATOMIC_ACQUIRE);
    return h ? &h->trace : &nobody;
}

static inline void piano__trace_add(uint64_t *counter, uint64_t count)
{
    __atomic_fetch_add(counter, count, __ATOMIC_RELAXED);
}

#endif
