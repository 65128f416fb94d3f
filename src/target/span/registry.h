/* All instrumented functions known to the process, by number. Numbers are never reused. A function
 * that appears again (inline in a header, or in a library loaded twice) keeps its number. */
#ifndef PIANO_TARGET_SPAN_REGISTRY_H
#define PIANO_TARGET_SPAN_REGISTRY_H

#include <stdint.h>

struct piano__function {
    const char *name; /* copied, because the unit may be unloaded */
    const char *file;
    uint32_t line;
    uint32_t flags;
    uint64_t hash;
};

/* Number of functions registered so far. The acquire pairs with the release in
 * `__piano_register`. */
uint32_t piano__registry_count(void);
const struct piano__function *piano__registry_get(uint32_t id);
/* Number of functions in units that were left unregistered. */
uint32_t piano__registry_refused(void);

/* In a forked child: releases a lock whose holder does not exist in the child. */
void piano__registry_forget(void);

/* Rust crates call it in a constructor if they wrap the program's allocator, and count what it does
 * (common/probe.rs). Otherwise the allocations of a program with such an allocator are unknown. */
void __piano_counts_allocator(void) __attribute__((visibility("default")));

/* A setting of the run from the units; NULL or empty if no unit has it. */
const char *piano__registry_frame_fn(void);

#endif
