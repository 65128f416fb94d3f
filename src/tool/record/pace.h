/* Decides whether the kernel copies long or short stacks of threads that leave their CPUs. */
#ifndef PIANO_TOOL_RECORD_PACE_H
#define PIANO_TOOL_RECORD_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_FAST = 2000,   /* switches per second: stacks are short above this */
    PACE_SLOW = 1000,   /* and long again after a second below this */
    PACE_STORM = 20000, /* above this, only a part of the stacks is taken */
};

struct pace {
    bool is_fast;
    bool is_storm;
    uint64_t begin_ns;     /* of the first look */
    uint64_t at_ns, count; /* of the newest look that had a rate */
    uint64_t slow_ns;      /* the rate is below PACE_SLOW since then; 0: it is not */
};

/* COUNT: switches up to NOW_NS (CLOCK_MONOTONIC). HAS_LOST: stacks were lost since the last look.
 * Updates and returns `is_fast`. */
bool pace_look(struct pace *p, uint64_t now_ns, uint64_t count, bool has_lost);
/* Must the rings be read often? They must if switches are fast, and at the start, when the rate is
 * not known yet. Not in a storm: a full ring then limits how many stacks are copied and walked. */
bool pace_hurries(const struct pace *p);

#endif
