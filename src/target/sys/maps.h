/* The mappings of the process, as the kernel lists them. pthread_getattr_np and similar functions
 * would allocate. */
#ifndef PIANO_TARGET_SYS_MAPS_H
#define PIANO_TARGET_SYS_MAPS_H

#include <stdbool.h>
#include <stdint.h>

struct piano__maps_range {
    uintptr_t low, high;
    bool is_file; /* also true for shared memory */
};

/* Finds the mapping that contains ADDRESS. Returns false if there is none, or if /proc is not
 * available. Takes at least some microseconds. May change errno. */
bool piano__maps_find(struct piano__maps_range *range, uintptr_t address);

#endif
