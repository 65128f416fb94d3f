/* Every instrumented function the process knows, by number. Numbers are never reused; a function that
 * appears again (a header's inline function in many units, a library loaded twice) keeps its number. */
#ifndef PIANO_TARGET_SPAN_REGISTRY_H
#define PIANO_TARGET_SPAN_REGISTRY_H

#include <stdint.h>

struct piano__function {
    const char *name; /* our own copies: the unit may be unloaded */
    const char *file;
    uint32_t line;
    uint32_t flags;
    uint64_t hash;
};

/* Functions registered so far; any thread, acquire (pairs with the release in `__piano_register`). */
uint32_t piano__registry_count(void);
const struct piano__function *piano__registry_get(uint32_t id);
/* Functions of units that were left unregistered. */
uint32_t piano__registry_refused(void);

/* In a forked child: who was registering something is not there. */
void piano__registry_forget(void);

/* What the units say about the run; NULL or empty when none did. */
const char *piano__registry_runs_dir(void);
const char *piano__registry_frame_fn(void);

#endif
