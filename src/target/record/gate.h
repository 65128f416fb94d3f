/* Says what may be written to the recording now. The gate is in a page of its own that the kernel
 * clears in a forked child, however the child was created. So a child that was forked without the C
 * library's fork() finds the gate shut and does not write to its parent's recording. */
#ifndef PIANO_TARGET_RECORD_GATE_H
#define PIANO_TARGET_RECORD_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct piano__gate {
    uint32_t recording; /* there is a recording, and it belongs to this process */
    uint32_t sampling;  /* heap: sample new blocks */
    uint32_t following; /* heap: track frees of sampled blocks */
    uint32_t events;    /* and which clock they use: trace/events.c */
    uint32_t cpu;       /* CPU samples taken by the program itself */
};

extern struct piano__gate *piano__gate __attribute__((visibility("hidden")));

static inline bool piano__gate_is_open(const uint32_t *flag)
{
    /* An open gate implies initialised tables: pairs with the release in piano__gate_set(). */
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void piano__gate_set(uint32_t *flag, uint32_t value)
{
    /* Pairs with the acquire in piano__gate_is_open(). */
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* Call it before the first `piano__gate_set`. Returns false if there is no such page. */
bool piano__gate_make(void);
/* Shuts all gates. */
void piano__gate_shut(void);

#endif
