/* Names and their numbers: text goes into the recording once. Any thread; look-ups are lock-free. Not from a signal handler that
 * interrupts the same (events.c sees to that). */
#ifndef PIANO_TARGET_TRACE_NAMES_H
#define PIANO_TARGET_TRACE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PIANO_NAMES = 16 * 1024, /* by default */
    PIANO_NAME_BYTES = 1000, /* of a name; what is behind is cut off */
};

/* Room for MOST names; false when there is no memory. Once per recording. */
bool piano__names_init(uint32_t most);
/* In a forked child. */
void piano__names_forget(void);
/* The number of NAME, new or old; 0 for NULL and when there is no room for it, which is counted. */
uint32_t piano__names_intern(const char *name);
/* The same of a name with the address FUNCTION in it, so that the tool can name that. */
uint32_t piano__names_intern_at(const char *name, uintptr_t function);

#endif
