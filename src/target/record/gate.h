/* Who may write to the recording now. The gate lies in a page of its own that the kernel wipes in a forked child, however that
 * was made: a child that was forked behind the C library's back finds it shut, and the recording, which it shares with its
 * parent, stays untouched. */
#ifndef PIANO_TARGET_RECORD_GATE_H
#define PIANO_TARGET_RECORD_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct piano__gate {
    uint32_t recording; /* there is one, and it is this process's own */
    uint32_t sampling;  /* heap: new blocks */
    uint32_t following; /* heap: frees of those sampled before */
    uint32_t events;    /* and by which clock: trace/events.c */
    uint32_t cpu;       /* samples by the program itself */
};

extern struct piano__gate *piano__gate __attribute__((visibility("hidden")));

static inline bool piano__gate_is_open(const uint32_t *flag)
{
    /* Pairs with the release in `piano__gate_set`: who finds it open finds the tables. */
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void piano__gate_set(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* Once before the first `piano__gate_set`; false when there is no such page to be had. */
bool piano__gate_make(void);
/* All shut. */
void piano__gate_shut(void);

#endif
