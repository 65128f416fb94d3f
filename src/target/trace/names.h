/* Numbers names: each text goes into the recording once. Any thread; look-ups are lock-free. Must
 * not be called from a signal handler that interrupted another call (events.c ensures this). */
#ifndef PIANO_TARGET_TRACE_NAMES_H
#define PIANO_TARGET_TRACE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PIANO_NAMES = 16 * 1024, /* default */
    PIANO_NAME_BYTES = 1000, /* longer names are truncated */
};

/* Makes room for MOST names. Returns false if there is no memory. Once per recording. */
bool piano__names_init(uint32_t most);
/* Call in a forked child. */
void piano__names_forget(void);
/* Returns the number of NAME, and adds it if it is new. Returns 0 for NULL, and if there is no room
 * for it, which is counted. */
uint32_t piano__names_intern(const char *name);
/* The same for a name that contains the address FUNCTION, so that the tool can resolve it. */
uint32_t piano__names_intern_at(const char *name, uintptr_t function);

#endif
