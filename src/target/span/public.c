/* The installed interface, include/piano.h. */
#include "piano.h"

#include "target/span/run.h"

#ifndef PIANO_VERSION
#define PIANO_VERSION "0"
#endif

__attribute__((visibility("default"))) const char *piano_version(void)
{
    return PIANO_VERSION;
}

__attribute__((visibility("default"))) int piano_is_recording(void)
{
    return __atomic_load_n(&piano__run.state, __ATOMIC_RELAXED) == PIANO_RUN_ON;
}
