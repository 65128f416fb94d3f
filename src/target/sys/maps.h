/* The mappings of the process, as the kernel lists them: pthread_getattr_np and the like would allocate. */
#ifndef PIANO_TARGET_SYS_MAPS_H
#define PIANO_TARGET_SYS_MAPS_H

#include <stdbool.h>
#include <stdint.h>

struct piano__maps_range {
    uintptr_t low, high;
    bool is_file; /* also memory that is shared */
};

/* The mapping that ADDRESS is in; false when it is in none, or nobody can say. Some microseconds and more. errno is the caller's to keep. */
bool piano__maps_find(struct piano__maps_range *range, uintptr_t address);

#endif
